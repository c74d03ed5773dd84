/* Bench_export: from stored chunks to the bytes of each format, without daemon and disk.
 * Prints a table; figures are medians of several rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "client/export/export.h"
#include "core/base/array.h"
#include "core/sbt/sbt.h"
#include "tests/bench/load.h"
#include "tests/bench/w1.h"

#define ROUNDS	   5
#define CHUNKS	   123 /* about a million ops */
#define CHUNKS_MAX 256
#define W1_OPS	   1000000
#define STACKS	   64
#define FRAMES	   12
#define NAMES	   200

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
static const struct load bounds[] = { { "launch", load_launch },
				      { "train", load_train },
				      { "copy", load_copy },
				      { "alloc", load_alloc } };

static int count_bytes(void *data, const void *bytes, size_t size)
{
	*(size_t *)data += size;
	return 0;
}

static struct meta *make_w1_meta(void)
{
	struct meta *meta = NULL;
	char name[W1_NAME_BYTES];

	if (meta_new(&meta) < 0)
		abort();
	meta_add_process(meta, W1_PROCESS, W1_TID, "w1", "w1");
	meta_add_device(meta, W1_PROCESS, 0, "GPU");
	for (uint16_t fn = 1; fn < W1_FUNCTION_COUNT; fn++)
		meta_add_function(meta, fn, w1_functions[fn].name);
	for (uint32_t i = 1; i <= W1_NAMES; i++)
		meta_add_name(meta, i, w1_name(i, name));
	for (uint32_t id = 1; id <= W1_STREAMS; id++)
		meta_add_stream(meta, &(struct meta_stream){ .id = id,
							     .process = W1_PROCESS,
							     .handle = 0x5500 + id,
							     .context = 0xc0de });
	return meta;
}

/* Names for whatever the other loads refer to. */
static struct meta *make_meta(void)
{
	struct meta *meta = NULL;
	const struct meta_frame *frame[FRAMES];
	char name[64];

	if (meta_new(&meta) < 0)
		abort();
	meta_add_process(meta, 1, 4242, "bench", "bench --of exports");
	for (int fn = 1; fn < 200; fn++) {
		snprintf(name, sizeof(name), "cuFunction%d_v2", fn);
		meta_add_function(meta, fn, name);
	}
	for (uint64_t i = 1; i <= NAMES; i++) {
		snprintf(name, sizeof(name), "void kernel_%d<float, 128>(float const*)", (int)i);
		meta_add_name(meta, i, name);
	}
	for (uint64_t stack = 0; stack < STACKS; stack++) {
		for (uint64_t i = 0; i < FRAMES; i++) {
			snprintf(name, sizeof(name), "function_%d_%d", (int)stack, (int)i);
			frame[i] =
				meta_frame(meta, &(struct frame){ .function = name,
								  .module = "/usr/lib/libwork.so",
								  .offset = stack * FRAMES + i });
		}
		meta_add_stack(meta, stack + 1, frame, FRAMES);
	}
	return meta;
}

/* What an export reads. */
struct store {
	struct chunk {
		void *data;
		size_t size;
		uint64_t first_ns;
	} chunk[CHUNKS_MAX];
	size_t count, ops, bytes;
};

static void store_add(struct store *store, struct sbt_codec *codec, const struct op *op,
		      size_t count)
{
	struct chunk *chunk = &store->chunk[store->count++];
	const void *data;

	if (store->count > CHUNKS_MAX || sbt_encode(codec, op, count, &data, &chunk->size) < 0)
		abort();
	chunk->data = malloc(chunk->size);
	memcpy(chunk->data, data, chunk->size);
	chunk->first_ns = op->start_ns;
	store->ops += count;
	store->bytes += chunk->size;
}

static void store_clear(struct store *store)
{
	for (size_t i = 0; i < store->count; i++)
		free(store->chunk[i].data);
	*store = (struct store){ 0 };
}

/* One chunk, over and over. */
static void store_load(struct store *store, struct sbt_codec *codec, const struct load *load)
{
	load_make(load, 1, 1, SBT_OPS_MAX, ops);
	for (size_t i = 0; i < SBT_OPS_MAX; i++)
		if (ops[i].stack_id)
			ops[i].stack_id = ops[i].stack_id % STACKS + 1;
	for (int i = 0; i < CHUNKS; i++)
		store_add(store, codec, ops, SBT_OPS_MAX);
}

static int compare_chunks(const void *a, const void *b)
{
	const struct chunk *x = a, *y = b;

	return x->first_ns < y->first_ns ? -1 : x->first_ns > y->first_ns;
}

/* In chunks of a stream and kind, as the daemon packs them. */
static void store_w1(struct store *store, struct sbt_codec *codec)
{
	static struct op group[W1_STREAMS + 1][OP_KIND_MAX + 1][SBT_OPS_MAX];
	size_t count[W1_STREAMS + 1][OP_KIND_MAX + 1] = { 0 };
	struct w1 w1 = w1_start();
	struct op op;

	for (int i = 0; i < W1_OPS; i++) {
		size_t *at;

		w1_next(&w1, &op);
		at = &count[op.stream][op.kind];
		group[op.stream][op.kind][(*at)++] = op;
		if (*at < SBT_OPS_MAX)
			continue;
		store_add(store, codec, group[op.stream][op.kind], *at);
		*at = 0;
	}
	for (int stream = 1; stream <= W1_STREAMS; stream++)
		for (int kind = 1; kind <= OP_KIND_MAX; kind++)
			if (count[stream][kind] > 0)
				store_add(store, codec, group[stream][kind], count[stream][kind]);
	qsort(store->chunk, store->count, sizeof(struct chunk), compare_chunks);
}

/* Without a format: reads only. Returns the seconds it took, and the bytes that came out. */
static double export_all(const struct export_format *format, const struct meta *meta,
			 struct sbt_codec *codec, const struct store *store, size_t *ret_bytes)
{
	struct out_sink sink = { count_bytes, ret_bytes };
	struct export_run *x = NULL;
	struct sbt_info info;
	double begin = now_ns();

	*ret_bytes = format ? 0 : store->bytes;
	if (format && export_new(format, meta, &sink, &x) < 0)
		abort();
	for (size_t i = 0; i < store->count; i++)
		if (sbt_decode(codec, store->chunk[i].data, store->chunk[i].size, SBT_ALL_COLUMNS,
			       ops, &info) < 0 ||
		    (format && export_ops(x, ops, info.count) < 0))
			abort();
	if (format && export_end(x) < 0)
		abort();
	if (format)
		export_free(x);
	return (now_ns() - begin) / 1e9;
}

static void measure(const char *name, const struct export_format *format, const char *load,
		    const struct meta *meta, struct sbt_codec *codec, const struct store *store)
{
	double seconds[ROUNDS], middle, count = (double)store->ops;
	struct rusage usage;
	size_t bytes = 0;

	for (int i = 0; i < ROUNDS; i++)
		seconds[i] = export_all(format, meta, codec, store, &bytes);
	middle = median(seconds, ROUNDS);
	getrusage(RUSAGE_SELF, &usage);
	printf("%-10s %-10s %10.2f %10.0f %10.1f %12.1f\n", load, name, count / middle / 1e6,
	       (double)bytes / middle / 1e6, (double)bytes / count, (double)usage.ru_maxrss / 1024);
}

static void measure_all(const char *load, bool timed, const struct meta *meta,
			struct sbt_codec *codec, struct store *store)
{
	measure("(chunks)", NULL, load, meta, codec, store);
#define X(id, name, letter, argument, text, symbol)                                                \
	if (timed || !export_##symbol.exact)                                                       \
		measure(name, &export_##symbol, load, meta, codec, store);
	EXPORTS(X)
#undef X
	store_clear(store);
}

int main(void)
{
	struct meta *meta = make_meta(), *w1_meta = make_w1_meta();
	static struct store store;
	struct sbt_codec *codec;

	if (sbt_codec_new(&codec) < 0)
		return 1;
	printf("%-10s %-10s %10s %10s %10s %12s\n", "load", "format", "Mop/s", "MB/s", "bytes/op",
	       "max RSS MiB");
	store_w1(&store, codec);
	measure_all("W1", true, w1_meta, codec, &store);
	store_load(&store, codec, &exact);
	measure_all(exact.name, true, meta, codec, &store);
	for (size_t i = 0; i < ARRAY_SIZE(bounds); i++) {
		store_load(&store, codec, &bounds[i]);
		measure_all(bounds[i].name, false, meta, codec, &store);
	}
	sbt_codec_free(codec);
	meta_free(w1_meta);
	meta_free(meta);
	return 0;
}
