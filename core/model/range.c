/* Range: starts and ends of NVTX ranges are paired by their number; each range is reported once,
 * when it ends. */
#include "core/model/range.h"

#include <stdlib.h>

#include "core/model/call.h"
#include "core/model/caller.h"
#include "core/model/name.h"
#include "core/model/track.h"

struct range {
	struct list link; /* in exact's, oldest first */
	uint32_t number;
	struct op op;
};

static struct map_key range_key(uint32_t number)
{
	return (struct map_key){ number, 0 };
}

static struct op range_op(struct exact *exact, const struct ts_event *event, uint8_t kind)
{
	return (struct op){
		.start_ns = event->start_ns,
		.process = exact->process->row.id,
		.tid = caller_tid(exact, call_ns_tid(event)),
		.kind = kind,
		.device = DEVICE_UNKNOWN,
	};
}

static struct op range_named_op(struct exact *exact, const struct ts_event *event)
{
	struct op op = range_op(exact, event, OP_RANGE);

	op.name = name_find(exact, event->range.name);
	op.handle = name_find(exact, event->range.domain);
	return op;
}

/* `flags`: OP_RETURNED, or 0 where the range was cut. */
static void range_end(struct core *core, struct exact *exact, struct range *range, uint64_t time_ns,
		      uint16_t flags)
{
	struct op *op = &range->op;

	op->end_ns = time_ns > op->start_ns ? time_ns : op->start_ns;
	op->flags = flags;
	core_emit(core, op);
	quota_give(&core->share[CORE_SHARE_RANGES], exact->process->row.user, 1);
	map_remove(&exact->range_by_number, range_key(range->number));
	list_remove(&range->link);
	free(range);
}

void range_end_all(struct core *core, struct exact *exact, uint64_t time_ns)
{
	struct range *range;

	while ((range = list_first(&exact->ranges, struct range, link)))
		range_end(core, exact, range, time_ns, 0);
}

void range_free_all(struct core *core, struct exact *exact)
{
	struct range *range;

	quota_give(&core->share[CORE_SHARE_RANGES], exact->process->row.user,
		   exact->range_by_number.count);
	list_for_each(range, &exact->ranges, link)
		free(range);
	list_init(&exact->ranges);
	map_clear(&exact->range_by_number);
}

/* The oldest of the process is cut where it, or its user, has as many as may be. */
static bool range_make_room(struct core *core, struct exact *exact, uint64_t time_ns)
{
	struct quota *share = &core->share[CORE_SHARE_RANGES];
	uint32_t user = exact->process->row.user;

	if (exact->range_by_number.count >= RANGES_MAX || !quota_left(share, user)) {
		loss_count(core, exact->process, LOSS_LIMIT);
		if (list_empty(&exact->ranges))
			return false;
		range_end(core, exact, list_first(&exact->ranges, struct range, link), time_ns, 0);
	}
	return quota_take(share, user, 1);
}

static int range_begin(struct core *core, struct exact *exact, const struct ts_event *event)
{
	uint32_t number = event->range.number;
	struct range *range = map_get(&exact->range_by_number, range_key(number));

	/* Its end was lost. */
	if (range)
		range_end(core, exact, range, event->start_ns, 0);
	if (!range_make_room(core, exact, event->start_ns))
		return INGEST_LIMIT;
	range = malloc(sizeof(*range));
	if (!range || map_put(&exact->range_by_number, range_key(number), range) < 0) {
		quota_give(&core->share[CORE_SHARE_RANGES], exact->process->row.user, 1);
		free(range);
		loss_count(core, exact->process, LOSS_LIMIT);
		return INGEST_LIMIT;
	}
	range->number = number;
	range->op = range_named_op(exact, event);
	list_append(&exact->ranges, &range->link);
	return INGEST_OK;
}

int range_take(struct core *core, struct process *process, const struct ts_event *event)
{
	struct exact *exact = exact_get(core, process);
	struct range *range;
	struct op op;

	if (!exact)
		return INGEST_LIMIT;
	switch (event->range.part) {
	case TS_RANGE_BEGIN:
		return range_begin(core, exact, event);
	case TS_RANGE_END:
		range = map_get(&exact->range_by_number, range_key(event->range.number));
		if (range)
			range_end(core, exact, range, event->start_ns, OP_RETURNED);
		else
			loss_count(core, process, LOSS_BEFORE);
		return INGEST_OK;
	case TS_RANGE_MARK:
		op = range_named_op(exact, event);
		op.end_ns = op.start_ns;
		op.flags = OP_RETURNED;
		core_emit(core, &op);
		return INGEST_OK;
	default:
		loss_count(core, process, LOSS_BAD_EVENT);
		return INGEST_BAD;
	}
}

int range_overhead(struct core *core, struct process *process, const struct ts_event *event)
{
	struct exact *exact = exact_get(core, process);
	struct op op;

	if (!exact)
		return INGEST_LIMIT;
	op = range_op(exact, event, OP_OVERHEAD);
	op.end_ns = event->end_ns;
	op.flags = OP_RETURNED;
	op.handle = event->overhead.kind;
	op.correlation = event->overhead.correlation;
	core_emit(core, &op);
	return INGEST_OK;
}

int range_sync(struct core *core, struct process *process, const struct ts_event *event)
{
	struct exact *exact = exact_get(core, process);
	const struct ts_work work = {
		.context = event->sync.context,
		.stream = event->sync.stream,
	};
	struct op op;

	if (!exact)
		return INGEST_LIMIT;
	op = range_op(exact, event, OP_SYNC);
	op.end_ns = event->end_ns;
	op.flags = OP_RETURNED | OP_EXACT;
	op.detail = (uint8_t)event->sync.type;
	op.handle = event->sync.event;
	op.correlation = event->sync.correlation;
	if (track_is_known(exact, &work))
		op.stream = track_stream(core, exact, &work);
	core_emit(core, &op);
	return INGEST_OK;
}
