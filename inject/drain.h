/* drain.h: the path of CUPTI's buffers: requested, filled, and emptied into the ring. */
#ifndef TS_INJECT_DRAIN_H
#define TS_INJECT_DRAIN_H

#include <stdbool.h>

#include "inject/cupti_find.h"

/* CUPTI's buffer callbacks; on any thread. */
cupti_request_fn drain_request;
cupti_complete_fn drain_complete;

/* Whose functions to use. NULL: buffers are discarded unread. */
void drain_use(const struct cupti *cupti);
/* From our thread, or one that waits for us: makes CUPTI hand over what is finished, or all. */
void drain_flush(bool forced);
/* Our thread is about to change what CUPTI records: nobody waits for room in the ring until then.
 */
void drain_hurry(bool hurried);
/* Waits at most this long until CUPTI has returned all buffers, flushing. */
bool drain_wait(bool forced, uint64_t limit_ns);

/* A graph was launched while CUPTI was there. Then it must stay: a graph may crash in its first
 * launch after cuptiFinalize() (seen with CUPTI 13.0). */
void drain_note_graph(void);
bool drain_saw_graphs(void);

struct drain_stats {
	uint64_t records;
	uint64_t work;	 /* kernels, copies and sets among them that are not part of a graph */
	uint64_t nodes;	 /* those that are */
	uint64_t calls;	 /* CALLs that were CUPTI's records */
	uint64_t own_ns; /* on threads that nobody waits for */
};
/* Since the last time. */
void drain_stats(struct drain_stats *ret);
void drain_spent(uint64_t own_ns);

#endif
