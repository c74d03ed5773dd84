/* watch.h: when to watch the hot calls of a process, so that this costs it no more of its speed
 * than its budget allows, and what watching them all the time would cost. Pure.
 *
 * A process is watched whole until an estimate (hits times the price of one) comes near its budget.
 * Then it is watched in windows at random times, and each window is a measurement: a turn that is
 * watched and one next to it that is not, in either order, whose paces are compared. Pace is the
 * mean time from one cold call, which is always seen, to the next. The price is the middle of the
 * ratios of the last turns, with its interval; the share of windows follows from it, and a process
 * that turns out cheap is watched whole again.
 *
 * The first turns follow one another, and the gap after them is as long as it takes until the time
 * since their start is within the budget. Where windows cost something by themselves, they come as
 * often as the estimate allows.
 *
 * Cold calls are always watched, so their price cannot be compared with anything: they cost the
 * estimate of a hit, as far as that is within what one of a hot call was found to cost, and windows
 * get what they leave of the budget.
 */
#ifndef TS_PRICE_WATCH_H
#define TS_PRICE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/price/watch_state.h"

/* Watches whole. */
void watch_init(struct watch *watch, const struct watch_config *config, uint64_t seed);
/* The same, after another watch of the process: if that many calls are too dear, from the first
 * moment within the budget. */
void watch_init_after(struct watch *watch, const struct watch_config *config,
		      const struct watch *before);
/* Another budget or another price of a hit; what was measured stays. */
void watch_configure(struct watch *watch, const struct watch_config *config);
/* Starts a new measurement now, even if it seems cheap. The result takes this many pairs. */
#define WATCH_MEASURE_PAIRS 12
void watch_measure(struct watch *watch);

/* A hot call, seen while the links were open. True: a tick is due. */
bool watch_hit(struct watch *watch);
/* Hot calls that were made then, but got lost. */
void watch_lost_hits(struct watch *watch, uint64_t hits);
/* It makes its calls in this share of the time, at most 1: in the rest it waits for a processor. */
void watch_had(struct watch *watch, double share);
/* So many threads make them. */
void watch_threads(struct watch *watch, uint32_t threads);
/* A call that is always seen, of any thread. */
void watch_cold_call(struct watch *watch);
/* The same, if it is of one that also makes hot ones; in the order of time. */
void watch_cold(struct watch *watch, uint64_t time_ns);
/* What calls that are always seen hit, of all threads: one probe each, or two. */
void watch_cold_hits(struct watch *watch, uint32_t hits);

/* Whether it wants the links open now. */
bool watch_is_open(const struct watch *watch);

/* Whether the links are wanted open. `open`: they are. Call every few milliseconds while this says
 * other than watch whole, otherwise at least every second. */
bool watch_tick(struct watch *watch, uint64_t now_ns, bool open);

/* When a gap ends, or what came is to be judged: until then a tick has nothing to decide. 0: it
 * may; UINT64_MAX: the process is watched whole. */
uint64_t watch_rests_until(const struct watch *watch);

/* Somebody asks: what it has missed by now is a cycle, or a part of one. */
void watch_tell(struct watch *watch, uint64_t now_ns);

/* The process ends: so does its cycle. */
void watch_end(struct watch *watch, uint64_t now_ns);
/* The first that ended of those that were not taken. Call until there is none. */
bool watch_take_cycle(struct watch *watch, struct watch_cycle *ret);

#endif
