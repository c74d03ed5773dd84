/* Range: starts and ends of NVTX ranges are paired by their number; each range is reported once,
 * when it ends. */
#include "core/model/range.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/model/call.h"
#include "core/model/caller.h"
#include "core/model/name.h"
#include "core/model/track.h"

struct range {
	struct list link; /* in its ranges' list */
	uint64_t number;
	struct op op;
	bool outermost; /* of its thread */
	size_t length;
	char text[]; /* of the range library: the name, which is told again at the end */
};

static struct map_key range_key(uint64_t number)
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

void ranges_init(struct ranges *ranges)
{
	list_init(&ranges->list);
}

/* How many of the latest are looked at for one of the same thread. */
#define LATEST 64

static bool range_is_outermost(const struct ranges *ranges, uint32_t tid)
{
	unsigned int looks = LATEST;

	for (const struct list *node = ranges->list.prev; node != &ranges->list && looks--;
	     node = node->prev)
		if (list_item(node, struct range, link)->op.tid == tid)
			return false;
	return true;
}

/* `flags`: OP_RETURNED, or 0 where the range was cut. */
static void range_end(struct core *core, struct ranges *ranges, struct process *process,
		      struct range *range, uint64_t time_ns, uint16_t flags)
{
	struct op *op = &range->op;

	op->end_ns = time_ns > op->start_ns ? time_ns : op->start_ns;
	op->flags = flags;
	if (range->length)
		op->name =
			name_tell(core, process, &process->range_names, range->text, range->length);
	core_emit(core, op);
	if (range->outermost && flags)
		growing_step(&process->growing, op->end_ns);
	quota_give(&core->share[CORE_SHARE_RANGES], process->row.user, 1);
	map_remove(&ranges->by_number, range_key(range->number));
	list_remove(&range->link);
	free(range);
}

void range_end_all(struct core *core, struct ranges *ranges, struct process *process,
		   uint64_t time_ns)
{
	struct range *range;

	while ((range = list_first(&ranges->list, struct range, link)))
		range_end(core, ranges, process, range, time_ns, 0);
}

void range_flush(struct core *core, uint64_t time_ns)
{
	struct process *process;

	list_for_each(process, &core->processes, link)
		range_end_all(core, &process->ranges, process, time_ns);
}

void range_free_all(struct core *core, struct ranges *ranges, const struct process *process)
{
	struct range *range;

	quota_give(&core->share[CORE_SHARE_RANGES], process->row.user, ranges->by_number.count);
	list_for_each(range, &ranges->list, link)
		free(range);
	list_init(&ranges->list);
	map_clear(&ranges->by_number);
}

/* The oldest of the process is cut where it, or its user, has as many as may be. */
static bool range_make_room(struct core *core, struct ranges *ranges, struct process *process,
			    uint64_t time_ns)
{
	struct quota *share = &core->share[CORE_SHARE_RANGES];
	uint32_t user = process->row.user;

	if (ranges->by_number.count >= RANGES_MAX || !quota_left(share, user)) {
		loss_count(core, process, LOSS_LIMIT);
		if (list_empty(&ranges->list))
			return false;
		range_end(core, ranges, process, list_first(&ranges->list, struct range, link),
			  time_ns, 0);
	}
	return quota_take(share, user, 1);
}

static int range_begin(struct core *core, struct ranges *ranges, struct process *process,
		       const struct range *from, const char *text)
{
	struct range *range = map_get(&ranges->by_number, range_key(from->number));
	uint64_t time_ns = from->op.start_ns;

	/* Its end was lost. */
	if (range)
		range_end(core, ranges, process, range, time_ns, 0);
	if (!range_make_room(core, ranges, process, time_ns))
		return INGEST_LIMIT;
	range = malloc(sizeof(*range) + from->length);
	if (!range || map_put(&ranges->by_number, range_key(from->number), range) < 0) {
		quota_give(&core->share[CORE_SHARE_RANGES], process->row.user, 1);
		free(range);
		loss_count(core, process, LOSS_LIMIT);
		return INGEST_LIMIT;
	}
	*range = *from;
	memcpy(range->text, text, from->length);
	range->outermost = range_is_outermost(ranges, range->op.tid);
	list_append(&ranges->list, &range->link);
	return INGEST_OK;
}

static int range_finish(struct core *core, struct ranges *ranges, struct process *process,
			uint64_t number, uint64_t time_ns)
{
	struct range *range = map_get(&ranges->by_number, range_key(number));

	if (range)
		range_end(core, ranges, process, range, time_ns, OP_RETURNED);
	else
		loss_count(core, process, LOSS_BEFORE);
	return INGEST_OK;
}

/* As daemon/library/range.c puts it there. */
static size_t range_text(const struct ts_api *api, char ret[TS_RANGE_NAME_SIZE])
{
	const size_t first = offsetof(struct ts_api, handle);

	memcpy(ret, api, first);
	memcpy(ret + first, api->word, sizeof(api->word));
	return strnlen(ret, TS_RANGE_NAME_SIZE);
}

int range_called(struct core *core, struct process *process, const struct ts_event *event,
		 uint8_t part)
{
	struct ranges *ranges = &process->ranges;
	struct range from = {
		.number = event->api.handle,
		.op = { .start_ns = event->start_ns,
			.process = process->row.id,
			.tid = event->tid,
			.kind = OP_RANGE,
			.device = DEVICE_UNKNOWN },
	};
	char text[TS_RANGE_NAME_SIZE];
	struct range *open;

	switch (part) {
	case TS_RANGE_BEGIN:
		from.length = range_text(&event->api, text);
		return range_begin(core, ranges, process, &from, text);
	case TS_RANGE_END:
		return range_finish(core, ranges, process, from.number, event->start_ns);
	default: /* where another thread has ended it, it is not there any more */
		open = map_get(&ranges->by_number, range_key(from.number));
		if (open)
			range_end(core, ranges, process, open, event->start_ns, 0);
		return INGEST_OK;
	}
}

int range_take(struct core *core, struct process *process, const struct ts_event *event)
{
	struct exact *exact = exact_get(core, process);
	struct range from = { .number = event->range.number };
	struct op op;

	if (!exact)
		return INGEST_LIMIT;
	switch (event->range.part) {
	case TS_RANGE_BEGIN:
		from.op = range_named_op(exact, event);
		return range_begin(core, &exact->ranges, process, &from, "");
	case TS_RANGE_END:
		return range_finish(core, &exact->ranges, process, from.number, event->start_ns);
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
