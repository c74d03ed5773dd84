/* tally.h: which hot calls of a process count, how many did, and for how long. Probes and CUPTI are
 * put in and taken out a little off the times at which a watch asks for it, so a cycle is told by
 * what really counted. Pure.
 */
#ifndef TS_PRICE_TALLY_H
#define TS_PRICE_TALLY_H

#include "core/price/watch.h"

struct tally {
	uint64_t from_ns, until_ns; /* calls in between count; UINT64_MAX: no end yet */
	uint64_t grace_ns;	    /* for this long after that they pass, but do not count */
	uint64_t told_ns;	    /* up to when time was added up */
	uint64_t ns, hits;	    /* since the last ones were taken */
};

/* Everything counts. */
void tally_init(struct tally *tally);
bool tally_is_open(const struct tally *tally);
void tally_open(struct tally *tally, uint64_t from_ns);
void tally_shut(struct tally *tally, uint64_t until_ns, uint64_t grace_ns);

/* False: the call must not be let through. */
bool tally_hit(struct tally *tally, uint64_t time_ns);

/* Takes the hits; time starts again at `now_ns`. */
uint64_t tally_take(struct tally *tally, uint64_t now_ns);
/* Takes hits and time into the cycle, which stands as the watch told it. */
void tally_cycle(struct tally *tally, struct watch_cycle *cycle);

#endif
