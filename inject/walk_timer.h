/* walk_timer.h: how long walks take a thread, by some of them. Takes no lock: threads that share a
 * timer share its walks, and may lose one.
 */
#ifndef TS_INJECT_WALK_TIMER_H
#define TS_INJECT_WALK_TIMER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/light.h"

/* One walk in this many is timed: a prime, or it could always be the same one of a loop. */
#define WALK_TIMER_OF 251
/* How long they took, below the number of them. */
#define WALK_TIMER_BITS 40

/* All 0 at first. A line of the cache. */
struct walk_timer {
	_Alignas(64) uint64_t total; /* number and time in one word, so that they belong together */
	uint32_t walks;		     /* since the last one that was timed */
};

/* Each walk first: whether it is timed. */
static inline bool walk_timer_takes(struct walk_timer *timer)
{
	if (++timer->walks < WALK_TIMER_OF)
		return false;
	timer->walks = 0;
	return true;
}

/* `clock_ns`: what a look at the clock took just before it, which is in its time as well. */
static inline void walk_timer_add(struct walk_timer *timer, uint64_t took_ns, uint64_t clock_ns)
{
	/* The thread has lost its processor. */
	if (took_ns > TS_LIGHT_WALK_MAX_NS || clock_ns > TS_LIGHT_WALK_MAX_NS)
		return;
	took_ns -= clock_ns < took_ns ? clock_ns : took_ns;
	__atomic_store_n(&timer->total, timer->total + (1ull << WALK_TIMER_BITS) + took_ns,
			 __ATOMIC_RELAXED);
}

#endif
