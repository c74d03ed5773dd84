/* Collect: switches CUPTI's record kinds on and off, in the order that CUPTI needs.
 *
 * One of our record kinds is several activity kinds of CUPTI. Calls are the callbacks of
 * cupti_call.c, or the records of call_record.c where another user keeps the subscription.
 * Whole graphs are only ever switched on before the first context: a graph that was made before
 * crashes in its next launch (seen with CUPTI 13.0).
 */
#include "inject/collect.h"

#include <string.h>
#include <time.h>

#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/time.h"
#include "inject/budget.h"
#include "inject/call_record.h"
#include "inject/cupti_call.h"
#include "inject/cupti_driver.h"
#include "inject/drain.h"
#include "inject/internal.h"
#include "inject/launcher.h"
#include "inject/queue.h"
#include "inject/stamp.h"

#define FORCED_SHARE 4	       /* time kept for a forced flush when stopping */
#define CALL_LONG_NS NS_PER_MS /* few calls that submit work take longer */

#define WORK	     (TS_RECORD_KERNELS | TS_RECORD_COPIES)

/* CUPTI and the subscription, for the callbacks of a call. */
#define CALL_NS_BASE 25

static const struct {
	uint32_t record, kind;
} kinds[] = {
	{ TS_RECORD_KERNELS, CUPTI_KIND_CONCURRENT_KERNEL },
	{ TS_RECORD_COPIES, CUPTI_KIND_MEMCPY },
	{ TS_RECORD_COPIES, CUPTI_KIND_MEMCPY2 },
	{ TS_RECORD_COPIES, CUPTI_KIND_MEMSET },
	{ TS_RECORD_MEMORY, CUPTI_KIND_MEMORY2 },
	{ TS_RECORD_MEMORY, CUPTI_KIND_MEMORY_POOL },
	{ TS_RECORD_SYNCS, CUPTI_KIND_SYNCHRONIZATION },
	{ TS_RECORD_RANGES, CUPTI_KIND_MARKER },
	{ TS_RECORD_OVERHEAD, CUPTI_KIND_OVERHEAD },
};

static struct {
	const struct cupti *cupti;
	uint32_t records, version;
	bool beside; /* another user keeps the subscription */
	bool whole_graphs;
	bool stale; /* records may stay unfinished forever */
	uint32_t thread_id_type;
	uint64_t off_ns; /* when all was switched off */
} collect;

/* CUPTI's clock, if nobody has given it another one. */
static uint64_t default_clock(void)
{
	return clock_ns(CLOCK_REALTIME);
}

static uint64_t our_clock(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

static void set_up(const struct cupti *cupti)
{
	uint8_t zeroed = 1;
	size_t size = sizeof(zeroed);

	if (cupti->get_thread_id_type)
		cupti->get_thread_id_type(&collect.thread_id_type);
	if (cupti->set_thread_id_type)
		cupti->set_thread_id_type(CUPTI_THREAD_ID_SYSTEM);
	if (!cupti->register_clock || cupti->register_clock(our_clock) != CUPTI_OK)
		debug_say("CUPTI uses its own clock: converting its times");
	stamp_begin();
	if (cupti->set_attribute)
		cupti->set_attribute(CUPTI_ATTRIBUTE_ZEROED_BUFFER, &size, &zeroed);
}

/* Restores CUPTI for the next user. */
static void tear_down(const struct cupti *cupti)
{
	uint8_t zeroed = 0;
	size_t size = sizeof(zeroed);

	if (cupti->set_attribute)
		cupti->set_attribute(CUPTI_ATTRIBUTE_ZEROED_BUFFER, &size, &zeroed);
	if (cupti->register_clock)
		cupti->register_clock(default_clock);
	if (cupti->set_thread_id_type)
		cupti->set_thread_id_type(collect.thread_id_type);
}

/* Practically all calls in progress end within this time. */
static void let_calls_pass(void)
{
	struct timespec pause = { .tv_nsec = CALL_LONG_NS };

	nanosleep(&pause, NULL);
}

static bool switch_calls(bool on)
{
	if (collect.beside)
		return call_record_enable(collect.cupti, on) == CUPTI_OK;
	call_enable(collect.cupti, on);
	return true;
}

bool collect_others(const struct cupti *cupti)
{
	if (cupti->enable(CUPTI_KIND_KERNEL) != CUPTI_OK)
		return true;
	cupti->disable(CUPTI_KIND_KERNEL);
	return false;
}

/* Switches what differs and skips what CUPTI refuses. Returns the first refusal. */
static int switch_kinds(uint32_t records)
{
	const struct cupti *cupti = collect.cupti;
	uint32_t changed = records ^ collect.records, refused = 0;
	int first = CUPTI_OK;

	/* So that each kernel has its call: calls are first on and last off. */
	if (changed & records & TS_RECORD_CALLS) {
		refused |= switch_calls(true) ? 0 : TS_RECORD_CALLS;
		let_calls_pass();
	}
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		int r;

		if (!(changed & kinds[i].record))
			continue;
		if (!(records & kinds[i].record)) {
			cupti->disable(kinds[i].kind);
			continue;
		}
		r = cupti->enable(kinds[i].kind);
		if (r == CUPTI_OK)
			continue;
		debug_say("CUPTI refuses records of kind %u: error %d", kinds[i].kind, r);
		first = first ? first : r;
		/* Not every CUPTI has peer copies and pools. */
		if (kinds[i].kind != CUPTI_KIND_MEMCPY2 && kinds[i].kind != CUPTI_KIND_MEMORY_POOL)
			refused |= kinds[i].record;
	}
	collect.stale = collect.stale || (collect.records & ~records & WORK);
	if (changed & collect.records & TS_RECORD_CALLS) {
		let_calls_pass();
		switch_calls(false);
		queue_take_all();
	}
	collect.records = records & ~refused;
	call_price(CALL_NS_BASE + (collect.records & TS_RECORD_KERNELS ? BUDGET_WORK_NS : 0));
	return first;
}

int collect_begin(const struct cupti *cupti, uint32_t records, bool whole_graphs)
{
	int r;

	collect.cupti = cupti;
	collect.beside = !call_is_subscribed();
	collect.version = cupti->version;
	collect.stale = false;
	collect.records = 0;
	drain_use(cupti);
	set_up(cupti);
	r = cupti->register_callbacks(drain_request, drain_complete);
	if (r == CUPTI_OK) {
		collect.whole_graphs = whole_graphs && !(records & TS_RECORD_NODES) &&
				       (records & TS_RECORD_KERNELS) &&
				       cupti->enable(CUPTI_KIND_GRAPH_TRACE) == CUPTI_OK;
		if (!collect.whole_graphs)
			records |= records & TS_RECORD_KERNELS ? TS_RECORD_NODES : 0;
		r = switch_kinds(records);
	}
	if (r != CUPTI_OK && !(collect.records & WORK)) {
		collect_end(0);
		call_unsubscribe(cupti);
		return r;
	}
	cupti->enable(CUPTI_KIND_CONTEXT);
	return CUPTI_OK;
}

void collect_change(uint32_t records)
{
	if (!collect.cupti)
		return;
	records &= ~(uint32_t)TS_RECORD_NODES;
	if (!collect.whole_graphs && records & TS_RECORD_KERNELS)
		records |= TS_RECORD_NODES;
	switch_kinds(records);
}

/* Work running when its kind was switched off never finishes its record, and a plain flush would
 * hold back everything after it (seen with CUPTI 13.0). */
bool collect_is_stale(void)
{
	bool stale = collect.stale;

	collect.stale = false;
	return stale;
}

uint32_t collect_records(void)
{
	return collect.records;
}

bool collect_has_whole_graphs(void)
{
	return collect.whole_graphs;
}

bool collect_end(uint64_t limit_ns)
{
	const struct cupti *cupti = collect.cupti;
	bool back;

	if (!cupti)
		return true;
	drain_hurry(true);
	switch_kinds(0);
	collect.off_ns = clock_ns(CLOCK_MONOTONIC);
	cupti->disable(CUPTI_KIND_CONTEXT);
	if (collect.whole_graphs)
		cupti->disable(CUPTI_KIND_GRAPH_TRACE);
	collect.whole_graphs = false;
	drain_hurry(false);
	back = drain_wait(false, limit_ns - limit_ns / FORCED_SHARE) ||
	       drain_wait(true, limit_ns / FORCED_SHARE);
	queue_end();
	tear_down(cupti);
	collect.cupti = NULL;
	return back;
}

uint64_t collect_off_ns(void)
{
	return collect.off_ns;
}

void collect_tell(const struct ts_collect *state, uint64_t since_ns, uint64_t until_ns)
{
	struct ts_event event = {
		.kind = TS_EVENT_COLLECT,
		.flags = until_ns ? TS_EVENT_RETURNED : 0,
		.start_ns = since_ns,
		.end_ns = until_ns,
		.collect = *state,
	};

	event.collect.records = collect.records;
	event.collect.cupti_version = collect.version;
	event.collect.beside = collect.beside;
	event.collect.driver_version = (uint32_t)driver_version();
	link_put(&event, sizeof(event));
	link_wake();
}

void collect_forget(void)
{
	memset(&collect, 0, sizeof(collect));
}
