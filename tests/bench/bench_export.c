/* Bench_export: from stored chunks to the bytes of each format, without daemon and disk.
 * Prints a table; figures are medians of several rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "client/export.h"
#include "core/sbt.h"
#include "tests/bench/load.h"

#define ROUNDS 5
#define CHUNKS 123 /* about a million ops */
#define STACKS 64
#define FRAMES 12
#define NAMES  200

static struct op ops[SBT_OPS_MAX];

/* Launches that were recorded exactly: each is a call, a kernel on one of the device's rows, and a
 * flow between both. */
static void export_exact(struct load_state *state, struct op *op)
{
	load_train(state, op);
	op->flags = OP_EXACT | OP_RETURNED;
	op->end_ns = op->start_ns + 1500;
	op->gpu_start_ns = op->start_ns + 6000;
	op->gpu_end_ns = op->gpu_start_ns + 2000;
	op->seen_ns = (state->now_ns / 5000000 + 1) * 5000000;
	op->stack_id = (1 + load_random(state, 30)) * 0x9e3779b97f4a7c15;
	op->name = 1 + op->handle % NAMES;
	op->registers = 32 + op->handle % 64;
	op->static_bytes = 1024;
}

static const struct load exact = { "exact", export_exact };

static int count_bytes(void *data, const void *bytes, size_t size)
{
	*(size_t *)data += size;
	return 0;
}

/* Names for whatever the load refers to. */
static struct export_meta *make_meta(void)
{
	struct export_meta *meta = NULL;
	const struct export_frame *frame[FRAMES];
	char name[64];

	if (export_meta_new(&meta) < 0)
		abort();
	export_meta_add_process(meta, 1, 4242, "bench", "bench --of exports");
	for (int fn = 1; fn < 200; fn++) {
		snprintf(name, sizeof(name), "cuFunction%d_v2", fn);
		export_meta_add_function(meta, fn, name);
	}
	for (uint64_t i = 1; i <= NAMES; i++) {
		snprintf(name, sizeof(name), "void kernel_%d<float, 128>(float const*)", (int)i);
		export_meta_add_name(meta, i, name);
	}
	for (uint64_t stack = 0; stack < STACKS; stack++) {
		for (uint64_t i = 0; i < FRAMES; i++) {
			snprintf(name, sizeof(name), "function_%d_%d", (int)stack, (int)i);
			frame[i] = export_meta_frame(meta, &(struct export_frame_source){
								   .symbol = name,
								   .file = "/usr/lib/libwork.so",
								   .offset = stack * FRAMES + i });
		}
		export_meta_add_stack(meta, stack + 1, frame, FRAMES);
	}
	return meta;
}

/* Returns the seconds it took, and the bytes that came out. */
static double export_all(const struct export_format *format, const struct export_meta *meta,
			 struct sbt_codec *codec, const void *chunk, size_t size, size_t *ret_bytes)
{
	struct out_sink sink = { count_bytes, ret_bytes };
	struct exporter *x = NULL;
	struct sbt_info info;
	double begin = now_ns();

	*ret_bytes = 0;
	if (format->begin(meta, &sink, &x) < 0)
		abort();
	for (int i = 0; i < CHUNKS; i++)
		if (sbt_decode(codec, chunk, size, SBT_ALL_COLUMNS, ops, &info) < 0 ||
		    format->ops(x, ops, info.count) < 0)
			abort();
	if (format->end(x) < 0)
		abort();
	format->free(x);
	return (now_ns() - begin) / 1e9;
}

static void measure(const char *name, const struct export_format *format,
		    const struct export_meta *meta, struct sbt_codec *codec,
		    const struct load *load)
{
	double seconds[ROUNDS], middle, count = CHUNKS * (double)SBT_OPS_MAX;
	struct rusage usage;
	const void *data;
	size_t size, bytes = 0;
	void *chunk;

	load_make(load, 1, 1, SBT_OPS_MAX, ops);
	for (size_t i = 0; i < SBT_OPS_MAX; i++)
		if (ops[i].stack_id)
			ops[i].stack_id = ops[i].stack_id % STACKS + 1;
	if (sbt_encode(codec, ops, SBT_OPS_MAX, &data, &size) < 0)
		abort();
	chunk = malloc(size);
	memcpy(chunk, data, size);
	for (int i = 0; i < ROUNDS; i++)
		seconds[i] = export_all(format, meta, codec, chunk, size, &bytes);
	free(chunk);
	middle = median(seconds, ROUNDS);
	getrusage(RUSAGE_SELF, &usage);
	printf("%-10s %-10s %10.2f %10.0f %10.1f %12.1f\n", name, load->name, count / middle / 1e6,
	       (double)bytes / middle / 1e6, (double)bytes / count, (double)usage.ru_maxrss / 1024);
}

int main(void)
{
	struct export_meta *meta = make_meta();
	struct sbt_codec *codec;

	if (sbt_codec_new(&codec) < 0)
		return 1;
	printf("%-10s %-10s %10s %10s %10s %12s\n", "format", "load", "Mop/s", "MB/s", "bytes/op",
	       "max RSS MiB");
#define X(id, name, letter, argument, text, symbol)                                                \
	for (size_t i = 0; i < LOAD_COUNT && !export_##symbol.exact; i++)                          \
		measure(name, &export_##symbol, meta, codec, &loads[i]);                           \
	measure(name, &export_##symbol, meta, codec, &exact);
	EXPORTS(X)
#undef X
	sbt_codec_free(codec);
	export_meta_free(meta);
	return 0;
}
