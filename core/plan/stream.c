/* Plan, streams: works in submission order, the order between the default stream and others, and
 * what a waiting call waits for. */
#include <errno.h>
#include <stdlib.h>

#include "core/plan/build.h"

/* As the driver numbers them; and, like core/model/stream.c, streams that only CUPTI knows. */
#define HANDLE_LEGACY	1
#define HANDLE_NUMBERED 3
/* How far back to look for a timed work. */
#define MARKS_MAX 16
/* A free that waits for nothing takes less. */
#define FREE_LONG_NS 5000

/* The index of the key in a table, or a new one: `count`. PLAN_NONE: no memory. */
static uint32_t find_index(struct plan_builder *builder, struct map *map, struct map_key key,
			   uint32_t count)
{
	uint32_t index = (uint32_t)(uintptr_t)map_get(map, key) - 1;

	if (index != PLAN_NONE)
		return index;
	if (map_put(map, key, (void *)((uintptr_t)count + 1)) == 0)
		return count;
	builder->error = -ENOMEM;
	return PLAN_NONE;
}

uint32_t build_device(struct plan_builder *builder, uint32_t process, int16_t ordinal)
{
	struct plan *plan = builder->plan;
	struct map_key key = { (uint16_t)ordinal, process };
	uint32_t device;

	if (!build_room(builder, &plan->device, plan->device_count, &builder->device_room,
			sizeof(*plan->device)))
		return PLAN_NONE;
	device = find_index(builder, &builder->device_by_ordinal, key, plan->device_count);
	if (device == plan->device_count)
		plan->device[plan->device_count++] =
			(struct plan_device){ .process = process, .ordinal = ordinal };
	return device;
}

static uint32_t build_process(struct plan_builder *builder, uint32_t id)
{
	uint32_t process;

	if (!build_room(builder, &builder->process, builder->process_count, &builder->process_room,
			sizeof(*builder->process)))
		return PLAN_NONE;
	process = find_index(builder, &builder->process_by_id, (struct map_key){ id, 0 },
			     builder->process_count);
	if (process == builder->process_count)
		builder->process[builder->process_count++] =
			(struct build_process){ .newest = PLAN_NONE };
	return process;
}

static uint32_t build_context(struct plan_builder *builder, const struct plan_stream_row *row)
{
	struct map_key key = { row->context, row->process };
	uint32_t context;

	if (!build_room(builder, &builder->context, builder->context_count, &builder->context_room,
			sizeof(*builder->context)))
		return PLAN_NONE;
	context = find_index(builder, &builder->context_by_handle, key, builder->context_count);
	if (context == builder->context_count)
		builder->context[builder->context_count++] =
			(struct build_context){ .last = PLAN_NONE, .unseen = PLAN_NONE };
	return context;
}

static bool stream_add(struct plan_builder *builder, uint32_t stream, const struct op *op)
{
	struct plan *plan = builder->plan;
	struct map_key key = { op->stream, op->process };
	uint32_t number = (uint32_t)(uintptr_t)map_get(&builder->row_by_stream, key) - 1;
	const struct plan_stream_row *row = number == PLAN_NONE ? NULL : &builder->row[number];
	uint32_t device = build_device(builder, op->process, op->device),
		 process = build_process(builder, op->process), context = PLAN_NONE;

	if (row && !row->non_blocking && row->handle != HANDLE_NUMBERED)
		context = build_context(builder, row);
	if (builder->error)
		return false;
	plan->stream[stream] = (struct plan_stream){
		.process = op->process,
		.stream = op->stream,
		.first = PLAN_NONE,
		.last = PLAN_NONE,
		.device = device,
	};
	builder->stream[stream] = (struct build_stream){
		.tail = PLAN_NONE,
		.last = PLAN_NONE,
		.process = process,
		.newer = PLAN_NONE,
		.older = PLAN_NONE,
		.context = context,
		.default_seen = PLAN_NONE,
		.next_unseen = PLAN_NONE,
		.legacy = context != PLAN_NONE && row->handle <= HANDLE_LEGACY,
	};
	return true;
}

/* A stream's device may become known with a later op. */
static void stream_learn_device(struct plan_builder *builder, uint32_t stream, const struct op *op)
{
	struct plan *plan = builder->plan;
	uint32_t device;

	if (op->device == DEVICE_UNKNOWN ||
	    plan->device[plan->stream[stream].device].ordinal == op->device)
		return;
	device = build_device(builder, op->process, op->device);
	if (device != PLAN_NONE)
		plan->stream[stream].device = device;
}

uint32_t build_stream(struct plan_builder *builder, const struct op *op)
{
	struct plan *plan = builder->plan;
	uint32_t stream = builder->stream_seen;

	if (stream >= plan->stream_count || plan->stream[stream].stream != op->stream ||
	    plan->stream[stream].process != op->process) {
		stream = plan->stream_count;
		if (!build_room(builder, &plan->stream, stream, &builder->stream_room,
				sizeof(*plan->stream)) ||
		    !build_room(builder, &builder->stream, stream, &builder->build_stream_room,
				sizeof(*builder->stream)))
			return PLAN_NONE;
		stream = find_index(builder, &builder->stream_by_id,
				    (struct map_key){ op->stream, op->process }, stream);
		if (stream == PLAN_NONE)
			return stream;
		if (stream == plan->stream_count && !stream_add(builder, stream, op))
			return PLAN_NONE;
		plan->stream_count += stream == plan->stream_count;
		builder->stream_seen = stream;
	}
	stream_learn_device(builder, stream, op);
	return stream;
}

static uint8_t work_engine(const struct op *op)
{
	if (op->kind == OP_COPY && op->detail == COPY_HTOD)
		return PLAN_ENGINE_HTOD;
	if (op->kind == OP_COPY && op->detail == COPY_DTOH)
		return PLAN_ENGINE_DTOH;
	return op->kind == OP_COPY || op->kind == OP_SET ? PLAN_ENGINE_DTOD : PLAN_ENGINE_COMPUTE;
}

static void call_submits(struct plan_builder *builder, uint32_t call, uint32_t work)
{
	struct plan *plan = builder->plan;

	if (plan->call[call].work == PLAN_NONE)
		plan->call[call].work = work;
	else
		plan->work[builder->call_work].next = work;
	builder->call_work = work;
}

/* An empty copy or set has no record. If the call does not give its size, as in a batch, no address
 * is known either. */
static bool is_of_nothing(const struct op *op)
{
	return (op->kind == OP_COPY || op->kind == OP_SET) && op->bytes == 0 && op->address != 0;
}

uint32_t build_work(struct plan_builder *builder, uint32_t number, uint32_t call, uint32_t flags)
{
	struct plan *plan = builder->plan;
	const struct op *op = &plan->op[number];
	uint32_t work = plan->work_count, stream = build_stream(builder, op);
	bool timed = (op->flags & OP_EXACT) && !(flags & PLAN_MARK);

	if (stream == PLAN_NONE ||
	    !build_room(builder, &plan->work, work, &builder->work_room, sizeof(*plan->work)))
		return PLAN_NONE;
	plan->work[work] = (struct plan_work){
		.start_ns = timed ? op->gpu_start_ns : 0,
		.end_ns = timed ? op->gpu_end_ns : 0,
		.duration_ns = UINT64_MAX, /* no limit: see time.c */
		.behind = PLAN_NONE,
		.op = number,
		.call = call,
		.next = PLAN_NONE,
		.stream = stream,
		.before = PLAN_NONE,
		.edge = plan->edge_count,
		.engine = timed ? work_engine(op) : PLAN_ENGINE_NONE,
		.flags = (uint16_t)(flags | (timed ? BUILD_TIMED : 0)),
	};
	if (!timed && !(flags & PLAN_MARK)) {
		plan->work[work].flags |= PLAN_UNTIMED;
		plan->untimed += !is_of_nothing(op);
	}
	builder->timeless += !timed;
	if ((timed ? op->gpu_start_ns : op->start_ns) < plan->start_ns)
		plan->start_ns = timed ? op->gpu_start_ns : op->start_ns;
	plan->no_call += call == PLAN_NONE;
	plan->work_count++;
	if (call != PLAN_NONE)
		call_submits(builder, call, work);
	return work;
}

static bool edge_add(struct plan_builder *builder, uint32_t to, uint32_t kind)
{
	struct plan *plan = builder->plan;

	if (!build_room(builder, &plan->edge, plan->edge_count, &builder->edge_room,
			sizeof(*plan->edge)))
		return false;
	plan->edge[plan->edge_count++] = (struct plan_edge){ to, kind };
	return true;
}

void build_work_edge(struct plan_builder *builder, uint32_t work, uint32_t to, uint32_t kind)
{
	if (to != PLAN_NONE && edge_add(builder, to, kind))
		builder->plan->work[work].edge_count++;
}

void build_call_edge(struct plan_builder *builder, uint32_t call, uint32_t to, uint32_t kind)
{
	struct plan_call *row = &builder->plan->call[call];

	if (to == PLAN_NONE)
		return;
	if (!row->edge_count)
		row->edge = builder->plan->edge_count;
	if (!edge_add(builder, to, kind))
		return;
	row->edge_count++;
	row->flags |= PLAN_BLOCKS;
}

void build_default_edges(struct plan_builder *builder, uint32_t work)
{
	struct build_stream *stream = &builder->stream[builder->plan->work[work].stream];
	struct build_context *context;
	uint32_t other;

	if (stream->context == PLAN_NONE)
		return;
	context = &builder->context[stream->context];
	if (!stream->legacy) {
		if (context->last != stream->default_seen)
			build_work_edge(builder, work, context->last, PLAN_EDGE_DEFAULT);
		stream->default_seen = context->last;
		return;
	}
	while ((other = context->unseen) != PLAN_NONE) {
		build_work_edge(builder, work, builder->stream[other].last, PLAN_EDGE_DEFAULT);
		builder->stream[other].unseen = false;
		context->unseen = builder->stream[other].next_unseen;
	}
}

static void stream_unlink(struct plan_builder *builder, uint32_t index)
{
	struct build_stream *stream = &builder->stream[index];
	struct build_process *process = &builder->process[stream->process];

	if (stream->newer != PLAN_NONE)
		builder->stream[stream->newer].older = stream->older;
	if (stream->older != PLAN_NONE)
		builder->stream[stream->older].newer = stream->newer;
	if (process->newest == index)
		process->newest = stream->older;
}

/* The streams of a process are in order of their last submission. */
static void stream_touch(struct plan_builder *builder, uint32_t index)
{
	struct build_stream *stream = &builder->stream[index];
	struct build_process *process = &builder->process[stream->process];

	stream->touched = builder->plan->work_count;
	if (process->newest == index)
		return;
	stream_unlink(builder, index);
	stream->newer = PLAN_NONE;
	stream->older = process->newest;
	if (process->newest != PLAN_NONE)
		builder->stream[process->newest].newer = index;
	process->newest = index;
}

static void context_note(struct plan_builder *builder, uint32_t index)
{
	struct build_stream *stream = &builder->stream[index];
	struct build_context *context;

	if (stream->context == PLAN_NONE)
		return;
	context = &builder->context[stream->context];
	if (stream->legacy) {
		context->last = stream->last;
	} else if (!stream->unseen) {
		stream->unseen = true;
		stream->next_unseen = context->unseen;
		context->unseen = index;
	}
}

/* Work without a stream has no order. */
void build_chain(struct plan_builder *builder, uint32_t index)
{
	struct plan *plan = builder->plan;
	struct plan_work *work = &plan->work[index];
	struct plan_stream *row = &plan->stream[work->stream];
	struct build_stream *stream = &builder->stream[work->stream];

	if (!row->stream)
		return;
	work->before = stream->tail;
	stream->tail = row->last = index;
	if (row->first == PLAN_NONE)
		row->first = index;
	if (!(work->flags & BUILD_TIMED)) {
		stream->last = index;
	} else if (work->start_ns < stream->start_ns) {
		stream->disorder = true;
	} else {
		stream->start_ns = work->start_ns;
		stream->last = index;
	}
	if (stream->last == PLAN_NONE)
		stream->last = index;
	stream_touch(builder, work->stream);
	context_note(builder, work->stream);
}

void build_wait_stream(struct plan_builder *builder, uint32_t call, uint32_t index)
{
	const struct build_stream *stream = &builder->stream[index];
	uint32_t other;

	build_call_edge(builder, call, stream->last, PLAN_EDGE_HOST);
	if (!stream->legacy)
		return;
	for (other = builder->context[stream->context].unseen; other != PLAN_NONE;
	     other = builder->stream[other].next_unseen)
		build_call_edge(builder, call, builder->stream[other].last, PLAN_EDGE_HOST);
}

static bool stream_is_on(const struct plan *plan, uint32_t stream, int16_t device)
{
	int16_t ordinal = plan->device[plan->stream[stream].device].ordinal;

	return device == DEVICE_UNKNOWN || ordinal == DEVICE_UNKNOWN || ordinal == device;
}

/* The streams that got work since the thread last waited for the device, latest first. */
struct walk {
	uint32_t next, since;
	int16_t device;
};

static struct walk walk_begin(struct plan_builder *builder, uint32_t call, int16_t device)
{
	const struct plan_call *row = &builder->plan->call[call];
	const struct build_thread *thread = &builder->thread[row->thread];
	uint32_t process = build_process(builder, builder->plan->op[row->op].process);
	struct walk walk = { .next = PLAN_NONE, .device = device };

	if (process != PLAN_NONE)
		walk.next = builder->process[process].newest;
	if (thread->device == device)
		walk.since = thread->synced;
	return walk;
}

static uint32_t walk_next(const struct plan_builder *builder, struct walk *walk)
{
	uint32_t stream;

	do {
		stream = walk->next;
		if (stream == PLAN_NONE || builder->stream[stream].touched <= walk->since)
			return PLAN_NONE;
		walk->next = builder->stream[stream].older;
	} while (!stream_is_on(builder->plan, stream, walk->device));
	return stream;
}

void build_wait_device(struct plan_builder *builder, uint32_t call, int16_t device)
{
	struct build_thread *thread = &builder->thread[builder->plan->call[call].thread];
	struct walk walk = walk_begin(builder, call, device);
	uint32_t stream;

	while ((stream = walk_next(builder, &walk)) != PLAN_NONE)
		build_call_edge(builder, call, builder->stream[stream].last, PLAN_EDGE_HOST);
	thread->synced = builder->plan->work_count;
	thread->device = device;
}

/* When everything on the stream has ended, 0: unknown. */
static uint64_t stream_end_ns(const struct plan *plan, const struct build_stream *stream)
{
	uint32_t work = stream->last;

	for (int i = 0; i < MARKS_MAX && work != PLAN_NONE; i++) {
		if (plan->work[work].flags & BUILD_TIMED)
			return plan->work[work].end_ns;
		work = plan->work[work].before;
	}
	return 0;
}

/* Whether something of the device ended during the call, and nothing submitted before ended
 * later. */
void build_wait_free(struct plan_builder *builder, uint32_t call, int16_t device)
{
	const struct plan_call *row = &builder->plan->call[call];
	struct walk walk = walk_begin(builder, call, device);
	bool waited = false;
	uint32_t stream;

	if (row->end_ns < row->start_ns + FREE_LONG_NS)
		return;
	while ((stream = walk_next(builder, &walk)) != PLAN_NONE) {
		uint64_t end_ns = stream_end_ns(builder->plan, &builder->stream[stream]);

		if (end_ns > row->end_ns)
			return;
		waited |= end_ns > row->start_ns;
	}
	if (waited)
		build_wait_device(builder, call, device);
}
