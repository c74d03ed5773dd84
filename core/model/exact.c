/* Exact: how a process is recorded. From COLLECT STARTED or RESUMED on, its calls wait for their
 * records and its states are exact; from PAUSED, CLOSED or STOPPED on, or without the library,
 * everything is as in the probe tier.
 *
 * Calls take another path than records, which may be delayed by an unfinished processor. So
 * stopping takes a moment: what waits for its call keeps waiting, and calls made before the end
 * still wait for their records. */
#include "core/model/exact.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/bytes.h"
#include "core/base/invariant.h"
#include "core/base/time.h"
#include "core/model/caller.h"
#include "core/model/correlate.h"
#include "core/model/gpu_pool.h"
#include "core/model/model.h"
#include "core/model/name.h"
#include "core/model/range.h"
#include "core/model/track.h"

/* How long records of an ended process are awaited. */
#define EXACT_LINGER_NS NS_PER_S
/* Recording is reported to have started within this time of the start. */
#define EXACT_BEGIN_NS NS_PER_S
/* How long calls made before a change are awaited after it. */
#define EXACT_FORMER_NS 250000000ull
/* A library that has lost its daemon looks for one more often than this. */
#define EXACT_AWAY_NS (10 * NS_PER_S)
/* How often an open gap is reported again with its new length. */
#define EXACT_GAP_NS NS_PER_S

/* Time between two checkpoints: each looks at all streams of the process. */
#define EXACT_CHANGES_MAX 16

struct exact_device {
	struct list link;
	struct core_device row;
	bool untold;
};

struct exact *exact_get(struct core *core, struct process *process)
{
	struct exact *exact = process->exact;

	if (exact)
		return exact;
	exact = calloc(1, sizeof(*exact));
	if (!exact) {
		loss_count(core, process, LOSS_LIMIT);
		return NULL;
	}
	exact->process = process;
	exact->heard_ns = core->now_ns;
	exact->row.process = process->row.id;
	list_init(&exact->devices);
	list_init(&exact->pools);
	list_init(&exact->callers);
	list_init(&exact->tracks);
	list_init(&exact->contexts);
	ranges_init(&exact->ranges);
	list_init(&exact->sweep.lanes);
	correlate_init(exact);
	process->exact = exact;
	list_append(&core->exacts, &exact->link);
	return exact;
}

bool exact_is_swept(const struct process *process)
{
	return process->exact && process->exact->sweep.on;
}

static void exact_tell(struct core *core, struct exact *exact)
{
	exact->untold = false;
	exact->row.until_ns = exact->row.state == TS_COLLECT_STOPPED ? exact->row.changed_ns : 0;
	core_tell(core, &exact->row);
}

static void gap_open(struct exact_gap *gap, uint64_t time_ns)
{
	if (!gap->since_ns)
		gap->since_ns = time_ns;
}

/* It is reported from its start each time and counted the first time, so that it shows at once and
 * remains one. */
static void gap_tell(struct core *core, const struct exact *exact, enum loss_reason reason,
		     struct exact_gap *gap, uint64_t until_ns)
{
	struct core_loss loss = {
		.start_ns = gap->since_ns,
		.end_ns = until_ns > gap->since_ns ? until_ns : gap->since_ns,
		.process = exact->process->row.id,
		.reason = (uint8_t)reason,
		.count = !gap->told_ns,
	};

	core_lose(core, &loss);
	gap->told_ns = loss.end_ns;
}

static void gap_checkpoint(struct core *core, const struct exact *exact, enum loss_reason reason,
			   struct exact_gap *gap, uint64_t now_ns)
{
	if (gap->since_ns && (!gap->told_ns || gap->told_ns + EXACT_GAP_NS <= now_ns))
		gap_tell(core, exact, reason, gap, now_ns);
}

static void gap_close(struct core *core, const struct exact *exact, enum loss_reason reason,
		      struct exact_gap *gap, uint64_t time_ns)
{
	if (gap->since_ns)
		gap_tell(core, exact, reason, gap, time_ns);
	*gap = (struct exact_gap){ 0 };
}

static void exact_change(const struct core *core, struct exact *exact, uint64_t time_ns)
{
	exact->former = (struct exact_former){ time_ns, core->now_ns, exact->row.records };
}

/* The calls made before the change have come. What came after the recording ended was not observed,
 * nor was what follows work without an answer. */
static void exact_settle(struct core *core, struct exact *exact, uint64_t time_ns)
{
	uint64_t off_ns = exact->off_ns && exact->off_ns < time_ns ? exact->off_ns : time_ns;
	uint64_t until_ns;

	exact->former = (struct exact_former){ 0 };
	if (exact->on)
		return;
	until_ns = correlate_end(core, exact, off_ns);
	sweep_end(core, exact, until_ns, time_ns);
}

static uint64_t later_ns(uint64_t a_ns, uint64_t b_ns)
{
	return a_ns > b_ns ? a_ns : b_ns;
}

static uint64_t stream_latest_ns(const struct stream *stream)
{
	const struct pending *last = list_last(&stream->pending, struct pending, in_stream);

	return later_ns(stream->state.since_ns, last ? last->start_ns : 0);
}

/* Where states were already reported, the exact ones continue from what was seen last: a call may
 * come after the news that its record will. */
static uint64_t exact_begin_ns(const struct core *core, const struct exact *exact, uint64_t time_ns)
{
	const struct context *context;
	const struct device *device;
	const struct stream *stream;

	if (time_ns > core->now_ns || time_ns + EXACT_BEGIN_NS < core->now_ns)
		return core->now_ns;
	list_for_each(device, &exact->process->devices, link)
		time_ns = later_ns(time_ns, device->state.since_ns);
	list_for_each(context, &exact->process->contexts, link)
		list_for_each(stream, &context->streams, in_context)
			time_ns = later_ns(time_ns, stream_latest_ns(stream));
	return time_ns;
}

static void exact_turn_on(struct core *core, struct exact *exact, uint64_t time_ns)
{
	exact_settle(core, exact, time_ns < core->now_ns ? time_ns : core->now_ns);
	exact->former = (struct exact_former){ time_ns, core->now_ns, 0 };
	gap_close(core, exact, LOSS_PAUSED, &exact->pause, time_ns);
	exact->on = true;
	exact->off_ns = 0;
	exact->on_ns = time_ns < core->now_ns ? time_ns : core->now_ns;
	sweep_begin(core, exact, exact_begin_ns(core, exact, time_ns));
	correlate_begin(core, exact, time_ns);
}

/* Recording was switched off between `time_ns` and `until_ns`: calls in between may have
 * records. */
static void exact_turn_off(struct core *core, struct exact *exact, uint64_t time_ns,
			   uint64_t until_ns)
{
	gap_close(core, exact, LOSS_BUDGET, &exact->economy, time_ns);
	if (!exact->on)
		return;
	exact->on = false;
	exact->off_ns = time_ns;
	exact_change(core, exact, until_ns);
	range_end_all(core, &exact->ranges, exact->process, time_ns);
	if (exact->ended_ns) /* its calls came before that */
		exact_settle(core, exact, exact->ended_ns);
}

static void exact_started(struct core *core, struct exact *exact, const struct ts_event *event)
{
	struct exact_gap missed = { .since_ns = event->collect.missed_since_ns };

	if (missed.since_ns < event->start_ns)
		gap_close(core, exact, LOSS_DISCONNECTED, &missed, event->start_ns);
	exact_turn_off(core, exact, event->start_ns, event->start_ns);
	exact->row = (struct core_collect){
		.process = exact->process->row.id,
		.since_ns = event->start_ns,
		.cycles = exact->row.cycles,
	};
}

/* What is recorded from now on. */
static void exact_describe(struct exact *exact, const struct ts_event *event)
{
	const struct ts_collect *collect = &event->collect;

	exact->row.state = collect->state;
	exact->row.changed_ns = event->start_ns;
	exact->row.records = collect->records;
	exact->row.left_out = collect->left_out;
	exact->row.budget_ppm = collect->budget_ppm;
	if (collect->cycles > exact->row.cycles)
		exact->row.cycles = collect->cycles;
	if (collect->cupti_version)
		exact->row.cupti_version = collect->cupti_version;
}

int exact_collect(struct core *core, struct process *process, const struct ts_event *event)
{
	const struct ts_collect *collect = &event->collect;
	uint64_t time_ns = event->start_ns;
	struct exact *exact;

	if (collect->state < TS_COLLECT_STARTED || collect->state > TS_COLLECT_CLOSED) {
		loss_count(core, process, LOSS_BAD_EVENT);
		return INGEST_BAD;
	}
	exact = exact_get(core, process);
	if (!exact)
		return INGEST_LIMIT;
	if (exact->changes++ >= EXACT_CHANGES_MAX) {
		loss_count(core, process, LOSS_LIMIT);
		return INGEST_LIMIT;
	}
	if (collect->state == TS_COLLECT_STARTED)
		exact_started(core, exact, event);
	else if (collect->state != TS_COLLECT_CHANGED)
		exact_turn_off(core, exact, time_ns,
			       event->flags & TS_EVENT_RETURNED ? event->end_ns : time_ns);
	else if (exact->on)
		exact_change(core, exact, time_ns);
	exact_describe(exact, event);
	gap_close(core, exact, LOSS_DISCONNECTED, &exact->away, time_ns);
	if (collect->state == TS_COLLECT_STARTED || collect->state == TS_COLLECT_RESUMED)
		exact_turn_on(core, exact, time_ns);
	else if (collect->state == TS_COLLECT_CHANGED && exact->on)
		correlate_change(core, exact, time_ns);
	if (collect->state == TS_COLLECT_PAUSED)
		gap_open(&exact->pause, time_ns);
	else if (collect->state == TS_COLLECT_STOPPED)
		gap_close(core, exact, LOSS_PAUSED, &exact->pause, time_ns);
	if (exact->on && collect->left_out)
		gap_open(&exact->economy, time_ns);
	else if (!collect->left_out)
		gap_close(core, exact, LOSS_BUDGET, &exact->economy, time_ns);
	exact_tell(core, exact);
	return INGEST_OK;
}

static void exact_add(uint64_t *sum, uint64_t by)
{
	if (__builtin_add_overflow(*sum, by, sum) || *sum > INT64_MAX)
		*sum = INT64_MAX;
}

int exact_cost(struct core *core, struct process *process, const struct ts_event *event)
{
	struct exact *exact = exact_get(core, process);

	if (!exact)
		return INGEST_LIMIT;
	exact_add(&exact->row.busy_ns, event->cost.busy_ns);
	exact_add(&exact->row.own_ns, event->cost.own_ns);
	exact_add(&exact->row.wall_ns, event->end_ns - event->start_ns);
	exact_add(&exact->row.taken, event->cost.records);
	exact->row.busiest_ppm = event->cost.busiest_ppm;
	exact->untold = true;
	return INGEST_OK;
}

int exact_lost(struct core *core, struct process *process, const struct ts_event *event)
{
	static const uint8_t reason[] = {
		[TS_LOST_RING] = LOSS_EXACT_RING, [TS_LOST_CUPTI] = LOSS_CUPTI,
		[TS_LOST_BUFFERS] = LOSS_BUFFERS, [TS_LOST_UNKNOWN] = LOSS_UNKNOWN_RECORD,
		[TS_LOST_NAMES] = LOSS_NO_NAME,
	};
	uint32_t number = event->lost.reason;
	uint64_t end_ns = event->end_ns ? event->end_ns : event->start_ns;

	if (!number || number >= sizeof(reason)) {
		loss_count(core, process, LOSS_BAD_EVENT);
		return INGEST_BAD;
	}
	loss_add(process, reason[number], event->lost.count, event->start_ns, end_ns);
	return INGEST_OK;
}

static struct exact_device *exact_find_device(const struct exact *exact, int16_t ordinal)
{
	struct exact_device *device;

	list_for_each(device, &exact->devices, link)
		if (device->row.ordinal == ordinal)
			return device;
	return NULL;
}

bool exact_knows_device(const struct exact *exact, int16_t ordinal)
{
	return exact_find_device(exact, ordinal);
}

int exact_device(struct core *core, struct process *process, const struct ts_event *event)
{
	struct exact *exact = exact_get(core, process);
	const struct ts_device *from = &event->device;
	struct exact_device *device;
	struct core_device row;

	if (!exact)
		return INGEST_LIMIT;
	if (context_device(from->device) == DEVICE_UNKNOWN) {
		loss_count(core, process, LOSS_BAD_EVENT);
		return INGEST_BAD;
	}
	memset(&row, 0, sizeof(row)); /* including padding, to compare */
	row.process = process->row.id;
	row.ordinal = context_device(from->device);
	memcpy(row.uuid, from->uuid, sizeof(row.uuid));
	row.memory_bytes = bytes_bounded(from->memory_bytes);
	row.name = name_find(exact, from->name);
	row.multiprocessors = from->multiprocessors;
	row.clock_khz = from->clock_khz;
	device = exact_find_device(exact, row.ordinal);
	if (device && memcmp(&device->row, &row, sizeof(row)) == 0)
		return INGEST_OK;
	if (!device) {
		device = malloc(sizeof(*device));
		if (!device) {
			loss_count(core, process, LOSS_LIMIT);
			return INGEST_LIMIT;
		}
		list_append(&exact->devices, &device->link);
	}
	memcpy(&device->row, &row, sizeof(row));
	device->untold = true;
	return INGEST_OK;
}

/* What a process may report often is handed over at checkpoints only. */
static void exact_tell_all(struct core *core, struct exact *exact)
{
	struct exact_device *device;

	if (exact->untold)
		exact_tell(core, exact);
	list_for_each(device, &exact->devices, link) {
		if (device->untold)
			core_tell(core, &device->row);
		device->untold = false;
	}
	gpu_pool_tell_all(core, exact, core->now_ns);
}

bool exact_lingers(struct process *process, uint64_t time_ns, int32_t exit_code)
{
	struct exact *exact = process->exact;

	if (!exact || !exact->on)
		return false;
	if (!exact->ended_ns) {
		exact->ended_ns = time_ns;
		exact->exit_code = exit_code;
	} else if (exact->exit_code == EXIT_UNKNOWN) {
		exact->exit_code = exit_code;
	}
	return true;
}

static void exact_stop(struct core *core, struct exact *exact, uint64_t time_ns)
{
	if (!exact->row.state || exact->row.state == TS_COLLECT_STOPPED)
		return;
	if (exact->on)
		gap_tell(core, exact, LOSS_LAST_RECORDS, &(struct exact_gap){ exact->heard_ns, 0 },
			 time_ns);
	exact_turn_off(core, exact, time_ns, time_ns);
	gap_close(core, exact, LOSS_PAUSED, &exact->pause, time_ns);
	exact->row.state = TS_COLLECT_STOPPED;
	exact->row.changed_ns = time_ns;
	exact_tell(core, exact);
}

void exact_gone(struct core *core, struct process *process, uint64_t time_ns)
{
	struct exact *exact = process->exact;

	if (!exact)
		return;
	exact_stop(core, exact, time_ns);
	if (exact->ended_ns)
		process_end(core, process, exact->ended_ns, exact->exit_code);
}

int exact_hold(struct core *core, struct exact *exact)
{
	int r = quota_charge(&core->share[CORE_SHARE_WAITING], exact->process->row.user, 1);

	if (r < 0)
		return r;
	exact->held++;
	core->waiting++;
	return 0;
}

void exact_let_go(struct core *core, struct exact *exact)
{
	assert_invariant(exact->held > 0 && core->waiting >= exact->held);
	exact->held--;
	core->waiting--;
	quota_give(&core->share[CORE_SHARE_WAITING], exact->process->row.user, 1);
}

struct ticket *exact_victim(const struct exact *exact)
{
	const struct list *lists[] = { &exact->done, &exact->waiting, &exact->fresh };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (!list_empty(lists[i]))
			return list_first(lists[i], struct ticket, link);
	return NULL;
}

static uint64_t exact_amount(const struct exact *exact, int share)
{
	return share == CORE_SHARE_EDGES ? exact->sweep.edges.count : exact->held;
}

struct exact *exact_biggest(struct core *core, int share)
{
	struct exact *exact, *biggest = NULL;
	uint32_t user;

	if (!quota_biggest(&core->share[share], &user))
		return NULL;
	list_for_each(exact, &core->exacts, link)
		if (exact->process->row.user == user &&
		    (!biggest || exact_amount(exact, share) > exact_amount(biggest, share)))
			biggest = exact;
	return biggest;
}

void exact_end(struct core *core, struct process *process, uint64_t time_ns)
{
	struct exact *exact = process->exact;

	if (!exact)
		return;
	gap_close(core, exact, LOSS_DISCONNECTED, &exact->away, time_ns);
	exact_stop(core, exact, time_ns);
	exact_settle(core, exact, time_ns);
	range_end_all(core, &exact->ranges, exact->process, time_ns);
	exact_tell_all(core, exact);
	exact_free(core, process);
}

void exact_tick(struct core *core, uint64_t now_ns)
{
	struct exact *exact;

	list_for_each(exact, &core->exacts, link) {
		correlate_tick(core, exact, now_ns);
		if (exact->former.until_ns && exact->former.told_ns + EXACT_FORMER_NS <= now_ns)
			exact_settle(core, exact, now_ns);
		if (exact->ended_ns && exact->ended_ns + EXACT_LINGER_NS <= now_ns)
			process_end(core, exact->process, exact->ended_ns, exact->exit_code);
	}
}

int exact_restore(struct core *core, struct process *process, uint64_t since_ns)
{
	struct exact *exact = exact_get(core, process);

	if (!exact)
		return -ENOMEM;
	gap_open(&exact->away, since_ns);
	return 0;
}

int core_restore_cycles(struct core *core, uint32_t process, uint32_t cycles)
{
	struct process *found = process_by_id(core, process);
	struct exact *exact = found ? exact_get(core, found) : NULL;

	if (!exact)
		return found ? -ENOMEM : -ENOENT;
	exact->row.cycles = cycles;
	return 0;
}

uint32_t core_collect_cycles(const struct core *core, uint32_t pid)
{
	const struct process *process = process_by_pid(core, pid);

	return process && process->exact ? process->exact->row.cycles : 0;
}

static void exact_check_away(struct core *core, struct exact *exact, uint64_t now_ns)
{
	if (!exact->away_until_ns)
		exact->away_until_ns = now_ns + EXACT_AWAY_NS;
	if (now_ns < exact->away_until_ns)
		gap_checkpoint(core, exact, LOSS_DISCONNECTED, &exact->away, now_ns);
	else
		gap_close(core, exact, LOSS_DISCONNECTED, &exact->away, exact->away_until_ns);
}

void exact_checkpoint(struct core *core, uint64_t now_ns)
{
	struct exact *exact;

	list_for_each(exact, &core->exacts, link) {
		exact->changes = 0;
		exact_tell_all(core, exact);
		sweep_run(core, exact, now_ns);
		gap_checkpoint(core, exact, LOSS_PAUSED, &exact->pause, now_ns);
		gap_checkpoint(core, exact, LOSS_BUDGET, &exact->economy, now_ns);
		if (exact->away.since_ns)
			exact_check_away(core, exact, now_ns);
	}
}

void exact_flush(struct core *core, uint64_t now_ns)
{
	struct exact *exact;

	list_for_each(exact, &core->exacts, link) {
		exact->on = false;
		exact_settle(core, exact, now_ns);
		range_end_all(core, &exact->ranges, exact->process, now_ns);
		if (exact->ended_ns)
			process_end(core, exact->process, exact->ended_ns, exact->exit_code);
	}
}

void exact_free(struct core *core, struct process *process)
{
	struct exact *exact = process->exact;
	struct exact_device *device;

	if (!exact)
		return;
	process->exact = NULL;
	list_remove(&exact->link);
	list_for_each(device, &exact->devices, link)
		free(device);
	gpu_pool_free_all(exact);
	sweep_discard(exact);
	track_free_all(exact);
	caller_free_all(exact);
	name_free_all(core, exact);
	map_clear(&exact->ticket_by_correlation);
	range_free_all(core, &exact->ranges, process);
	free(exact->fingerprint);
	free(exact);
}

void exact_look(const struct exact *exact, core_row_fn *row, void *data)
{
	const struct exact_device *device;

	if (exact->row.since_ns)
		row(data, CORE_ROW_COLLECT, &exact->row);
	list_for_each(device, &exact->devices, link)
		row(data, CORE_ROW_DEVICE, &device->row);
}
