/* caller.h: which calls of a thread submitted work, for the records of calls to find them. */
#ifndef TS_CORE_CALLER_H
#define TS_CORE_CALLER_H

#include <stdint.h>

#include "core/base/list.h"

struct core;
struct exact;
struct pending;

/* A call, or a time from which on the thread was in another one that is of no interest. */
struct caller_call {
	uint64_t start_ns;
	struct pending *pending; /* NULL: nothing to join */
};

/* A thread, by its number in its own PID namespace. */
struct caller {
	struct list link;      /* in exact's, those not looked at for longest first */
	struct list unmatched; /* struct ticket of it that found no call yet */
	uint32_t ns_tid;
	uint32_t tid; /* on the host, 0: no call was seen */
	uint64_t used_ns;
	uint64_t last_ns;	  /* when the latest call began */
	struct caller_call *call; /* by start */
	uint32_t first, end, room;
};

struct caller *caller_find(struct exact *exact, uint32_t ns_tid);
/* NULL: a limit was reached. */
struct caller *caller_get(struct core *core, struct exact *exact, uint32_t ns_tid);
/* A call began. With work to join, or NULL. */
int caller_note(struct caller *caller, uint64_t start_ns, struct pending *pending);
/* The work of the call that the thread was in then. NULL: none that is known. */
struct pending *caller_call_at(const struct caller *caller, uint64_t time_ns);
/* Its call is joined, or its op leaves. */
void caller_forget(struct caller *caller, const struct pending *pending);
/* The host's id of a thread, as far as that is known. */
uint32_t caller_tid(struct exact *exact, uint32_t ns_tid);
/* Frees those that were not used for long. */
void caller_tick(struct core *core, struct exact *exact, uint64_t now_ns);
void caller_free_all(struct exact *exact);

#endif
