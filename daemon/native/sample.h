/* sample.h: the registers and the stack of a thread that runs, at one moment. */
#ifndef TS_NATIVE_SAMPLE_H
#define TS_NATIVE_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/broker/request.h"
#include "daemon/unwind/walk.h"

#define SAMPLE_STACK_MAX BROKER_STACK_MAX

/* Its next 10 µs on a CPU are interrupted once by the kernel, as by any of its timers, which copies
 * them. `stack` starts at the stack pointer. -EAGAIN: it has not run for LIMIT_NATIVE_SAMPLE_MS; a
 * negative errno: not possible, as perf_event_open(2). */
int sample_thread(int sampler, uint32_t tid, uint8_t stack[SAMPLE_STACK_MAX],
		  struct walk_registers *ret, size_t *ret_size);

#endif
