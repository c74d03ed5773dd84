/* Cupti call: makes CALL records in CUPTI's callbacks, on the calling thread.
 *
 * Activity records of the driver's functions miss the calls that come through the runtime, and
 * those of the runtime are expensive; callbacks for single functions see all calls and cost almost
 * nothing (seen with CUPTI 13.0). The price is that we hold CUPTI's only subscription.
 *
 * A call inside a call with the same correlation id is part of it.
 */
#include "inject/cupti_call.h"

#include <errno.h>
#include <time.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/time.h"
#include "inject/cupti_calls.h"
#include "inject/cupti_driver.h"
#include "inject/drain.h"
#include "inject/internal.h"
#include "inject/launcher.h"
#include "inject/queue.h"

#define SAMPLE_EVERY 64 /* one of this many calls of a thread is timed */
#define WAIT_MS	     50

enum {
#define CALL(name, plain, per_thread) CBID_##name = plain, CBID_##name##_ptsz = per_thread,
	CUPTI_CALLS(CALL)
#undef CALL
};

static const uint16_t cbids[] = {
#define CALL(name, plain, per_thread) plain, per_thread,
	CUPTI_CALLS(CALL)
#undef CALL
};

static struct {
	void *handle;	   /* our subscription */
	uint32_t price_ns; /* per call, not counting our own part */
	uint32_t finalizing_tid;
	bool finalized;
	const struct cupti *cupti;
} subscription;

static void call_enter(const struct cupti_call *call, struct launcher *launcher)
{
	if (!launcher) {
		if (call->correlation_data)
			*call->correlation_data = clock_ns(CLOCK_MONOTONIC);
		return;
	}
	if (launcher->depth && launcher->open == call->correlation) {
		launcher->depth++;
		return;
	}
	launcher->open = call->correlation;
	launcher->depth = 1;
	launcher->start_ns = clock_ns(CLOCK_MONOTONIC);
}

static void call_exit(const struct cupti_call *call, uint32_t cbid, uint32_t tid,
		      struct launcher *launcher)
{
	struct queue_call queued = {
		.start_ns = launcher		     ? launcher->start_ns
			    : call->correlation_data ? *call->correlation_data
						     : 0,
		.end_ns = clock_ns(CLOCK_MONOTONIC),
		.correlation = call->correlation,
		.cbid = cbid,
		.result = call->result ? *(const int32_t *)call->result : 0,
	};
	uint64_t ns = __atomic_load_n(&subscription.price_ns, __ATOMIC_RELAXED);

	if (!launcher) {
		if (queued.start_ns)
			queue_pass(tid, &queued);
		return;
	}
	/* No ENTER: the call started before we subscribed. */
	if (!launcher->depth || launcher->open != call->correlation || --launcher->depth)
		return;
	/* Entering costs about as much as leaving. */
	if (!queue_put(launcher, &queued) && ++launcher->calls % SAMPLE_EVERY == 0)
		ns += 2 * SAMPLE_EVERY * (clock_ns(CLOCK_MONOTONIC) - queued.end_ns);
	launcher_charge(launcher, ns);
}

/* On our own thread, inside a call that we made for this purpose. */
static void finalize_here(void)
{
	const struct cupti *cupti = subscription.cupti;

	cupti->unsubscribe(subscription.handle);
	subscription.handle = NULL;
	subscription.finalized = cupti->finalize() == CUPTI_OK;
	__atomic_store_n(&subscription.finalizing_tid, 0, __ATOMIC_RELAXED);
}

static void callback(void *data, uint32_t domain, uint32_t cbid, const void *argument)
{
	const struct cupti_call *call = argument;
	uint32_t tid = thread_id();
	struct launcher *launcher;
	int saved = errno;

	if (domain != CUPTI_DOMAIN_DRIVER || !call)
		return;
	if (cbid == DRIVER_CALL_CBID) {
		if (call->site == CUPTI_SITE_EXIT &&
		    __atomic_load_n(&subscription.finalizing_tid, __ATOMIC_RELAXED) == tid)
			finalize_here();
		return;
	}
	if (cbid == CBID_cuGraphLaunch || cbid == CBID_cuGraphLaunch_ptsz)
		drain_note_graph();
	launcher = launcher_note(tid);
	if (launcher)
		__atomic_store_n(&launcher->inside, 1, __ATOMIC_RELAXED);
	if (call->site == CUPTI_SITE_ENTER)
		call_enter(call, launcher);
	else
		call_exit(call, cbid, tid, launcher);
	if (launcher)
		__atomic_store_n(&launcher->inside, 0, __ATOMIC_RELEASE);
	errno = saved;
}

/* The first one sets CUPTI up, in about 10 ms; while many threads launch without a pause its lock
 * is hard to get (seen with CUPTI 13.0: eight threads on one context kept us out until they
 * ended).
 */
int call_subscribe(const struct cupti *cupti)
{
	void *handle = NULL;
	int r;

	if (subscription.handle)
		return CUPTI_OK;
	r = cupti->subscribe(&handle, callback, NULL);
	if (r == CUPTI_OK)
		subscription.handle = handle;
	return r;
}

void call_unsubscribe(const struct cupti *cupti)
{
	if (subscription.handle)
		cupti->unsubscribe(subscription.handle);
	subscription.handle = NULL;
}

bool call_is_subscribed(void)
{
	return subscription.handle;
}

void call_enable(const struct cupti *cupti, bool enable)
{
	for (size_t i = 0; subscription.handle && i < ARRAY_SIZE(cbids); i++)
		if (cbids[i])
			cupti->enable_callback(enable, subscription.handle, CUPTI_DOMAIN_DRIVER,
					       cbids[i]);
}

void call_price(uint32_t ns)
{
	__atomic_store_n(&subscription.price_ns, ns, __ATOMIC_RELAXED);
}

/* CUPTI must be finalized where a driver call returns. Any thread's call would do; we make one
 * ourselves, so that it happens at once and not on a thread of the program. */
bool call_finalize(const struct cupti *cupti)
{
	if (!subscription.handle || !cupti->finalize)
		return false;
	subscription.cupti = cupti;
	subscription.finalized = false;
	__atomic_store_n(&subscription.finalizing_tid, thread_id(), __ATOMIC_RELAXED);
	if (cupti->enable_callback(1, subscription.handle, CUPTI_DOMAIN_DRIVER, DRIVER_CALL_CBID) ==
	    CUPTI_OK)
		driver_call();
	__atomic_store_n(&subscription.finalizing_tid, 0, __ATOMIC_RELAXED);
	return subscription.finalized;
}

bool call_wait(void)
{
	struct timespec pause = { .tv_nsec = NS_PER_MS };

	for (int i = 0; i < WAIT_MS; i++) {
		if (!launcher_is_inside())
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

void call_forget(void)
{
	subscription.handle = NULL;
	subscription.finalizing_tid = 0;
}
