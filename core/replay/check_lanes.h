/* check_lanes.h: streams and threads of one plan, each with its items in order, in a form in which
 * equal items are equal numbers. */
#ifndef TS_CORE_CHECK_LANES_H
#define TS_CORE_CHECK_LANES_H

#include "core/replay/check.h"

struct check_place {
	uint32_t lane; /* PLAN_NONE: in none */
	uint32_t at;
};

/* One stream or thread of one side. */
struct check_half {
	bool thread;
	uint32_t index;	  /* in the plan */
	uint32_t process; /* from 1, in order of start */
	uint32_t number;  /* from 1, within the process and sort */
	uint32_t first;	  /* in `item` */
	uint32_t count;
	uint64_t print; /* hash of the keys of its items */
	uint64_t begin; /* of the first of them */
	bool shared;	/* stream: several threads submit to it */
	uint32_t mate;	/* half of the other side, or PLAN_NONE */
};

struct check_lanes {
	struct check_half *half; /* streams in order of first use, then threads likewise */
	uint32_t count, process_count;
	uint32_t *item;		   /* works of all streams, then calls of all threads */
	uint64_t *key;		   /* of each item: a hash of its fields */
	struct check_place *place; /* of each work of the plan */
};

int check_lanes_new(const struct check_side *side, struct check_lanes **ret);
struct check_lanes *check_lanes_free(struct check_lanes *lanes);

CLEANUP_DEFINE(struct check_lanes, check_lanes_free)

/* Whether a dependency of a work, or of a call (`work` is PLAN_NONE), is compared. */
bool check_lanes_counts(const struct check_lanes *lanes, const struct plan *plan, uint32_t call,
			uint32_t work, const struct plan_edge *edge);
/* Finds the mates of both sides. */
int check_lanes_match(const struct check_side side[2], struct check_lanes *const lanes[2]);

#endif
