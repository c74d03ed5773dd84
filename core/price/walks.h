/* walks.h: what the stacks of a process cost it: how many were walked lately, by the kernel's
 * programs and by our library in it, and how long that took. Pure.
 */
#ifndef TS_PRICE_WALKS_H
#define TS_PRICE_WALKS_H

#include <stdbool.h>
#include <stdint.h>

enum walk_kind {
	WALK_SAMPLED, /* of calls that submit work or wait, as the settings say */
	WALK_ALWAYS,  /* of allocations */
	WALK_KINDS,
};

struct walks {
	double count[WALK_KINDS], ns[WALK_KINDS]; /* the longer ago, the less */
	/* Calls that our library reported, those that it walked a stack for, and those that hit the
	 * probe on its stub. */
	double calls, walked, hits;
	double all_ns;	    /* that they were counted in, likewise */
	uint64_t ticked_ns; /* 0: not yet */
};

void walks_add(struct walks *walks, enum walk_kind kind, uint64_t count, uint64_t ns);
void walks_call(struct walks *walks, bool walked, bool hit);
/* Up to now all that there were are added. */
void walks_tick(struct walks *walks, uint64_t now_ns);

struct walks_price {
	double cost;	  /* a share of the time, as if one thread paid for all */
	double always;	  /* the part of allocations */
	double rate;	  /* a second */
	uint64_t each_ns; /* on average, 0: there were none */
};
/* Of those in the kernel. */
struct walks_price walks_price(const struct walks *walks);
/* Of those of our library, at this many calls a second and this long a walk. */
struct walks_price walks_price_inside(const struct walks *walks, double calls_per_s,
				      uint64_t walk_ns);
/* What stacks cost a call that our library reports, on average: walks of its own, hits of the
 * probe, and what the kernel walks then. */
uint64_t walks_call_ns(const struct walks *walks, uint64_t walk_ns, uint64_t hit_ns);

/* How long a walk takes our library, by those that it says it has timed. */
struct walk_time {
	double count, ns; /* the longer ago, the less */
};
/* The process may say anything: it is believed if one takes `most_ns` at most. */
void walk_time_add(struct walk_time *time, uint32_t count, uint64_t ns, uint64_t most_ns);
/* On average; 0: it has said nothing. */
uint64_t walk_time_ns(const struct walk_time *time);

#endif
