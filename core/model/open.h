/* open.h: what a process has submitted that is not known to be finished. */
#ifndef TS_CORE_OPEN_H
#define TS_CORE_OPEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core;

/* A stream with work. In the probe tier work is known to be finished when a synchronization has
 * returned that waited for it. */
struct core_open {
	uint64_t handle;   /* of the stream */
	uint64_t start_ns; /* of the call of the oldest work */
	uint32_t count;	   /* works */
	uint16_t fn;	   /* of the oldest */
	int16_t device;
	bool waits; /* the oldest waits for an event or another stream, since start_ns */
};

/* Of the process that runs under a pid now, the first `max`. Returns how many. */
size_t core_open_work(const struct core *core, uint32_t pid, struct core_open *ret, size_t max);

#endif
