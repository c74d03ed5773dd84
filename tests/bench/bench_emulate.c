/* Bench_emulate: operations a second of the emulator, and of making plans for it. Prints a table;
 * each figure is the median of several rounds, on one core. W1 is the workload of w1.h; "waves" has
 * kernels that fill the device on many streams of few threads, so that all wait for room. "all" is
 * from ops at hand to the end of the emulation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/emulate.h"
#include "core/plan.h"
#include "tests/bench/load.h"
#include "tests/bench/w1.h"

#define ROUNDS	     9
#define WAVE_STREAMS 32

struct shape {
	const char *name;
	uint32_t ops;
	bool waves, changed;
};

static const struct shape shapes[] = {
	{ "W1", 100000, false, false },
	{ "W1", 1000000, false, false },
	{ "W1, changed", 1000000, false, true },
	{ "waves", 1000000, true, false },
	{ "waves, changed", 1000000, true, true },
};

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

static void make(const struct shape *shape, struct op *op)
{
	struct w1 w1 = w1_start();

	if (shape->waves)
		make_waves(op, shape->ops);
	for (uint32_t i = 0; i < shape->ops && !shape->waves; i++)
		w1_next(&w1, &op[i]);
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
	uint8_t effect[W1_FUNCTION_COUNT];
	struct plan_builder *builder;
	struct plan *plan;

	for (int i = 0; i < W1_FUNCTION_COUNT; i++)
		effect[i] = w1_functions[i].effect;
	check(plan_builder_new(effect, W1_FUNCTION_COUNT, count, &builder));
	check(plan_builder_device(builder, W1_PROCESS, 0, 132));
	check(plan_builder_add(builder, op, count));
	check(plan_builder_end(builder, &plan));
	plan_builder_free(builder);
	return plan;
}

static void measure(const struct shape *shape)
{
	double build[ROUNDS], run[ROUNDS], all[ROUNDS];
	struct op *op = calloc(shape->ops, sizeof(*op));
	struct emulate_error error = { 0 };

	if (!op)
		abort();
	make(shape, op);
	for (int i = 0; i < ROUNDS; i++) {
		struct emulate_result result;
		double begin = now_ns(), built;
		struct plan *plan = plan_of(op, shape->ops);

		plan->changed = shape->changed;
		built = now_ns();
		check(emulate(plan, &result));
		all[i] = now_ns() - begin;
		build[i] = built - begin;
		run[i] = all[i] - build[i];
		check(emulate_compare(plan, result.times, &error));
		plan_times_free(result.times);
		plan_free(plan);
	}
	printf("%-16s %8u %12.1f %14.1f %12.1f %10.1f %14llu\n", shape->name, shape->ops,
	       shape->ops * 1e3 / median(build, ROUNDS), shape->ops * 1e3 / median(run, ROUNDS),
	       median(run, ROUNDS) / 1e6, median(all, ROUNDS) / 1e6,
	       (unsigned long long)error.p99_ns);
	free(op);
}

int main(void)
{
	printf("%-16s %8s %12s %14s %12s %10s %14s\n", "plan", "ops", "build Mop/s",
	       "emulate Mop/s", "emulate ms", "all ms", "p99 off ns");
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		measure(&shapes[i]);
	return 0;
}
