/* Caller: calls of a thread cannot overlap, so a thread is in the last call that started. Calls are
 * kept in an array by start time, from the oldest one still to be matched. Matched calls between
 * them remain as a time only, so that nothing is matched to a call that was over; adjacent ones are
 * merged. */
#include "core/model/caller.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/time.h"
#include "core/base/vector.h"
#include "core/model/model.h"

/* Threads of one process that call the driver. */
#define CALLERS_MAX	 4096
#define CALLER_IDLE_NS	 (10 * NS_PER_S)
#define CALLERS_PER_TICK 16

static struct map_key caller_key(uint32_t ns_tid)
{
	return (struct map_key){ ns_tid, 0 };
}

struct caller *caller_find(struct exact *exact, uint32_t ns_tid)
{
	if (!exact->caller || exact->caller->ns_tid != ns_tid)
		exact->caller = map_get(&exact->caller_by_tid, caller_key(ns_tid));
	return exact->caller;
}

struct caller *caller_get(struct core *core, struct exact *exact, uint32_t ns_tid)
{
	struct caller *caller = caller_find(exact, ns_tid);

	if (!caller) {
		if (exact->caller_by_tid.count < CALLERS_MAX)
			caller = calloc(1, sizeof(*caller));
		if (caller && map_put(&exact->caller_by_tid, caller_key(ns_tid), caller) < 0) {
			free(caller);
			caller = NULL;
		}
		if (!caller) {
			loss_count(core, exact->process, LOSS_LIMIT);
			return NULL;
		}
		caller->ns_tid = ns_tid;
		list_init(&caller->unmatched);
		list_append(&exact->callers, &caller->link);
		exact->caller = caller;
	}
	caller->used_ns = core->now_ns;
	return caller;
}

uint32_t caller_tid(struct exact *exact, uint32_t ns_tid)
{
	const struct caller *caller = caller_find(exact, ns_tid);

	return caller && caller->tid ? caller->tid : ns_tid;
}

/* Of adjacent entries without work the first is enough. */
static void caller_compact(struct caller *caller)
{
	uint32_t kept = 0;

	for (uint32_t i = caller->first; i < caller->end; i++) {
		if (kept && !caller->call[i].pending && !caller->call[kept - 1].pending)
			continue;
		caller->call[kept++] = caller->call[i];
	}
	caller->first = 0;
	caller->end = kept;
}

static int caller_make_room(struct caller *caller)
{
	if (caller->end < caller->room)
		return 0;
	caller_compact(caller);
	if (caller->end < caller->room / 2)
		return 0;
	return VECTOR_ROOM(caller->call, caller->room, caller->end + 1u);
}

int caller_note(struct caller *caller, uint64_t start_ns, struct pending *pending)
{
	uint32_t i;

	if (start_ns > caller->last_ns)
		caller->last_ns = start_ns;
	if (!pending && caller->first < caller->end) {
		const struct caller_call *last = &caller->call[caller->end - 1];

		if (!last->pending && last->start_ns <= start_ns)
			return 0;
	}
	if (caller_make_room(caller) < 0)
		return -ENOMEM;
	for (i = caller->end++; i > caller->first; i--) {
		if (caller->call[i - 1].start_ns <= start_ns)
			break;
		caller->call[i] = caller->call[i - 1];
	}
	caller->call[i] = (struct caller_call){ start_ns, pending };
	return 0;
}

/* The index of the first call that started after then. */
static uint32_t caller_after(const struct caller *caller, uint64_t time_ns)
{
	uint32_t low = caller->first, high = caller->end;

	/* Records come roughly in the order of the calls: usually it is one of the first. */
	while (low < high && low < caller->first + 2) {
		if (caller->call[low].start_ns > time_ns)
			return low;
		low++;
	}
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (caller->call[middle].start_ns > time_ns)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

struct pending *caller_call_at(const struct caller *caller, uint64_t time_ns)
{
	uint32_t after = caller_after(caller, time_ns);

	return after > caller->first ? caller->call[after - 1].pending : NULL;
}

void caller_forget(struct caller *caller, const struct pending *pending)
{
	uint32_t i = caller_after(caller, pending->start_ns);

	for (; i > caller->first && caller->call[i - 1].start_ns == pending->start_ns; i--)
		if (caller->call[i - 1].pending == pending)
			caller->call[i - 1].pending = NULL;
	while (caller->first < caller->end && !caller->call[caller->first].pending)
		caller->first++;
}

static bool caller_is_idle(const struct caller *caller, uint64_t now_ns)
{
	for (uint32_t i = caller->first; i < caller->end; i++)
		if (caller->call[i].pending)
			return false;
	return list_empty(&caller->unmatched) && caller->used_ns + CALLER_IDLE_NS < now_ns;
}

static void caller_free(struct exact *exact, struct caller *caller)
{
	if (exact->caller == caller)
		exact->caller = NULL;
	map_remove(&exact->caller_by_tid, caller_key(caller->ns_tid));
	list_remove(&caller->link);
	free(caller->call);
	free(caller);
}

void caller_tick(struct core *core, struct exact *exact, uint64_t now_ns)
{
	for (int i = 0; i < CALLERS_PER_TICK && !list_empty(&exact->callers); i++) {
		struct caller *caller = list_first(&exact->callers, struct caller, link);

		if (caller_is_idle(caller, now_ns)) {
			caller_free(exact, caller);
			continue;
		}
		list_remove(&caller->link);
		list_append(&exact->callers, &caller->link);
	}
}

void caller_free_all(struct exact *exact)
{
	struct caller *caller;

	list_for_each(caller, &exact->callers, link)
		caller_free(exact, caller);
	map_clear(&exact->caller_by_tid);
}
