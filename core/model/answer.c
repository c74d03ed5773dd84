/* Answer: a record of the device fills the op of the call that submitted it, or becomes an op of
 * its own: one part of several (OP_NODE), or without a known call (OP_NO_CALL). Each record is in
 * exactly one op. */
#include "core/model/answer.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/bytes.h"
#include "core/model/correlate.h"
#include "core/model/model.h"
#include "core/model/name.h"
#include "core/model/track.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

/* How many recent records are kept to detect duplicates. */
#define ANSWER_FINGERPRINTS 32768

static bool answer_is_timed(const struct ts_event *event)
{
	return event->start_ns && event->end_ns >= event->start_ns;
}

/* Equal in all that it says: parts of a batch of copies share their call, stream and often the
 * start. */
bool answer_is_duplicate(struct exact *exact, const struct ts_event *event)
{
	struct {
		uint64_t kind, start_ns, end_ns;
		struct ts_work work;
	} said = { event->kind, event->start_ns, event->end_ns, event->work };
	uint64_t hash = XXH3_64bits(&said, sizeof(said)), *slot;

	if (!exact->fingerprint)
		exact->fingerprint = calloc(ANSWER_FINGERPRINTS, sizeof(*exact->fingerprint));
	if (!exact->fingerprint || !answer_is_timed(event))
		return false;
	slot = &exact->fingerprint[hash % ANSWER_FINGERPRINTS];
	if (*slot == hash)
		return true;
	*slot = hash;
	return false;
}

/* CUPTI's numbers of copy directions; arrays are device memory. */
static uint8_t answer_copy_kind(uint32_t number)
{
	static const uint8_t kind[] = {
		[0] = COPY_UNKNOWN, [1] = COPY_HTOD, [2] = COPY_DTOH,  [3] = COPY_HTOD,
		[4] = COPY_DTOH,    [5] = COPY_DTOD, [6] = COPY_DTOD,  [7] = COPY_DTOD,
		[8] = COPY_DTOD,    [9] = COPY_HTOH, [10] = COPY_PTOP,
	};

	return number < sizeof(kind) ? kind[number] : COPY_UNKNOWN;
}

/* What all records of a kind say, whatever op they are in. */
static void answer_describe(const struct exact *exact, struct op *op, const struct ts_event *event)
{
	const struct ts_work *work = &event->work;
	int16_t device = context_device(work->device);

	if (device != DEVICE_UNKNOWN)
		op->device = device;
	op->node = work->node;
	op->graph = work->graph;
	op->correlation = work->correlation;
	if (answer_is_timed(event)) {
		op->flags |= OP_EXACT;
		op->gpu_start_ns = event->start_ns;
		op->gpu_end_ns = event->end_ns;
	} else {
		op->flags |= OP_UNTIMED;
	}
	if (event->kind == TS_EVENT_KERNEL) {
		op->name = name_find(exact, work->name);
		memcpy(op->grid, work->grid, sizeof(op->grid));
		memcpy(op->block, work->block, sizeof(op->block));
		op->shared_bytes = work->dynamic_bytes;
		op->static_bytes = work->static_bytes;
		op->local_bytes = work->local_bytes;
		op->registers = work->registers;
	} else if (event->kind == TS_EVENT_COPY) {
		op->detail = answer_copy_kind(work->copy_kind);
		op->bytes = bytes_bounded(work->bytes);
		if (work->from == TS_MEMORY_PAGEABLE || work->to == TS_MEMORY_PAGEABLE)
			op->flags |= OP_PAGEABLE;
	} else if (event->kind == TS_EVENT_SET) {
		op->bytes = bytes_bounded(work->bytes);
		op->source = work->value;
	}
}

static uint8_t answer_op_kind(uint16_t kind)
{
	return kind == TS_EVENT_KERNEL ? OP_KERNEL
	       : kind == TS_EVENT_COPY ? OP_COPY
	       : kind == TS_EVENT_SET  ? OP_SET
				       : OP_GRAPH;
}

/* Whether it is the only record of what the call submitted. */
static bool answer_fills(const struct core *core, const struct pending *pending,
			 const struct ts_event *event)
{
	bool graph;

	if (!pending || pending->op.flags & (OP_EXACT | OP_UNTIMED))
		return false;
	graph = core->config.functions.row[pending->op.fn].graph;
	if (event->kind == TS_EVENT_GRAPH)
		return graph;
	if (event->kind == TS_EVENT_KERNEL)
		return pending->op.kind == OP_LAUNCH && !graph && !event->work.graph;
	return pending->op.kind == answer_op_kind(event->kind) && !event->work.graph;
}

/* A whole graph runs kernels, as far as we know. */
static enum sweep_work answer_work(const struct ts_event *event)
{
	return event->kind == TS_EVENT_COPY || event->kind == TS_EVENT_SET ? SWEEP_COPY
									   : SWEEP_KERNEL;
}

static void answer_count(struct core *core, struct exact *exact, const struct op *op)
{
	if (op->flags & OP_EXACT)
		rollup_add_work(core, op);
	else
		loss_count(core, exact->process, LOSS_UNTIMED);
}

static void answer_fill(struct core *core, struct exact *exact, struct pending *pending,
			const struct ts_event *event, bool swept)
{
	struct op *op = &pending->op;
	struct lane *lane;

	answer_describe(exact, op, event);
	track_learn(core, exact, &event->work, op->stream);
	lane = track_lane(core, exact, &event->work);
	answer_count(core, exact, op);
	pending->await &= AWAIT_CALL;
	if (op->flags & OP_EXACT) {
		if (swept)
			sweep_joined(core, exact, lane, op, pending->seq);
		else
			sweep_ran(core, exact, lane, answer_work(event), op, pending->seq,
				  pending->seq);
		timeline_began(core, pending, op->gpu_start_ns);
	}
	timeline_answered(core, pending);
}

/* An op without a call, or one of several of a call. */
static void answer_emit(struct core *core, struct exact *exact, struct op *op,
			const struct ts_event *event, uint64_t began, bool swept)
{
	struct lane *lane = track_lane(core, exact, &event->work);

	answer_count(core, exact, op);
	if ((op->flags & OP_EXACT) && !swept)
		sweep_ran(core, exact, lane, answer_work(event), op, began, 0);
	core_emit(core, op);
}

/* A launch lasts from the start of its first part to the end of its last. */
static void answer_span(const struct core *core, struct ticket *ticket, const struct op *op)
{
	if (!ticket->first_ns || op->gpu_start_ns < ticket->first_ns)
		ticket->first_ns = op->gpu_start_ns;
	if (op->gpu_end_ns > ticket->last_ns)
		ticket->last_ns = op->gpu_end_ns;
	if (ticket->pending && !(ticket->pending->op.flags & OP_EXACT)) {
		ticket->pending->op.gpu_start_ns = ticket->first_ns;
		ticket->pending->op.gpu_end_ns = ticket->last_ns;
		ticket->pending->part_ns = core->now_ns;
	}
	if (op->kind != OP_GRAPH && op->graph)
		ticket->graph = op->graph;
	ticket->device = op->device;
}

/* What a graph runs in sequence is on the stream it was launched on. So the first part gives the
 * number of a stream that is otherwise unknown; further numbers are of parallel branches. */
static void answer_learn(struct core *core, struct exact *exact, const struct ticket *ticket,
			 const struct ts_event *event)
{
	const struct stream *stream = stream_by_id(core, ticket->call.stream);

	if (stream && !stream->row.number && !track_is_known(exact, &event->work))
		track_learn(core, exact, &event->work, stream->row.id);
}

static void answer_node(struct core *core, struct exact *exact, struct ticket *ticket,
			const struct ts_event *event, bool swept)
{
	const struct ticket_call *call = &ticket->call;
	struct pending *pending = ticket->pending;
	uint64_t seen_ns = pending ? pending->covered_ns : call->seen_ns;
	struct op op = {
		.start_ns = call->start_ns,
		.end_ns = call->end_ns,
		.process = exact->process->row.id,
		.stream = track_stream(core, exact, &event->work),
		.tid = call->tid,
		.fn = call->fn,
		.flags = call->flags | OP_NODE,
		.kind = answer_op_kind(event->kind),
		.device = DEVICE_UNKNOWN,
		.result = call->result,
		.stack_id = call->stack_id,
	};

	answer_describe(exact, &op, event);
	if (!(op.flags & OP_EXACT)) {
		op.flags |= OP_BOUNDS;
		op.gpu_start_ns = op.start_ns;
		op.gpu_end_ns = seen_ns;
	} else {
		op.seen_ns = seen_ns >= op.gpu_end_ns ? seen_ns : 0;
		answer_span(core, ticket, &op);
		if (pending)
			timeline_began(core, pending, op.gpu_start_ns);
	}
	answer_emit(core, exact, &op, event, op.stream == call->stream ? call->seq : 0, swept);
}

void answer_ticket(struct core *core, struct exact *exact, struct ticket *ticket,
		   const struct ts_event *event, bool swept)
{
	if (answer_fills(core, ticket->pending, event)) {
		answer_fill(core, exact, ticket->pending, event, swept);
		return;
	}
	answer_learn(core, exact, ticket, event);
	answer_node(core, exact, ticket, event, swept);
}

/* Calls made before recording started have no record; correlation ids count up. */
static bool answer_is_before(const struct exact *exact, const struct ts_event *event)
{
	uint32_t first = exact->first_correlation;

	if (answer_is_timed(event) && event->start_ns < exact->on_ns)
		return true;
	return first && (int32_t)(event->work.correlation - first) < 0;
}

void answer_stray(struct core *core, struct exact *exact, const struct ts_event *event, bool swept)
{
	bool before = answer_is_before(exact, event);
	struct op op = {
		.start_ns = answer_is_timed(event) ? event->start_ns : core->now_ns,
		.process = exact->process->row.id,
		.stream = track_stream(core, exact, &event->work),
		.flags = OP_NO_CALL,
		.kind = answer_op_kind(event->kind),
		.device = DEVICE_UNKNOWN,
	};

	answer_describe(exact, &op, event);
	loss_count(core, exact->process, before ? LOSS_BEFORE : LOSS_NO_CALL);
	answer_emit(core, exact, &op, event, 0, swept);
}

bool answer_sweep_early(struct core *core, struct exact *exact, const struct ts_event *event)
{
	struct op op = { .device = context_device(event->work.device) };

	if (!answer_is_timed(event) || !track_is_known(exact, &event->work))
		return false;
	op.gpu_start_ns = event->start_ns;
	op.gpu_end_ns = event->end_ns;
	sweep_ran(core, exact, track_lane(core, exact, &event->work), answer_work(event), &op, 0,
		  0);
	return true;
}
