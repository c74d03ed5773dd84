/* drain.h: the way of CUPTI's buffers: asked for, filled, and emptied into the ring. */
#ifndef TS_INJECT_DRAIN_H
#define TS_INJECT_DRAIN_H

#include <stdbool.h>

#include "inject/cupti_find.h"

/* What CUPTI is to call back; on any thread. */
cupti_request_fn drain_request;
cupti_complete_fn drain_complete;

/* Whose functions to use. NULL: what comes is not looked at. */
void drain_use(const struct cupti *cupti);
/* From our thread, or from one that waits for us: CUPTI hands over what is finished, or all. */
void drain_flush(bool forced);
/* Waits up to so long until CUPTI has given all buffers back, flushing. */
bool drain_wait(bool forced, uint64_t limit_ns);

struct drain_stats {
	uint64_t records;
	uint64_t work;	 /* of them kernels, copies and sets that are no part of a graph */
	uint64_t own_ns; /* on threads that nobody waits for */
};
/* Since the last time. */
void drain_stats(struct drain_stats *ret);
void drain_spent(uint64_t own_ns);

#endif
