/* Plan, calls: each op is a call with or without work, work without a known call, or one of several
 * that a call submitted. A row here says what a call means for others, by its effect. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/plan/build.h"

/* A call that only submits takes less; one that took longer waited. */
#define CALL_LONG_NS 10000

static void call_submit(struct plan_builder *builder, uint32_t call);
static void call_submit_wait(struct plan_builder *builder, uint32_t call);
static void call_free(struct plan_builder *builder, uint32_t call);
static void call_sync_stream(struct plan_builder *builder, uint32_t call);
static void call_sync_device(struct plan_builder *builder, uint32_t call);

static const struct call_row {
	void (*take)(struct plan_builder *builder, uint32_t call);
	bool returns; /* only if it was seen to return */
	bool even_failed;
} call_table[] = {
	[EFFECT_SUBMIT] = { .take = call_submit },
	[EFFECT_SUBMIT_WAIT] = { .take = call_submit_wait },
	[EFFECT_FREE] = { .take = call_free, .returns = true },
	[EFFECT_SYNC_STREAM] = { .take = call_sync_stream, .returns = true },
	[EFFECT_SYNC_CONTEXT] = { .take = call_sync_device, .returns = true },
	[EFFECT_SYNC_EVENT] = { .take = build_event_sync, .returns = true },
	[EFFECT_EVENT_RECORD] = { .take = build_event_record },
	[EFFECT_EVENT_DESTROY] = { .take = build_event_destroy },
	[EFFECT_STREAM_WAIT] = { .take = build_event_wait },
	[EFFECT_CAPTURE_BEGIN] = { .take = build_capture_begin },
	[EFFECT_CAPTURE_END] = { .take = build_capture_end, .even_failed = true },
};

#define CALL_EFFECTS ARRAY_SIZE(call_table)

static const struct op *call_op(const struct plan_builder *builder, uint32_t call)
{
	return &builder->plan->op[builder->plan->call[call].op];
}

uint32_t build_thread(struct plan_builder *builder, const struct op *op)
{
	struct plan *plan = builder->plan;
	struct map_key key = { op->tid, op->process };
	uint32_t thread = builder->thread_seen;

	if (thread < plan->thread_count && plan->thread[thread].tid == op->tid &&
	    plan->thread[thread].process == op->process)
		return thread;
	thread = (uint32_t)(uintptr_t)map_get(&builder->thread_by_tid, key) - 1;
	if (thread != PLAN_NONE)
		return builder->thread_seen = thread;
	thread = plan->thread_count;
	if (!build_room(builder, &plan->thread, thread, &builder->thread_room,
			sizeof(*plan->thread)) ||
	    !build_room(builder, &builder->thread, thread, &builder->build_thread_room,
			sizeof(*builder->thread)))
		return PLAN_NONE;
	if (map_put(&builder->thread_by_tid, key, (void *)(uintptr_t)(thread + 1)) < 0) {
		builder->error = -ENOMEM;
		return PLAN_NONE;
	}
	plan->thread[thread] = (struct plan_thread){
		.process = op->process,
		.tid = op->tid,
		.first = PLAN_NONE,
		.last = PLAN_NONE,
	};
	builder->thread[thread] = (struct build_thread){ .device = DEVICE_UNKNOWN };
	plan->thread_count++;
	return builder->thread_seen = thread;
}

/* A thread makes one call after another; if one seems to start inside another, the other counts as
 * over then. */
static void call_cut(struct plan *plan, struct plan_call *before, uint64_t time_ns)
{
	if (before->end_ns <= time_ns)
		return;
	before->end_ns = time_ns;
	before->flags &= (uint16_t)~PLAN_BLOCKS;
	before->edge_count = 0;
	plan->contradicted++;
}

static uint32_t call_add(struct plan_builder *builder, uint32_t number)
{
	struct plan *plan = builder->plan;
	const struct op *op = &plan->op[number];
	uint32_t call = plan->call_count, thread = build_thread(builder, op);
	struct plan_thread *row;

	if (thread == PLAN_NONE ||
	    !build_room(builder, &plan->call, call, &builder->call_room, sizeof(*plan->call)))
		return PLAN_NONE;
	row = &plan->thread[thread];
	plan->call[call] = (struct plan_call){
		.start_ns = op->start_ns,
		.end_ns = op->end_ns > op->start_ns ? op->end_ns : op->start_ns,
		.op = number,
		.thread = thread,
		.before = row->last,
		.work = PLAN_NONE,
		.edge = plan->edge_count,
	};
	if (row->last == PLAN_NONE)
		row->first = call;
	else
		call_cut(plan, &plan->call[row->last], op->start_ns);
	row->last = call;
	plan->call_count++;
	return call;
}

static bool call_returned(const struct plan_builder *builder, uint32_t call)
{
	return call_op(builder, call)->end_ns != 0;
}

/* The call did not return before its own work had ended. */
static void call_wait_own(struct plan_builder *builder, uint32_t call)
{
	struct plan_call *row = &builder->plan->call[call];
	const struct plan_work *work = &builder->plan->work[row->work];

	if (call_returned(builder, call) &&
	    (!(work->flags & BUILD_TIMED) || work->end_ns <= row->end_ns))
		build_call_edge(builder, call, row->work, PLAN_EDGE_HOST);
}

static uint32_t call_submit_work(struct plan_builder *builder, uint32_t call)
{
	const struct op *op = call_op(builder, call);
	uint32_t work;

	if (op->flags & OP_CAPTURED) {
		build_captured(builder, op, true);
		return PLAN_NONE;
	}
	build_captured(builder, op, false);
	work = build_work(builder, builder->plan->call[call].op, call, op->graph ? PLAN_GRAPH : 0);
	if (work == PLAN_NONE)
		return work;
	build_default_edges(builder, work);
	build_chain(builder, work);
	return work;
}

/* Copies between the device and memory that is not page-locked wait, even the asynchronous ones. */
static void call_submit(struct plan_builder *builder, uint32_t call)
{
	const struct op *op = call_op(builder, call);
	uint32_t work = call_submit_work(builder, call);

	if (work == PLAN_NONE || op->kind != OP_COPY || !(op->flags & OP_EXACT) ||
	    op->end_ns < op->start_ns + CALL_LONG_NS)
		return;
	call_wait_own(builder, call);
}

static void call_submit_wait(struct plan_builder *builder, uint32_t call)
{
	if (call_submit_work(builder, call) != PLAN_NONE)
		call_wait_own(builder, call);
}

static void call_free(struct plan_builder *builder, uint32_t call)
{
	build_wait_free(builder, call, call_op(builder, call)->device);
}

static void call_sync_stream(struct plan_builder *builder, uint32_t call)
{
	uint32_t stream = build_stream(builder, call_op(builder, call));

	if (stream != PLAN_NONE)
		build_wait_stream(builder, call, stream);
}

static void call_sync_device(struct plan_builder *builder, uint32_t call)
{
	build_wait_device(builder, call, call_op(builder, call)->device);
}

static void call_take(struct plan_builder *builder, uint32_t call)
{
	const struct op *op = call_op(builder, call);
	uint8_t effect = op->fn < builder->effect_count ? builder->effect[op->fn] : EFFECT_NONE;
	const struct call_row *row = effect < CALL_EFFECTS ? &call_table[effect] : call_table;

	if (!row->take || (op->result && !row->even_failed) ||
	    (row->returns && !call_returned(builder, call)))
		return;
	row->take(builder, call);
}

/* Work whose call is not among the ops. */
static void build_stray(struct plan_builder *builder, uint32_t op)
{
	uint32_t work = build_work(builder, op, PLAN_NONE, PLAN_NO_CALL);

	if (work != PLAN_NONE)
		build_chain(builder, work);
}

static bool op_is_node_of(const struct op *op, const struct op *call)
{
	return (op->flags & (OP_NODE | OP_NO_CALL)) == OP_NODE && op->start_ns == call->start_ns &&
	       op->process == call->process && op->tid == call->tid;
}

int build_calls(struct plan_builder *builder)
{
	struct plan *plan = builder->plan;
	uint32_t count = (uint32_t)plan->op_count;

	for (uint32_t i = 0, end; i < count && !builder->error; i = end) {
		uint32_t call;

		end = i + 1;
		if (plan->op[i].flags & (OP_NODE | OP_NO_CALL)) {
			build_stray(builder, i);
			continue;
		}
		while (end < count && op_is_node_of(&plan->op[end], &plan->op[i]))
			end++;
		call = call_add(builder, i);
		if (call == PLAN_NONE)
			break;
		if (end > i + 1)
			build_graph(builder, call, i + 1, end);
		else
			call_take(builder, call);
	}
	if (plan->call_count && plan->call[0].start_ns < plan->start_ns)
		plan->start_ns = plan->call[0].start_ns;
	if (plan->start_ns == UINT64_MAX)
		plan->start_ns = 0;
	return builder->error;
}
