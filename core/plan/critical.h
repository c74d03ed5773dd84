/* critical.h: the critical path of a plan: the chain of calls and works, each of which had to wait
 * for the one before, from start to end; and the slack of all others.
 */
#ifndef TS_CORE_CRITICAL_H
#define TS_CORE_CRITICAL_H

#include "core/plan/plan.h"

/* Times of calls and works, as recorded or as emulated; indexed as those of the plan. */
struct plan_times {
	uint64_t *call_start_ns, *call_end_ns;
	uint64_t *work_start_ns, *work_end_ns;
	uint64_t start_ns, end_ns;
};

int plan_times_new(const struct plan *plan, struct plan_times **ret); /* as recorded */
struct plan_times *plan_times_free(struct plan_times *times);

/* `why` says what a piece of the path is. */
enum critical_why {
	CRITICAL_WORK,	/* a work ran */
	CRITICAL_CALL,	/* a call was in progress without waiting */
	CRITICAL_HOST,	/* a thread did something else before the call */
	CRITICAL_DELAY, /* the delay from what the work, or the end of the call, waited for */
};

struct critical_piece {
	uint64_t start_ns, end_ns; /* pieces are adjacent and cover the window */
	uint32_t why;		   /* enum critical_why */
	uint32_t call, work;	   /* of which one is PLAN_NONE */
};

struct critical {
	struct critical_piece *piece; /* in order of time */
	size_t count;
	/* How much later it could have ended without delaying the end. */
	uint64_t *call_slack_ns, *work_slack_ns;
};

/* -ELOOP: the dependencies are circular; -ENOMEM. */
int critical_find(const struct plan *plan, const struct plan_times *times, struct critical **ret);
struct critical *critical_free(struct critical *critical);

CLEANUP_DEFINE(struct plan_times, plan_times_free)
CLEANUP_DEFINE(struct critical, critical_free)

#endif
