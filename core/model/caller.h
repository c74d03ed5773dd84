/* caller.h: which calls of a thread submitted work, for matching the records of calls. */
#ifndef TS_CORE_CALLER_H
#define TS_CORE_CALLER_H

#include <stdint.h>

#include "core/base/list.h"

struct core;
struct exact;
struct pending;

/* A call, or a time from which the thread was in another, irrelevant call. */
struct caller_call {
	uint64_t start_ns;
	struct pending *pending; /* NULL: nothing to match */
};

/* A thread, by its number in its own PID namespace. */
struct caller {
	struct list link;      /* in exact's, least recently used first */
	struct list unmatched; /* struct ticket of this thread without a call yet */
	uint32_t ns_tid;
	uint32_t tid; /* on the host, 0: no call seen */
	uint64_t used_ns;
	uint64_t last_ns;	  /* when the latest call started */
	struct caller_call *call; /* by start */
	uint32_t first, end, room;
};

struct caller *caller_find(struct exact *exact, uint32_t ns_tid);
/* NULL: a limit was reached. */
struct caller *caller_get(struct core *core, struct exact *exact, uint32_t ns_tid);
/* A call started, with work to match or NULL. */
int caller_note(struct caller *caller, uint64_t start_ns, struct pending *pending);
/* The work of the thread's call at that time. NULL: unknown. */
struct pending *caller_call_at(const struct caller *caller, uint64_t time_ns);
/* Its call is matched, or its op leaves the model. */
void caller_forget(struct caller *caller, const struct pending *pending);
/* The host's id of a thread, if known. */
uint32_t caller_tid(struct exact *exact, uint32_t ns_tid);
/* Frees those that have not been used for a long time. */
void caller_tick(struct core *core, struct exact *exact, uint64_t now_ns);
void caller_free_all(struct exact *exact);

#endif
