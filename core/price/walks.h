/* walks.h: what the stacks of a process cost it: how many were walked lately, and how long that
 * took. Pure.
 */
#ifndef TS_PRICE_WALKS_H
#define TS_PRICE_WALKS_H

#include <stdint.h>

enum walk_kind {
	WALK_SAMPLED, /* of calls that submit work or wait, as the settings say */
	WALK_ALWAYS,  /* of allocations */
	WALK_KINDS,
};

struct walks {
	double count[WALK_KINDS], ns[WALK_KINDS]; /* the longer ago, the less */
	double all_ns;				  /* that they were counted in, likewise */
	uint64_t ticked_ns;			  /* 0: not yet */
};

void walks_add(struct walks *walks, enum walk_kind kind, uint64_t count, uint64_t ns);
/* Up to now all that there were are added. */
void walks_tick(struct walks *walks, uint64_t now_ns);

struct walks_price {
	double cost;	  /* a share of the time, as if one thread paid for all */
	double always;	  /* the part of allocations */
	double rate;	  /* a second */
	uint64_t each_ns; /* on average, 0: there were none */
};
struct walks_price walks_price(const struct walks *walks);

#endif
