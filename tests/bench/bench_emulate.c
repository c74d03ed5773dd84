/* Bench_emulate: operations a second of the emulator, and of what makes plans ready for it.
 * Prints a table; each figure is the median of several rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/emulate.h"
#include "core/plan.h"
#include "tests/bench/load.h"

#define ROUNDS	9
#define STREAMS 64

struct shape {
	const char *name;
	uint32_t ops, streams, threads;
	uint32_t sync; /* each so many ops a thread waits for a stream */
	bool changed;
};

/* One of ten is a wait; copies and kernels of W1 are as long as it says nothing of. */
static const struct shape shapes[] = {
	{ "W1", 100000, 8, 1, 10, false },	   { "W1", 1000000, 8, 1, 10, false },
	{ "W1 changed", 1000000, 8, 1, 10, true }, { "64 streams", 1000000, 64, 4, 0, false },
	{ "64 changed", 1000000, 64, 4, 0, true }, { "one stream", 1000000, 1, 1, 0, false },
};

struct stream_now {
	uint64_t end_ns;
	uint32_t last;
};

static struct plan *plan_new(uint32_t ops, const struct shape *shape)
{
	struct plan *plan = calloc(1, sizeof(*plan));

	plan->op = calloc(ops, sizeof(*plan->op));
	plan->call = calloc(ops, sizeof(*plan->call));
	plan->work = calloc(ops, sizeof(*plan->work));
	plan->edge = calloc(ops, sizeof(*plan->edge));
	plan->thread = calloc(shape->threads, sizeof(*plan->thread));
	plan->stream = calloc(STREAMS, sizeof(*plan->stream));
	plan->device = calloc(1, sizeof(*plan->device));
	plan->op_count = plan->call_count = ops;
	plan->thread_count = shape->threads;
	plan->stream_count = shape->streams;
	plan->device_count = 1;
	plan->device[0].multiprocessors = 132;
	plan->start_ns = 1000000;
	for (uint32_t i = 0; i < STREAMS; i++)
		plan->stream[i].stream = i + 1;
	return plan;
}

static void plan_done(struct plan *plan)
{
	free(plan->op);
	free(plan->call);
	free(plan->work);
	free(plan->edge);
	free(plan->thread);
	free(plan->stream);
	free(plan->device);
	free(plan);
}

static void add_work(struct plan *plan, struct stream_now *stream, uint32_t i, uint32_t number,
		     uint64_t ns)
{
	struct plan_call *call = &plan->call[i];
	uint64_t start_ns = call->start_ns + 4000;
	uint32_t index = plan->work_count++;

	if (stream->end_ns + 800 > start_ns)
		start_ns = stream->end_ns + 800;
	call->work = index;
	plan->work[index] = (struct plan_work){ .start_ns = start_ns,
						.end_ns = start_ns + ns,
						.op = i,
						.call = i,
						.next = PLAN_NONE,
						.stream = number,
						.before = stream->last,
						.engine = i % 10 < 7	? PLAN_ENGINE_COMPUTE
							  : i % 10 == 7 ? PLAN_ENGINE_HTOD
									: PLAN_ENGINE_DTOH };
	stream->end_ns = start_ns + ns;
	stream->last = index;
}

static struct plan *plan_make(const struct shape *shape)
{
	struct load_state state = { .seed = 0x9E3779B97F4A7C15, .now_ns = 1000000 };
	struct stream_now stream[STREAMS];
	struct plan *plan = plan_new(shape->ops, shape);
	uint32_t last[16];
	uint64_t free_ns[16] = { 0 };

	for (uint32_t i = 0; i < STREAMS; i++)
		stream[i] = (struct stream_now){ 0, PLAN_NONE };
	memset(last, 0xff, sizeof(last));
	for (uint32_t i = 0; i < shape->ops; i++) {
		uint32_t number = (uint32_t)load_random(&state, shape->streams);
		uint32_t thread = i % shape->threads;
		struct plan_call *call = &plan->call[i];
		struct op *op = &plan->op[i];

		state.now_ns += (2000 + load_random(&state, 3000)) / shape->threads;
		if (free_ns[thread] > state.now_ns)
			state.now_ns = free_ns[thread];
		*call = (struct plan_call){ .start_ns = state.now_ns,
					    .end_ns = state.now_ns + 1500 / shape->threads,
					    .op = i,
					    .thread = thread,
					    .before = last[thread],
					    .work = PLAN_NONE,
					    .edge = plan->edge_count };
		*op = (struct op){ .kind = OP_LAUNCH, .start_ns = call->start_ns };
		if (shape->sync && i % shape->sync == 9 && stream[number].last != PLAN_NONE) {
			plan->edge[plan->edge_count++] =
				(struct plan_edge){ stream[number].last, PLAN_EDGE_HOST };
			call->edge_count = 1;
			call->flags = PLAN_BLOCKS;
			if (stream[number].end_ns + 3000 > call->end_ns)
				call->end_ns = stream[number].end_ns + 3000;
		} else {
			op->grid[0] = 1 + (uint32_t)load_random(&state, 64);
			op->grid[1] = op->grid[2] = op->block[1] = op->block[2] = 1;
			op->block[0] = 256;
			add_work(plan, &stream[number], i, number,
				 2000 + load_random(&state, 3000));
		}
		call->delay_ns =
			(int64_t)(call->start_ns -
				  (last[thread] == PLAN_NONE ? plan->start_ns : free_ns[thread]));
		free_ns[thread] = call->end_ns;
		last[thread] = i;
		plan->end_ns = call->end_ns;
	}
	plan->changed = shape->changed;
	return plan;
}

static void measure(const struct shape *shape)
{
	double settle[ROUNDS], run[ROUNDS];
	struct emulate_error error = { 0 };
	struct plan *plan = plan_make(shape);

	for (int i = 0; i < ROUNDS; i++) {
		struct emulate_result result;
		double begin = now_ns();

		if (plan_settle(plan) < 0)
			abort();
		settle[i] = now_ns() - begin;
		begin = now_ns();
		if (emulate(plan, &result) < 0)
			abort();
		run[i] = now_ns() - begin;
		emulate_compare(plan, result.times, &error);
		plan_times_free(result.times);
	}
	printf("%-12s %8u %12.1f %12.1f %10.1f %14llu\n", shape->name, shape->ops,
	       shape->ops * 1e3 / median(settle, ROUNDS), shape->ops * 1e3 / median(run, ROUNDS),
	       median(run, ROUNDS) / 1e6, (unsigned long long)error.p99_ns);
	plan_done(plan);
}

int main(void)
{
	printf("%-12s %8s %12s %12s %10s %14s\n", "plan", "ops", "settle Mop/s", "emulate Mop/s",
	       "ms", "p99 error ns");
	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
		measure(&shapes[i]);
	return 0;
}
