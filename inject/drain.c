/* Drain: empties each buffer that CUPTI completes into the ring, on the thread that completes it.
 *
 * No lock is taken here, because CUPTI calls with its own locks held. When the ring is full, a
 * thread that nobody waits for waits briefly for the daemon; a thread of the program never does.
 */
#include "inject/drain.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"
#include "core/base/time.h"
#include "inject/buffer.h"
#include "inject/convert.h"
#include "inject/internal.h"
#include "inject/launcher.h"
#include "inject/stamp.h"

#define WAIT_NS	       20000000 /* wait for room in the ring, per buffer */
#define WAIT_STEP_NS   200000
#define FLUSH_NS       500000000 /* a flush of ours may take this long before nobody waits */
#define WORKER_BUFFERS 4 /* a thread without a driver call after this many buffers is CUPTI's */
#define BACK_STEP_NS   NS_PER_MS
#define CALLERS	       256

static struct {
	const struct cupti *cupti;
	uint32_t flushing_tid; /* inside drain_flush */
	bool hurried;
	uint64_t flushing_since_ns; /* likewise, else 0 */
	uint32_t worker_tid, worker_buffers;
	uint32_t caller[CALLERS]; /* threads of the program, by their CALLs */
	uint64_t records, work, nodes, calls, own_ns, refused;
} drain;

static bool graphs;

static void sleep_ns(uint64_t ns)
{
	struct timespec pause = timespec_of(ns);

	nanosleep(&pause, NULL);
}

/* Time that moving a buffer to the ring has used and may still use. */
struct turn {
	uint64_t may_wait_ns, waited_ns;
	uint64_t lost, unknown, records, work, nodes, calls;
	struct stamp stamp;
};

/* Whether no thread of the program waits for this one. */
static bool is_idle_thread(uint32_t tid)
{
	if (__atomic_load_n(&drain.flushing_tid, __ATOMIC_RELAXED) == tid)
		return true;
	if (launcher_find(tid) ||
	    __atomic_load_n(&drain.caller[tid % CALLERS], __ATOMIC_RELAXED) == tid)
		return false;
	if (__atomic_exchange_n(&drain.worker_tid, tid, __ATOMIC_RELAXED) != tid)
		__atomic_store_n(&drain.worker_buffers, 0, __ATOMIC_RELAXED);
	return __atomic_add_fetch(&drain.worker_buffers, 1, __ATOMIC_RELAXED) > WORKER_BUFFERS;
}

/* Our thread needs CUPTI's lock, which CUPTI's worker has while it hands over buffers: where
 * records come faster than the daemon takes them, there is always another one. */
static bool thread_is_held_up(void)
{
	uint64_t since_ns = __atomic_load_n(&drain.flushing_since_ns, __ATOMIC_RELAXED);

	return __atomic_load_n(&drain.hurried, __ATOMIC_RELAXED) ||
	       (since_ns && clock_ns(CLOCK_MONOTONIC) - since_ns > FLUSH_NS);
}

static int put_if_room(const struct ts_event *event)
{
	return link_is_crowded() ? -ENOSPC : link_put(event, sizeof(*event));
}

static void put(const struct ts_event *event, struct turn *turn)
{
	int r = put_if_room(event);

	while (r == -ENOSPC && turn->waited_ns < turn->may_wait_ns && !thread_is_held_up()) {
		link_wake();
		sleep_ns(WAIT_STEP_NS);
		turn->waited_ns += WAIT_STEP_NS;
		r = put_if_room(event);
	}
	if (r == -ENOSPC && link_is_crowded())
		r = link_put(event, sizeof(*event));
	if (!r)
		turn->records++;
	else if (r == -ENOSPC)
		turn->lost++;
}

/* Time that CUPTI says it took from a thread of the program. */
static void charge_overhead(const struct ts_event *event)
{
	struct launcher *launcher;

	switch (event->overhead.kind) {
	case CUPTI_OVERHEAD_INSTRUMENTATION:
	case CUPTI_OVERHEAD_RESOURCE:
	case CUPTI_OVERHEAD_BUFFER_REQUEST:
		launcher = event->tid ? launcher_find(event->tid) : NULL;
		if (launcher)
			launcher_charge_other(launcher, event->end_ns - event->start_ns);
		else
			drain_spent(event->end_ns - event->start_ns);
		break;
	default: /* we time a flush ourselves; the rest is the program's own */
		break;
	}
}

static void note_call(const struct ts_event *event, struct turn *turn)
{
	__atomic_store_n(&drain.caller[event->tid % CALLERS], event->tid, __ATOMIC_RELAXED);
	turn->calls++;
}

void drain_note_graph(void)
{
	if (!__atomic_load_n(&graphs, __ATOMIC_RELAXED))
		__atomic_store_n(&graphs, true, __ATOMIC_RELAXED);
}

bool drain_saw_graphs(void)
{
	return __atomic_load_n(&graphs, __ATOMIC_RELAXED);
}

static void drain_record(const uint8_t *record, size_t size, struct turn *turn)
{
	struct ts_event event;

	switch (convert_record(record, size, &event)) {
	case CONVERT_DONE:
		/* Work that ran is worth reporting even without its times. */
		if (!stamp_mend(&turn->stamp, &event) && event.kind > TS_EVENT_GRAPH) {
			turn->unknown++;
			break;
		}
		if (event.kind == TS_EVENT_OVERHEAD)
			charge_overhead(&event);
		if (event.kind >= TS_EVENT_KERNEL && event.kind <= TS_EVENT_SET)
			*(event.work.graph ? &turn->nodes : &turn->work) += 1;
		if (event.kind == TS_EVENT_CALL)
			note_call(&event, turn);
		if (event.kind >= TS_EVENT_KERNEL && event.kind <= TS_EVENT_GRAPH &&
		    event.work.graph)
			drain_note_graph();
		put(&event, turn);
		break;
	case CONVERT_UNKNOWN:
		turn->unknown++;
		break;
	case CONVERT_SKIP:
		break;
	}
}

static void drain_records(const struct cupti *cupti, uint8_t *buffer, size_t valid,
			  struct turn *turn)
{
	void *next = NULL;
	int r = cupti->next_record(buffer, valid, &next);

	while (r == CUPTI_OK && next) {
		const uint8_t *record = next, *end = buffer + valid;

		r = cupti->next_record(buffer, valid, &next);
		if (r == CUPTI_OK && next)
			end = next;
		drain_record(record, (size_t)(end - record), turn);
	}
	if (r != CUPTI_OK && r != CUPTI_LIMIT_REACHED)
		turn->unknown++;
}

/* Records that CUPTI had no room for: because we gave it no buffer, or for its own reasons. */
static void count_dropped(const struct cupti *cupti)
{
	struct buffer_stats stats;
	size_t dropped = 0;

	buffer_stats(&stats);
	if (!cupti->dropped || cupti->dropped(NULL, 0, &dropped) != CUPTI_OK || !dropped)
		return;
	if (__atomic_exchange_n(&drain.refused, stats.refused, __ATOMIC_RELAXED) != stats.refused)
		link_lost(TS_LOST_BUFFERS, dropped);
	else
		link_lost(TS_LOST_CUPTI, dropped);
}

void drain_request(uint8_t **buffer, size_t *size, size_t *records)
{
	int saved = errno;
	uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
	struct launcher *launcher = launcher_find(thread_id());

	*buffer = buffer_take(size);
	*records = 0;
	if (launcher)
		launcher_charge(launcher, clock_ns(CLOCK_MONOTONIC) - start_ns);
	errno = saved;
}

void drain_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	const struct cupti *cupti = __atomic_load_n(&drain.cupti, __ATOMIC_ACQUIRE);
	uint64_t start_ns = clock_ns(CLOCK_MONOTONIC), spent_ns;
	uint32_t tid = thread_id();
	struct turn turn = { 0 };
	struct launcher *launcher;
	int saved = errno;

	/* Another user of CUPTI may have left it. */
	if (!buffer || !buffer_is_ours(buffer))
		return;
	if (is_idle_thread(tid))
		turn.may_wait_ns = WAIT_NS;
	if (cupti) {
		turn.stamp = stamp_now();
		drain_records(cupti, buffer, valid, &turn);
		count_dropped(cupti);
	}
	buffer_give(buffer, valid);
	if (turn.lost)
		link_lost(TS_LOST_RING, turn.lost);
	if (turn.unknown)
		link_lost(TS_LOST_UNKNOWN, turn.unknown);
	link_wake();
	__atomic_fetch_add(&drain.records, turn.records, __ATOMIC_RELAXED);
	__atomic_fetch_add(&drain.work, turn.work, __ATOMIC_RELAXED);
	__atomic_fetch_add(&drain.nodes, turn.nodes, __ATOMIC_RELAXED);
	__atomic_fetch_add(&drain.calls, turn.calls, __ATOMIC_RELAXED);
	spent_ns = clock_ns(CLOCK_MONOTONIC) - start_ns;
	spent_ns -= turn.waited_ns < spent_ns ? turn.waited_ns : spent_ns;
	launcher = launcher_find(tid);
	if (launcher)
		launcher_charge(launcher, spent_ns);
	else if (__atomic_load_n(&drain.flushing_tid, __ATOMIC_RELAXED) != tid)
		drain_spent(spent_ns); /* drain_flush() counts its own time */
	errno = saved;
}

void drain_use(const struct cupti *cupti)
{
	__atomic_store_n(&drain.cupti, cupti, __ATOMIC_RELEASE);
}

void drain_flush(bool forced)
{
	const struct cupti *cupti = __atomic_load_n(&drain.cupti, __ATOMIC_ACQUIRE);
	uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);

	if (!cupti)
		return;
	__atomic_store_n(&drain.flushing_tid, thread_id(), __ATOMIC_RELAXED);
	__atomic_store_n(&drain.flushing_since_ns, start_ns, __ATOMIC_RELAXED);
	cupti->flush_all(forced ? CUPTI_FLUSH_FORCED : 0);
	__atomic_store_n(&drain.flushing_since_ns, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&drain.flushing_tid, 0, __ATOMIC_RELAXED);
	drain_spent(clock_ns(CLOCK_MONOTONIC) - start_ns);
}

void drain_hurry(bool hurried)
{
	__atomic_store_n(&drain.hurried, hurried, __ATOMIC_RELAXED);
}

bool drain_wait(bool forced, uint64_t limit_ns)
{
	uint64_t until_ns = clock_ns(CLOCK_MONOTONIC) + limit_ns;
	struct buffer_stats stats;

	for (;;) {
		drain_flush(forced);
		buffer_stats(&stats);
		if (!stats.out)
			return true;
		if (clock_ns(CLOCK_MONOTONIC) >= until_ns)
			return false;
		sleep_ns(BACK_STEP_NS);
	}
}

void drain_spent(uint64_t own_ns)
{
	__atomic_fetch_add(&drain.own_ns, own_ns, __ATOMIC_RELAXED);
}

void drain_stats(struct drain_stats *ret)
{
	ret->records = __atomic_exchange_n(&drain.records, 0, __ATOMIC_RELAXED);
	ret->work = __atomic_exchange_n(&drain.work, 0, __ATOMIC_RELAXED);
	ret->nodes = __atomic_exchange_n(&drain.nodes, 0, __ATOMIC_RELAXED);
	ret->calls = __atomic_exchange_n(&drain.calls, 0, __ATOMIC_RELAXED);
	ret->own_ns = __atomic_exchange_n(&drain.own_ns, 0, __ATOMIC_RELAXED);
}
