/* Queue: a small one for each launcher, which only its thread fills, without an atomic exchange:
 * the cache lines that all threads share, those of the ring, are touched once per batch of calls.
 *
 * Our thread takes what is there, each tick. A thread that calls so often that its queue is half
 * full by then hands a batch over itself. Whoever takes holds `taking` while copying the calls and
 * claiming their slots in the ring: so each call goes once, and those of a thread in order. Nobody
 * waits for `taking`, and a call is lost only if both queue and ring are full.
 */
#include "inject/queue.h"

#include <errno.h>

#include "core/base/clock.h"
#include "inject/internal.h"

#define CALLS	     128 /* of 32 bytes: one page, touched when its thread first calls */
#define BATCH	     (CALLS / 2)
#define AGAIN_EVERY  (BATCH / 4) /* calls, if the ring had no room */
#define WAIT_NS	     20000000	 /* wait for room in the ring, when stopping */
#define WAIT_STEP_NS 200000
#define WAKE_EVERY   512 /* calls of a thread after which to wake the daemon */

static _Alignas(4096) struct queue_call queue[LAUNCHERS_MAX][CALLS];

/* What the calls of a thread have in common. */
static struct ts_event event_of(uint32_t tid)
{
	return (struct ts_event){
		.kind = TS_EVENT_CALL,
		.flags = TS_EVENT_RETURNED,
		.tid = tid,
		.ns_tid = tid,
	};
}

static void event_set(struct ts_event *event, const struct queue_call *call)
{
	event->fn = (uint16_t)call->cbid;
	event->start_ns = call->start_ns;
	event->end_ns = call->end_ns;
	event->result = call->result;
	event->call.correlation = call->correlation;
}

static bool taking_begin(struct launcher *launcher)
{
	return !__atomic_load_n(&launcher->taking, __ATOMIC_RELAXED) &&
	       !__atomic_exchange_n(&launcher->taking, 1, __ATOMIC_ACQUIRE);
}

static void taking_end(struct launcher *launcher)
{
	__atomic_store_n(&launcher->taking, 0, __ATOMIC_RELEASE);
}

/* Copies the oldest calls and claims slots for as many as there is room for. Returns how many; if
 * nobody takes records, they are dropped. */
static uint32_t take(struct launcher *launcher, struct queue_call *ret, struct link_batch *batch)
{
	const struct queue_call *calls = queue[launcher_place(launcher)];
	uint32_t taken = launcher->taken, count;
	int r;

	count = __atomic_load_n(&launcher->queued, __ATOMIC_ACQUIRE) - taken;
	count = count < BATCH ? count : BATCH;
	if (!count)
		return 0;
	while ((r = link_begin(batch, count)) == -ENOSPC && count > 1)
		count = (count + 3) / 4;
	if (r == -ENOSPC)
		return 0;
	for (uint32_t i = 0; i < count; i++)
		ret[i] = calls[(taken + i) % CALLS];
	__atomic_store_n(&launcher->taken, taken + count, __ATOMIC_RELEASE);
	return r < 0 ? 0 : count;
}

/* Hands a batch over; returns how many calls it had. */
static uint32_t hand_over(struct launcher *launcher)
{
	uint32_t tid = __atomic_load_n(&launcher->tid, __ATOMIC_RELAXED), count;
	struct queue_call calls[BATCH];
	struct link_batch batch;
	struct ts_event event;

	if (!taking_begin(launcher))
		return 0;
	count = take(launcher, calls, &batch);
	taking_end(launcher);
	if (!count)
		return 0;
	event = event_of(tid);
	for (uint32_t i = 0; i < count; i++) {
		event_set(&event, &calls[i]);
		link_fill(&batch, i, &event, sizeof(event));
	}
	link_end(&batch);
	return count;
}

/* Time that is worth reporting separately. */
static void hand_over_own(struct launcher *launcher)
{
	uint64_t start_ns = clock_ns(CLOCK_MONOTONIC);
	uint32_t queued = launcher->queued;

	hand_over(launcher);
	if (queued / WAKE_EVERY != (queued - BATCH) / WAKE_EVERY)
		link_wake();
	launcher_charge(launcher, clock_ns(CLOCK_MONOTONIC) - start_ns);
}

bool queue_put(struct launcher *launcher, const struct queue_call *call)
{
	uint32_t queued = launcher->queued;
	uint32_t held = queued - __atomic_load_n(&launcher->taken, __ATOMIC_ACQUIRE);
	bool due = held >= BATCH && held % AGAIN_EVERY == 0;

	if (due) {
		hand_over_own(launcher);
		held = queued - __atomic_load_n(&launcher->taken, __ATOMIC_ACQUIRE);
	}
	if (held >= CALLS) {
		link_lost(TS_LOST_RING, 1);
		return true;
	}
	queue[launcher_place(launcher)][queued % CALLS] = *call;
	__atomic_store_n(&launcher->queued, queued + 1, __ATOMIC_RELEASE);
	return due;
}

void queue_take_all(void)
{
	for (struct launcher *l = launcher_next(NULL); l; l = launcher_next(l))
		for (uint32_t i = 0; i < CALLS; i += BATCH)
			if (hand_over(l) < BATCH)
				break;
}

/* Counts the rest of a queue as lost. */
static uint32_t give_up(struct launcher *launcher)
{
	uint32_t left;

	if (!taking_begin(launcher))
		return 0;
	left = __atomic_load_n(&launcher->queued, __ATOMIC_ACQUIRE) - launcher->taken;
	__atomic_store_n(&launcher->taken, launcher->taken + left, __ATOMIC_RELEASE);
	taking_end(launcher);
	return left;
}

static bool is_empty(void)
{
	for (struct launcher *l = launcher_next(NULL); l; l = launcher_next(l))
		if (launcher_has_queued(l))
			return false;
	return true;
}

void queue_end(void)
{
	struct timespec pause = { .tv_nsec = WAIT_STEP_NS };
	uint32_t lost = 0;

	queue_take_all();
	for (int i = 0; i < WAIT_NS / WAIT_STEP_NS && !is_empty(); i++) {
		link_wake();
		nanosleep(&pause, NULL);
		queue_take_all();
	}
	for (struct launcher *l = launcher_next(NULL); l; l = launcher_next(l))
		lost += give_up(l);
	if (lost)
		link_lost(TS_LOST_RING, lost);
}

void queue_pass(uint32_t tid, const struct queue_call *call)
{
	struct ts_event event = event_of(tid);

	event_set(&event, call);
	if (link_put(&event, sizeof(event)) == -ENOSPC)
		link_lost(TS_LOST_RING, 1);
}
