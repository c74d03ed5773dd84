/* w1.h: workload W1, on which an older TraceSmith was measured: seven launches, a copy each way and
 * a stream synchronization, over and over, on eight streams with a thread each.
 *
 * Which stream, kernel, grid, block and duration comes is random, as is the time between calls.
 * Streams do their work in order; a synchronization is of the stream that is idle for longest, so
 * that it returns before the next call starts.
 */
#ifndef TS_BENCH_W1_H
#define TS_BENCH_W1_H

#include <stdint.h>
#include <stdio.h>

#include "core/model/op.h"

#define W1_STREAMS    8
#define W1_NAMES      64
#define W1_NAME_BYTES 67 /* with the NUL */
#define W1_PROCESS    1
#define W1_TID	      4711 /* of the first stream */

/* op.fn */
enum w1_function { W1_LAUNCH = 1, W1_HTOD, W1_DTOH, W1_SYNC, W1_FUNCTION_COUNT };

static const struct {
	const char *name;
	enum effect effect;
} w1_functions[W1_FUNCTION_COUNT] = {
	[W1_LAUNCH] = { "cuLaunchKernel", EFFECT_SUBMIT },
	[W1_HTOD] = { "cuMemcpyHtoDAsync_v2", EFFECT_SUBMIT },
	[W1_DTOH] = { "cuMemcpyDtoHAsync_v2", EFFECT_SUBMIT },
	[W1_SYNC] = { "cuStreamSynchronize", EFFECT_SYNC_STREAM },
};

struct w1 {
	uint64_t random, now_ns, number;
	uint64_t busy_ns[W1_STREAMS]; /* until then the stream has work */
};

/* https://en.wikipedia.org/wiki/Xorshift#xorshift* */
static inline uint64_t w1_random(struct w1 *w1)
{
	w1->random ^= w1->random >> 12;
	w1->random ^= w1->random << 25;
	w1->random ^= w1->random >> 27;
	return w1->random * 0x2545f4914f6cdd1d;
}

static inline struct w1 w1_start(void)
{
	return (struct w1){ .random = 0x9e3779b97f4a7c15, .now_ns = 123456789012345 };
}

/* Of op.name, 1 to W1_NAMES. */
static inline const char *w1_name(uint32_t i, char name[W1_NAME_BYTES])
{
	snprintf(name, W1_NAME_BYTES,
		 "void workloads::kernel_number_%02u<float, 128, 4>(float const*, int)", i % 100);
	return name;
}

static inline uint32_t w1_idle_stream(const struct w1 *w1)
{
	uint32_t stream = 0;

	for (uint32_t i = 1; i < W1_STREAMS; i++)
		if (w1->busy_ns[i] < w1->busy_ns[stream])
			stream = i;
	return stream;
}

static inline void w1_submit(struct w1 *w1, uint32_t stream, uint64_t ns, struct op *op)
{
	uint64_t ready_ns = op->start_ns + 3000;

	op->flags = OP_EXACT | OP_RETURNED;
	op->end_ns = op->start_ns + 1500;
	op->gpu_start_ns = ready_ns > w1->busy_ns[stream] ? ready_ns : w1->busy_ns[stream] + 500;
	op->gpu_end_ns = w1->busy_ns[stream] = op->gpu_start_ns + ns;
}

static inline void w1_kernel(struct w1 *w1, uint32_t stream, uint64_t random, struct op *op)
{
	op->kind = OP_LAUNCH;
	op->fn = W1_LAUNCH;
	op->name = 1 + random % W1_NAMES;
	op->handle = 0x7f3c5a000000 + op->name * 0x1a40;
	op->grid[0] = 1 + (random >> 8) % 1024;
	op->grid[1] = op->grid[2] = op->block[1] = op->block[2] = 1;
	op->block[0] = 32u << (random >> 24) % 6;
	op->registers = 32 + op->name % 4 * 8;
	w1_submit(w1, stream, 1000 + (random >> 32) % 4000, op);
}

static inline void w1_copy(struct w1 *w1, uint32_t stream, uint64_t random, struct op *op)
{
	op->kind = OP_COPY;
	op->bytes = 4096ull << (random >> 8) % 6;
	op->address = 0x7f0000000000 + (random >> 16) % 32 * 0x200000;
	op->source = 0x55d000000000 + (random >> 24) % 256 * 4096;
	w1_submit(w1, stream, 1000 + op->bytes / 40, op); /* 40 GB/s */
}

/* The next op; they come in order of start_ns. */
static inline void w1_next(struct w1 *w1, struct op *op)
{
	uint64_t step = w1->number++ % 10;
	uint64_t random = w1_random(w1);
	uint32_t stream = step == 9 ? w1_idle_stream(w1) : (random >> 61) % W1_STREAMS;

	w1->now_ns += 2000 + w1_random(w1) % 3000;
	*op = (struct op){
		.start_ns = w1->now_ns,
		.process = W1_PROCESS,
		.stream = 1 + stream,
		.tid = W1_TID + stream,
		.correlation = w1->number,
	};
	if (step < 7) {
		w1_kernel(w1, stream, random, op);
	} else if (step < 9) {
		w1_copy(w1, stream, random, op);
		op->detail = step == 7 ? COPY_HTOD : COPY_DTOH;
		op->fn = step == 7 ? W1_HTOD : W1_DTOH;
	} else {
		op->kind = OP_SYNC;
		op->fn = W1_SYNC;
		op->flags = OP_RETURNED;
		op->end_ns = op->start_ns + 700;
		if (op->end_ns < w1->busy_ns[stream] + 300)
			op->end_ns = w1->busy_ns[stream] + 300;
		op->correlation = 0;
	}
}

#endif
