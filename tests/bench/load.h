/* load.h: ops like those of real programs, for the benchmarks. */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/model/op.h"

static inline double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static inline int compare_double(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline double median(double *value, size_t count)
{
	qsort(value, count, sizeof(*value), compare_double);
	return value[count / 2];
}

struct load_state {
	uint64_t seed, now_ns, number;
	uint64_t busy_ns; /* until then the device has work */
};

static inline uint64_t load_random(struct load_state *state, uint64_t below)
{
	state->seed ^= state->seed << 13;
	state->seed ^= state->seed >> 7;
	state->seed ^= state->seed << 17;
	return state->seed % below;
}

/* Launches 2 to 5 us apart; which kernel comes is random, the worst case: programs repeat. A stack
 * is taken of one in fifty; a synchronization every 5 ms or so bounds the times. */
static inline void load_launch(struct load_state *state, struct op *op)
{
	uint64_t kernel = load_random(state, 64);

	state->now_ns += 2000 + load_random(state, 3000);
	*op = (struct op){
		.start_ns = state->now_ns,
		.gpu_start_ns = state->now_ns,
		.gpu_end_ns = (state->now_ns / 5000000 + 1) * 5000000 + 1234,
		.tid = 4711,
		.fn = 1,
		.flags = OP_BOUNDS,
		.kind = OP_LAUNCH,
		.handle = 0x7f3c5a000000 + kernel * 0x1a40,
		.stack_id =
			load_random(state, 50) ? 0 : load_random(state, 30) * 0x9e3779b97f4a7c15,
		.grid = { (uint32_t)(1 + kernel * 7 % 128), 1, 1 },
		.block = { kernel % 2 ? 128 : 256, 1, 1 },
		.shared_bytes = kernel % 8 ? 0 : 16384,
		.correlation = ++state->number,
	};
}

/* The same, in the order that a training step has: 268 launches, over and over. */
static inline void load_train(struct load_state *state, struct op *op)
{
	uint64_t step = state->number % 268;
	struct load_state kernel = { .seed = (step + 1) * 0x9e3779b97f4a7c15 };

	load_launch(state, op);
	kernel.number = load_random(&kernel, 64);
	op->handle = 0x7f3c5a000000 + kernel.number * 0x1a40;
	op->grid[0] = (uint32_t)(1 + kernel.number * 7 % 128);
	op->block[0] = kernel.number % 2 ? 128 : 256;
	op->shared_bytes = kernel.number % 8 ? 0 : 16384;
}

/* The training step with exact times: each kernel has its duration, give or take 3 %, and runs
 * after the one before; a synchronization every 5 ms or so sees what is done. */
static inline void load_exact(struct load_state *state, struct op *op)
{
	uint64_t step = state->number % 268, ready_ns;
	struct load_state kernel = { .seed = (step + 1) * 0x9e3779b97f4a7c15 };
	uint64_t ns = 1500 + load_random(&kernel, 3000);

	load_train(state, op);
	ns += load_random(state, ns / 32);
	ready_ns = op->start_ns + 6000 + load_random(state, 3000);
	state->busy_ns = state->busy_ns + 800 > ready_ns ? state->busy_ns + 800 : ready_ns;
	op->gpu_start_ns = state->busy_ns;
	op->gpu_end_ns = state->busy_ns = op->gpu_start_ns + ns;
	op->seen_ns = (op->gpu_end_ns / 5000000 + 1) * 5000000 + 1234;
	op->flags = OP_EXACT;
	op->correlation = state->number + state->number / 268 * 40;
	op->name = op->handle * 0x9e3779b97f4a7c15;
	op->static_bytes = op->shared_bytes ? 0 : 1024;
	op->registers = 32 + (uint32_t)(op->handle >> 6) % 4 * 8;
}

static inline void load_copy(struct load_state *state, struct op *op)
{
	state->now_ns += 20000 + load_random(state, 30000);
	*op = (struct op){
		.start_ns = state->now_ns,
		.end_ns = state->now_ns + 8000 + load_random(state, 9000),
		.gpu_start_ns = state->now_ns,
		.tid = 4711,
		.fn = 4,
		.flags = OP_BOUNDS | OP_RETURNED,
		.kind = OP_COPY,
		.detail = COPY_HTOD,
		.address = 0x7f0000000000 + load_random(state, 32) * 0x200000,
		.source = 0x55d000000000 + load_random(state, 4096) * 4096,
		.bytes = 4096ull << load_random(state, 8),
	};
	op->gpu_end_ns = op->end_ns;
}

static inline void load_alloc(struct load_state *state, struct op *op)
{
	state->now_ns += 3000 + load_random(state, 50000);
	state->number += 512 * (1 + load_random(state, 1024));
	*op = (struct op){
		.start_ns = state->now_ns,
		.end_ns = state->now_ns + 3000 + load_random(state, 60000),
		.tid = 4711,
		.fn = 2,
		.flags = OP_RETURNED,
		.kind = OP_ALLOC,
		.detail = MEMORY_DEVICE,
		.address = 0x7f0000000000 + load_random(state, 1 << 20) * 512,
		.bytes = 512 * (1 + load_random(state, 1024)),
		.stack_id = (1 + load_random(state, 200)) * 0x9e3779b97f4a7c15,
		.live_bytes = state->number,
	};
}

struct load {
	const char *name;
	void (*make)(struct load_state *state, struct op *op);
};

#define LOAD_COUNT 5
static const struct load loads[LOAD_COUNT] = {
	{ "launch", load_launch }, { "train", load_train }, { "exact", load_exact },
	{ "copy", load_copy },	   { "alloc", load_alloc },
};

static inline struct load_state load_start(uint32_t stream)
{
	return (struct load_state){ .seed = 88172645463325252u + stream,
				    .now_ns = 123456789012345 };
}

static inline void load_make(const struct load *load, uint32_t process, uint32_t stream,
			     size_t count, struct op *op)
{
	struct load_state state = load_start(stream);

	for (size_t i = 0; i < count; i++) {
		load->make(&state, &op[i]);
		op[i].process = process;
		op[i].stream = stream;
	}
}

#endif
