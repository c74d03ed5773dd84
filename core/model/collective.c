/* Collective: a call is joined with the kernels that its thread launches before it returns; in a
 * group, before the end of the outermost one returns. They are there when it does: a launch is
 * reported when it starts. The calls on a communicator share these kernels, where there are
 * several.
 *
 * Calls are added up once it is known how long the kernels took (in the exact tier), or that nobody
 * will know. What fails, or is in a group that does, is not counted.
 */
#include "core/model/collective.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/bytes.h"
#include "core/base/time.h"
#include "core/model/call.h"
#include "core/model/model.h"

/* Of a call: more than any memory has. */
#define BYTES_MAX (1ull << 50)
/* How far back kernels are looked for, in each list. */
#define LOOK_BACK	   512
#define LOOK_BACK_ANSWERED 64
/* Calls of different threads are seen slightly out of order. */
#define OUT_OF_ORDER_NS 10000000ull

#define STREAM_LEGACY	1 /* the same as 0 */

/* Calls of one kind, on one communicator. */
struct part {
	struct list link;
	uint32_t communicator; /* its number */
	int32_t peer;	       /* -1: none, or several */
	uint8_t operation;     /* enum collective */
	uint8_t type, reduction;
	uint64_t stream; /* of the first */
	uint64_t calls, bytes;
};

/* Of a thread. */
struct group {
	struct list link;
	struct list parts;
	uint32_t tid, depth;
};

/* Calls whose kernels are known, and have not yet left. */
struct launched {
	struct list link;
	struct list parts;
	uint32_t waiting; /* kernels */
	bool untimed;	  /* it is not known of all how long they took */
	uint64_t end_ns;  /* of the calls, then of the kernels */
	uint64_t ns;
};

void collective_init(struct collectives *collectives)
{
	list_init(&collectives->groups);
	list_init(&collectives->launches);
}

static bool collective_hold(struct core *core, struct process *process)
{
	return quota_take(&core->share[CORE_SHARE_COLLECTIVES], process->row.user, 1);
}

static void collective_drop(struct core *core, struct process *process)
{
	quota_give(&core->share[CORE_SHARE_COLLECTIVES], process->row.user, 1);
}

static void parts_free(struct core *core, struct process *process, struct list *parts)
{
	struct part *part;

	list_for_each(part, parts, link) {
		list_remove(&part->link);
		collective_drop(core, process);
		free(part);
	}
}

static uint64_t collective_bytes(const struct ts_api *api)
{
	static const uint8_t width[] = {
#define X(number, name, bytes) [number] = (bytes),
		NCCL_TYPES(X)
#undef X
	};
	uint64_t bytes;

	if (api->type >= ARRAY_SIZE(width))
		return 0;
	if (__builtin_mul_overflow(api->bytes, (uint64_t)width[api->type], &bytes) ||
	    bytes > BYTES_MAX)
		return BYTES_MAX;
	return bytes;
}

static bool has_peer(uint8_t operation)
{
	return operation == COLLECTIVE_REDUCE || operation == COLLECTIVE_BROADCAST ||
	       operation == COLLECTIVE_SEND || operation == COLLECTIVE_RECV ||
	       operation == COLLECTIVE_GATHER || operation == COLLECTIVE_SCATTER;
}

static bool has_reduction(uint8_t operation)
{
	return operation == COLLECTIVE_ALL_REDUCE || operation == COLLECTIVE_REDUCE ||
	       operation == COLLECTIVE_REDUCE_SCATTER;
}

static uint8_t reduction_of(const struct ts_api *api)
{
	return 1 + (api->reduction < NCCL_REDUCTION_CUSTOM ? (uint8_t)api->reduction
							   : NCCL_REDUCTION_CUSTOM);
}

static struct part part_of(const struct ts_api *api, uint32_t communicator, uint8_t operation)
{
	return (struct part){
		.communicator = communicator,
		.operation = operation,
		.peer = has_peer(operation) && api->peer >= 0 ? api->peer : -1,
		.type = api->type < NCCL_TYPE_COUNT ? (uint8_t)(api->type + 1) : 0,
		.reduction = has_reduction(operation) ? reduction_of(api) : 0,
		.stream = api->stream == STREAM_LEGACY ? 0 : api->stream,
		.calls = 1,
		.bytes = collective_bytes(api),
	};
}

static void part_join(struct part *part, const struct part *other)
{
	part->calls++;
	part->bytes += part->bytes < BYTES_MAX ? other->bytes : 0;
	if (part->peer != other->peer)
		part->peer = -1;
	if (part->type != other->type)
		part->type = 0;
	if (part->reduction != other->reduction)
		part->reduction = 0;
}

/* False: there are too many. */
static bool parts_add(struct core *core, struct process *process, struct list *parts,
		      const struct part *from)
{
	struct part *part;
	uint32_t count = 0;

	list_for_each(part, parts, link) {
		if (part->communicator == from->communicator &&
		    part->operation == from->operation) {
			part_join(part, from);
			return true;
		}
		count++;
	}
	if (count >= PARTS_MAX || !collective_hold(core, process))
		return false;
	part = malloc(sizeof(*part));
	if (!part) {
		collective_drop(core, process);
		return false;
	}
	*part = *from;
	list_append(parts, &part->link);
	return true;
}

static struct core_collective *collective_row(struct core *core, struct process *process,
					      const struct part *part, uint64_t time_ns)
{
	struct core_collective key = {
		.second = time_ns / NS_PER_S,
		.process = process->row.id,
		.communicator = part->communicator,
		.peer = part->peer,
		.operation = part->operation,
		.type = part->type,
		.reduction = part->reduction,
		.size = part->bytes ? (uint8_t)(64 - __builtin_clzll(part->bytes)) : 0,
	};
	struct core_collective *row = sums_get(&core->collectives, &key, 0);

	if (row)
		return row;
	if (quota_take(&core->share[CORE_SHARE_COLLECTIVE_ROWS], process->row.user, 1))
		row = sums_get(&core->collectives, &key, UINT32_MAX);
	if (!row)
		loss_count(core, process, LOSS_LIMIT);
	return row;
}

static void part_count(struct core *core, struct process *process, const struct part *part,
		       const struct launched *launched, bool shared)
{
	const bool timed = launched->ns && !launched->untimed;
	struct core_collective *row = collective_row(core, process, part, launched->end_ns);

	if (!row)
		return;
	row->calls += part->calls;
	row->bytes = bytes_bounded(row->bytes + part->bytes);
	row->runs++;
	row->shared += shared;
	if (!timed)
		return;
	if (!row->timed++ || launched->ns < row->min_ns)
		row->min_ns = launched->ns;
	if (launched->ns > row->max_ns)
		row->max_ns = launched->ns;
	row->total_ns += launched->ns;
	row->timed_bytes = bytes_bounded(row->timed_bytes + part->bytes);
}

static void launched_count(struct core *core, struct process *process,
			   const struct launched *launched)
{
	struct part *part;
	uint64_t calls = 0;

	list_for_each(part, &launched->parts, link)
		calls += part->calls;
	list_for_each(part, &launched->parts, link)
		part_count(core, process, part, launched, calls > 1);
}

static void launched_free(struct core *core, struct process *process, struct launched *launched)
{
	parts_free(core, process, &launched->parts);
	list_remove(&launched->link);
	free(launched);
}

void collective_ran(struct core *core, struct pending *pending)
{
	struct launched *launched = pending->launched;
	const struct op *op = &pending->op;

	pending->launched = NULL;
	if (op->flags & OP_EXACT && !pending->failed) {
		launched->ns += op->gpu_end_ns - op->gpu_start_ns;
		if (op->gpu_end_ns > launched->end_ns)
			launched->end_ns = op->gpu_end_ns;
	} else {
		launched->untimed = true;
	}
	if (--launched->waiting)
		return;
	launched_count(core, pending->process, launched);
	launched_free(core, pending->process, launched);
}

/* Which kernels are meant: of a thread, between these times. */
struct span {
	uint32_t tid;
	uint64_t start_ns, end_ns;
	bool by_stream; /* only those on a stream of the calls */
};

static bool span_has(const struct span *span, const struct pending *pending)
{
	return !pending->source && pending->op.kind == OP_LAUNCH && pending->op.tid == span->tid &&
	       pending->start_ns >= span->start_ns && pending->start_ns <= span->end_ns;
}

static bool parts_on(const struct list *parts, const struct stream *stream)
{
	const struct part *part;

	list_for_each(part, parts, link)
		if (stream && part->stream == stream->row.handle)
			return true;
	return false;
}

/* Calls `found` for the kernels of a list, from its end, and returns how many. Where it is
 * `sorted`, by arrival, there is nothing behind an older one. */
static uint32_t span_search(const struct span *span, const struct list *list, bool sorted,
			    void (*found)(void *data, struct pending *pending), void *data)
{
	int steps = sorted ? LOOK_BACK : LOOK_BACK_ANSWERED;
	uint32_t count = 0;

	for (struct list *node = list->prev; node != list && steps--; node = node->prev) {
		struct pending *pending = list_item(node, struct pending, link);

		if (sorted && pending->start_ns + OUT_OF_ORDER_NS < span->start_ns)
			break;
		if (!span_has(span, pending))
			continue;
		found(data, pending);
		count++;
	}
	return count;
}

struct taking {
	struct core *core;
	const struct span *span;
	struct launched *launched;
};

static void take_kernel(void *data, struct pending *pending)
{
	struct taking *taking = data;
	struct launched *launched = taking->launched;

	if (pending->launched ||
	    (taking->span->by_stream &&
	     !parts_on(&launched->parts, stream_by_id(taking->core, pending->op.stream))))
		return;
	pending->launched = launched;
	launched->waiting++;
}

/* Whose record is to come, or has come. In the probe tier there is nothing to wait for. */
static void take_kernels(struct core *core, const struct process *process, const struct span *span,
			 struct launched *launched)
{
	struct taking taking = { core, span, launched };

	span_search(span, &process->timeline.awaited, true, take_kernel, &taking);
	span_search(span, &process->timeline.answered, false, take_kernel, &taking);
}

/* All parts of a communicator leave the list. */
static void parts_of_next(struct list *parts, struct list *ret)
{
	const uint32_t communicator = list_first(parts, struct part, link)->communicator;
	struct part *part;

	list_for_each(part, parts, link)
		if (part->communicator == communicator) {
			list_remove(&part->link);
			list_append(ret, &part->link);
		}
}

/* The calls have launched their kernels. */
static void collective_launched(struct core *core, struct process *process, struct list *parts,
				struct span span)
{
	while (!list_empty(parts)) {
		struct launched *launched = calloc(1, sizeof(*launched));

		if (!launched) {
			parts_free(core, process, parts);
			loss_count(core, process, LOSS_LIMIT);
			return;
		}
		list_init(&launched->parts);
		parts_of_next(parts, &launched->parts);
		list_append(&process->collectives.launches, &launched->link);
		launched->end_ns = span.end_ns;
		span.by_stream |= !list_empty(parts);
		take_kernels(core, process, &span, launched);
		if (launched->waiting)
			continue;
		launched_count(core, process, launched);
		launched_free(core, process, launched);
	}
}

static struct group *group_find(const struct process *process, uint32_t tid)
{
	struct group *group;

	list_for_each(group, &process->collectives.groups, link)
		if (group->tid == tid)
			return group;
	return NULL;
}

static void group_free(struct core *core, struct process *process, struct group *group)
{
	parts_free(core, process, &group->parts);
	list_remove(&group->link);
	process->collectives.group_count--;
	collective_drop(core, process);
	free(group);
}

/* At the limit the oldest, whose thread may have ended in it, makes room. */
static void group_add(struct core *core, struct process *process, uint32_t tid)
{
	struct collectives *collectives = &process->collectives;
	struct group *group = NULL;

	if (collectives->group_count == GROUPS_MAX) {
		group_free(core, process, list_first(&collectives->groups, struct group, link));
		loss_count(core, process, LOSS_LIMIT);
	}
	if (collective_hold(core, process)) {
		group = calloc(1, sizeof(*group));
		if (!group)
			collective_drop(core, process);
	}
	if (!group) {
		loss_count(core, process, LOSS_LIMIT);
		return;
	}
	group->tid = tid;
	group->depth = 1;
	list_init(&group->parts);
	list_append(&collectives->groups, &group->link);
	collectives->group_count++;
}

static void group_started(struct core *core, struct process *process, uint32_t tid)
{
	struct group *group = group_find(process, tid);

	if (!group)
		group_add(core, process, tid);
	else if (group->depth < UINT32_MAX)
		group->depth++;
}

static bool event_succeeded(const struct ts_event *event)
{
	return event->flags & TS_EVENT_RETURNED && communicator_result_ok(event->result);
}

static void group_ended(struct core *core, struct process *process, const struct ts_event *event)
{
	struct group *group = group_find(process, event->tid);

	if (!group || --group->depth)
		return;
	if (event_succeeded(event))
		collective_launched(
			core, process, &group->parts,
			(struct span){ event->tid, event->start_ns, event->end_ns, false });
	group_free(core, process, group);
}

static void see_kernel(void *data, struct pending *pending)
{
}

/* A call in a group launches nothing: if it did, the end of that group was lost. */
static struct group *group_of_call(struct core *core, struct process *process,
				   const struct span *span)
{
	struct group *group = group_find(process, span->tid);
	const struct timeline *timeline = &process->timeline;

	if (!group || (!span_search(span, &timeline->awaited, true, see_kernel, NULL) &&
		       !span_search(span, &timeline->pendings, true, see_kernel, NULL)))
		return group;
	group_free(core, process, group);
	return NULL;
}

static int collective_called(struct core *core, struct process *process,
			     const struct ts_event *event, uint8_t operation)
{
	struct part part =
		part_of(&event->api, communicator_number(core, process, event), operation);
	const struct span span = { event->tid, event->start_ns, event->end_ns, false };
	struct group *group = group_of_call(core, process, &span);
	struct list parts;

	list_init(&parts);
	if (!parts_add(core, process, group ? &group->parts : &parts, &part)) {
		loss_count(core, process, LOSS_LIMIT);
		return INGEST_LIMIT;
	}
	collective_launched(core, process, &parts, span);
	return INGEST_OK;
}

int collective_ingest(struct core *core, struct process *process, const struct ts_event *event,
		      const struct function *function)
{
	if (call_is_at_entry(event, function))
		loss_count(core, process, LOSS_NO_EFFECT);
	switch (function->effect) {
	case EFFECT_GROUP_START:
		group_started(core, process, event->tid);
		break;
	case EFFECT_GROUP_END:
		group_ended(core, process, event);
		break;
	case EFFECT_COLLECTIVE:
		if (event_succeeded(event))
			return collective_called(core, process, event, function->detail);
		break;
	case EFFECT_COMM_END: /* at its start */
		communicator_called(core, process, event, function->effect);
		break;
	default:
		if (event_succeeded(event))
			communicator_called(core, process, event, function->effect);
	}
	return INGEST_OK;
}

void collective_checkpoint(struct core *core)
{
	for (uint32_t i = 0; i < core->collectives.count; i++)
		core_tell(core, (const struct core_collective *)sums_row(&core->collectives, i));
	sums_empty(&core->collectives);
	quota_release(&core->share[CORE_SHARE_COLLECTIVE_ROWS]);
}

void collective_end_all(struct core *core, struct process *process)
{
	struct group *group;

	list_for_each(group, &process->collectives.groups, link)
		group_free(core, process, group);
}

void collective_free_all(struct core *core, struct process *process)
{
	struct launched *launched;

	collective_end_all(core, process);
	list_for_each(launched, &process->collectives.launches, link)
		launched_free(core, process, launched);
}
