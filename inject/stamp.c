/* Stamp: CUPTI is given our clock but need not use it. A copy without that option stamps with the
 * wall clock, and one that gets the clock late keeps using its own for device times.
 *
 * The two clocks are decades apart, so each stamp shows which one it is from. They run at the same
 * rate and differ by how the wall clock was set: a record is wrong by a step of the wall clock
 * between the record and the end of its buffer. A stamp that fits neither clock is not a time.
 */
#include "inject/stamp.h"

#include "core/base/clock.h"
#include "core/base/time.h"
#include "inject/launcher.h"

#define AHEAD_NS  NS_PER_S    /* error of the device's times */
#define BEFORE_NS 60000000000 /* how long before recording running work may have started */
#define WORK_SURE 16
#define SURE_NS	  1000 /* such a reading was not interrupted */
#define READINGS  8

static struct {
	uint64_t began_ns, foreign;
	bool good;
} seen;

void stamp_begin(void)
{
	__atomic_store_n(&seen.began_ns, clock_ns(CLOCK_MONOTONIC), __ATOMIC_RELAXED);
	__atomic_store_n(&seen.good, false, __ATOMIC_RELAXED);
	__atomic_store_n(&seen.foreign, 0, __ATOMIC_RELAXED);
}

/* Of several readings the one that was interrupted least. */
struct stamp stamp_now(void)
{
	uint64_t best_ns = UINT64_MAX;
	struct stamp stamp = { 0 };

	for (int i = 0; i < READINGS && best_ns > SURE_NS; i++) {
		uint64_t before_ns = clock_ns(CLOCK_MONOTONIC), wall = clock_ns(CLOCK_REALTIME),
			 took_ns = clock_ns(CLOCK_MONOTONIC) - before_ns;

		if (took_ns >= best_ns)
			continue;
		best_ns = took_ns;
		stamp.wall_ahead_ns = (int64_t)(wall - before_ns - took_ns / 2);
	}
	stamp.now_ns = clock_ns(CLOCK_MONOTONIC);
	return stamp;
}

static bool is_ours(const struct stamp *stamp, uint64_t ns)
{
	uint64_t began_ns = __atomic_load_n(&seen.began_ns, __ATOMIC_RELAXED);

	return ns < stamp->now_ns + AHEAD_NS && ns + BEFORE_NS >= began_ns;
}

bool stamp_mend(const struct stamp *stamp, struct ts_event *event)
{
	bool is_work = event->kind >= TS_EVENT_KERNEL && event->kind <= TS_EVENT_GRAPH;
	uint64_t ahead_ns = (uint64_t)stamp->wall_ahead_ns;
	bool good = true;

	if (!event->start_ns || event->end_ns < event->start_ns)
		return true; /* no times, and no hint about the clock */
	if (!is_ours(stamp, event->start_ns) || !is_ours(stamp, event->end_ns)) {
		event->start_ns -= ahead_ns;
		event->end_ns -= ahead_ns;
		good = is_ours(stamp, event->start_ns) && is_ours(stamp, event->end_ns);
	}
	if (!good)
		event->start_ns = event->end_ns = 0;
	if (is_work && !good)
		__atomic_fetch_add(&seen.foreign, 1, __ATOMIC_RELAXED);
	else if (is_work && !__atomic_load_n(&seen.good, __ATOMIC_RELAXED))
		__atomic_store_n(&seen.good, true, __ATOMIC_RELAXED);
	return good;
}

bool stamp_is_foreign(void)
{
	return !__atomic_load_n(&seen.good, __ATOMIC_RELAXED) &&
	       __atomic_load_n(&seen.foreign, __ATOMIC_RELAXED) >= WORK_SURE;
}
