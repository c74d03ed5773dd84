/* Bench_emulate: operations a second of making plans, emulating them and finding their critical
 * path, apart and together, and how much memory that takes. Prints a table; each figure is the
 * median of several rounds, of the time of one processor, with what the kernel does for it.
 *
 * W1 is the workload of w1.h in order of time; "by stream" has the same ops as the store gives
 * them, in chunks of one stream each; "waves" has kernels that fill the device on many streams of
 * few threads, so that all wait for room; "events" has a mark and a wait in each few ops.
 * "emulator" is from ops at hand to the end of the emulation, "all" with the critical path; bytes
 * are of an op, at the most. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/plan/critical.h"
#include "core/plan/emulate.h"
#include "core/plan/plan.h"
#include "tests/bench/load.h"
#include "tests/bench/w1.h"

#define ROUNDS	     9
#define WAVE_STREAMS 32
#define CHUNK	     4096 /* ops */
#define EVENTS	     16
#define KIB	     1024

enum fn { FN_RECORD = W1_FUNCTION_COUNT, FN_WAIT, FN_COUNT };

struct shape {
	const char *name;
	uint32_t ops;
	void (*make)(struct op *op, uint32_t count);
	bool changed;
};

static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void make_w1(struct op *op, uint32_t count)
{
	struct w1 w1 = w1_start();

	for (uint32_t i = 0; i < count; i++)
		w1_next(&w1, &op[i]);
}

static int compare_chunks(const void *a, const void *b)
{
	const struct op *x = *(struct op *const *)a, *y = *(struct op *const *)b;

	return x->start_ns < y->start_ns ? -1 : 1;
}

/* Chunks in order of their start. */
static void make_by_stream(struct op *op, uint32_t count)
{
	struct op *made = calloc(count, sizeof(*made)), *of[W1_STREAMS], **chunk, *next;
	uint32_t in[W1_STREAMS] = { 0 }, chunks = 0;

	chunk = calloc(count / CHUNK + W1_STREAMS, sizeof(*chunk));
	next = calloc((count / CHUNK + W1_STREAMS) * CHUNK, sizeof(*next));
	if (!made || !chunk || !next)
		abort();
	make_w1(made, count);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t stream = made[i].stream - 1;

		if (in[stream]++ % CHUNK == 0) {
			of[stream] = next + (size_t)chunks * CHUNK;
			chunk[chunks++] = of[stream];
		}
		*of[stream]++ = made[i];
	}
	qsort(chunk, chunks, sizeof(*chunk), compare_chunks);
	for (uint32_t i = 0; i < chunks; i++)
		for (uint32_t k = 0; k < CHUNK && chunk[i][k].start_ns; k++)
			*op++ = chunk[i][k];
	free(made);
	free(chunk);
	free(next);
}

/* One kernel runs at a time; each stream has its turn. */
static void make_waves(struct op *op, uint32_t count)
{
	struct load_state state = { .seed = 0x9e3779b97f4a7c15 };
	uint64_t now_ns = 1000000, busy_ns = 0;

	for (uint32_t i = 0; i < count; i++) {
		now_ns += 1000 + load_random(&state, 1000);
		busy_ns = (busy_ns > now_ns + 3000 ? busy_ns : now_ns + 3000) + 500;
		op[i] = (struct op){ .start_ns = now_ns,
				     .end_ns = now_ns + 900,
				     .gpu_start_ns = busy_ns,
				     .process = W1_PROCESS,
				     .stream = 1 + i % WAVE_STREAMS,
				     .tid = W1_TID + i % 4,
				     .fn = W1_LAUNCH,
				     .kind = OP_LAUNCH,
				     .flags = OP_EXACT | OP_RETURNED,
				     .grid = { 10000, 1, 1 },
				     .block = { 1024, 1, 1 } };
		busy_ns += 500 + load_random(&state, 1000);
		op[i].gpu_end_ns = busy_ns;
	}
}

/* Of each eight ops of W1 one records an event, and the next waits for one of another stream. */
static void make_events(struct op *op, uint32_t count)
{
	make_w1(op, count);
	for (uint32_t i = 0; i + 1 < count; i++) {
		if (i % 8 > 1 || op[i].kind != OP_LAUNCH)
			continue;
		op[i].kind = OP_EVENT;
		op[i].fn = i % 8 ? FN_WAIT : FN_RECORD;
		op[i].flags = OP_RETURNED;
		op[i].gpu_start_ns = op[i].gpu_end_ns = 0;
		op[i].handle = 1 + (i / 8 + (i % 8 ? EVENTS - 1 : 0)) % EVENTS;
	}
}

static void check(int r)
{
	if (r == 0)
		return;
	fprintf(stderr, "bench_emulate: %s\n", strerror(-r));
	exit(1);
}

static struct plan *plan_of(const struct op *op, uint32_t count)
{
	uint8_t effect[FN_COUNT] = {
		[FN_RECORD] = EFFECT_EVENT_RECORD, [FN_WAIT] = EFFECT_STREAM_WAIT
	};
	struct plan_builder *builder;
	struct plan *plan;

	for (int i = 0; i < W1_FUNCTION_COUNT; i++)
		effect[i] = w1_functions[i].effect;
	check(plan_builder_new(effect, FN_COUNT, count, &builder));
	check(plan_builder_device(builder, W1_PROCESS, 0, 132));
	for (uint32_t i = 0; i < count; i += CHUNK)
		check(plan_builder_add(builder, op + i, count - i < CHUNK ? count - i : CHUNK));
	check(plan_builder_end(builder, &plan));
	plan_builder_free(builder);
	return plan;
}

/* What is resident, or was at most since it was last forgotten: KiB; 0: the kernel does not tell.
 */
static long resident(const char *what)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[256];
	long kib = 0;

	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, what, strlen(what)) == 0)
			kib = strtol(line + strlen(what) + 1, NULL, 10);
	if (file)
		fclose(file);
	return kib;
}

static void forget_most(void)
{
	FILE *file = fopen("/proc/self/clear_refs", "w");

	if (!file)
		return;
	fputs("5", file);
	fclose(file);
}

static double rate(double *ns, uint32_t ops)
{
	return ops * 1e3 / median(ns, ROUNDS);
}

static void measure(const struct shape *shape)
{
	double build[ROUNDS], run[ROUNDS], path[ROUNDS], emulator[ROUNDS], all[ROUNDS];
	struct op *op = calloc(shape->ops, sizeof(*op));
	struct emulate_error error = { 0 };
	long before, most;

	if (!op)
		abort();
	shape->make(op, shape->ops);
	before = resident("VmRSS");
	forget_most();
	for (int i = 0; i < ROUNDS; i++) {
		struct emulate_result result;
		struct critical *critical;
		double begin = cpu_ns(), built, ran;
		struct plan *plan = plan_of(op, shape->ops);

		plan->changed = shape->changed;
		built = cpu_ns();
		check(emulate(plan, &result));
		ran = cpu_ns();
		check(critical_find(plan, result.times, &critical));
		all[i] = cpu_ns() - begin;
		build[i] = built - begin;
		run[i] = ran - built;
		emulator[i] = ran - begin;
		path[i] = all[i] - emulator[i];
		most = resident("VmHWM");
		critical_free(critical);
		check(emulate_compare(plan, result.times, &error));
		plan_times_free(result.times);
		plan_free(plan);
	}
	printf("%-16s %8u %7.2f %8.2f %8.2f %9.2f %7.2f %8.0f %9llu\n", shape->name, shape->ops,
	       rate(build, shape->ops), rate(run, shape->ops), rate(path, shape->ops),
	       rate(emulator, shape->ops), rate(all, shape->ops),
	       (double)(most - before) * KIB / shape->ops, (unsigned long long)error.p99_ns);
	free(op);
}

static const struct shape shapes[] = {
	{ "W1", 100000, make_w1, false },
	{ "W1", 1000000, make_w1, false },
	{ "W1, by stream", 1000000, make_by_stream, false },
	{ "W1, changed", 1000000, make_w1, true },
	{ "waves", 1000000, make_waves, false },
	{ "waves, changed", 1000000, make_waves, true },
	{ "events", 1000000, make_events, false },
};

int main(void)
{
	printf("%-16s %8s %7s %8s %8s %9s %7s %8s %9s\n", "M ops/s", "ops", "build", "emulate",
	       "critical", "emulator", "all", "bytes/op", "p99 ns");
	for (size_t i = 0; i < ARRAY_SIZE(shapes); i++)
		measure(&shapes[i]);
	return 0;
}
