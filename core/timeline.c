/* Timeline: work is pending from its submission until a synchronization that covers it returns;
 * between the two the device ran it. Whatever gets no such bound in time leaves without one and is
 * counted. Pending work is in the list of all, by arrival, and in the one of its stream, by start.
 *
 * A mark in a stream says that what follows waits for another stream, up to a point: to cover the
 * mark is to cover that. Marks exist only while there is something to wait for.
 */
#include "core/timeline.h"

#include "core/call.h"

/* Threads that share a stream are seen a little out of order, never by more than this. */
#define TIMELINE_SORT_STEPS 64

/* Streams that a synchronization reaches, those that it reaches through others included. */
struct cover {
	struct list work;  /* struct stream */
	uint64_t bound_ns; /* when all is finished, 0: what leaves has no bound */
	uint64_t time_ns;  /* when the streams change their state */
};

static void cover_init(struct cover *cover, uint64_t bound_ns, uint64_t time_ns)
{
	*cover = (struct cover){ .bound_ns = bound_ns, .time_ns = time_ns };
	list_init(&cover->work);
}

static void cover_want(struct cover *cover, struct stream *stream, uint64_t upto_ns)
{
	if (!list_linked(&stream->work)) {
		list_append(&cover->work, &stream->work);
		stream->cover_ns = upto_ns;
	} else if (upto_ns > stream->cover_ns) {
		stream->cover_ns = upto_ns;
	}
}

static struct pending *pending_first(const struct stream *stream)
{
	return list_first(&stream->pending, struct pending, in_stream);
}

static void pending_remove(struct core *core, struct pending *pending)
{
	list_remove(&pending->link);
	list_remove(&pending->in_stream);
	list_remove(&pending->waiter);
	pool_put(&core->pending_pool, pending);
}

/* The op leaves the model; the memory is the caller's to give back. */
static void pending_finish(struct core *core, struct pending *pending, uint64_t bound_ns)
{
	struct op *op = &pending->op;

	if (pending->source)
		return;
	op->flags |= OP_BOUNDS;
	op->gpu_start_ns = op->start_ns;
	op->gpu_end_ns = bound_ns;
	if (!bound_ns)
		loss_count(core, pending->stream->process, LOSS_UNBOUND);
	core_emit(core, op);
}

/* Legacy work waits for all earlier work of the context's blocking streams. */
static void cover_blocking(struct cover *cover, const struct stream *legacy)
{
	struct stream *stream;

	list_for_each(stream, &legacy->context->active, active)
		if (!stream->legacy && !stream->row.non_blocking)
			cover_want(cover, stream, legacy->cover_ns);
}

static void cover_work(struct core *core, struct cover *cover, struct stream *stream)
{
	struct pending *pending;

	while ((pending = pending_first(stream)) && pending->start_ns <= stream->cover_ns) {
		if (pending->source && cover->bound_ns)
			cover_want(cover, pending->source, pending->upto_ns);
		pending_finish(core, pending, cover->bound_ns);
		pending_remove(core, pending);
	}
}

/* Marks that wait for what is finished now are of no more use. */
static void cover_waiters(struct core *core, struct cover *cover, struct stream *stream)
{
	const struct pending *first = pending_first(stream);
	struct pending *mark;

	while ((mark = list_first(&stream->waiters, struct pending, waiter))) {
		if (first && first->start_ns <= mark->upto_ns)
			break;
		cover_want(cover, mark->stream, 0);
		pending_remove(core, mark);
	}
}

/* The work list instead of recursion: streams can wait for each other in long chains. */
static void cover_run(struct core *core, struct cover *cover)
{
	struct stream *stream;

	while ((stream = list_first(&cover->work, struct stream, work))) {
		list_remove(&stream->work);
		if (stream->legacy && stream->cover_ns && cover->bound_ns)
			cover_blocking(cover, stream);
		cover_work(core, cover, stream);
		cover_waiters(core, cover, stream);
		stream_settle(core, stream, cover->time_ns);
	}
}

/* The oldest of all gives up its place. */
static void timeline_expire_first(struct core *core, uint64_t time_ns)
{
	struct pending *pending = list_first(&core->pendings, struct pending, link);
	struct stream *stream = pending->stream;
	struct cover cover;

	pending_finish(core, pending, 0);
	pending_remove(core, pending);
	cover_init(&cover, 0, time_ns);
	cover_want(&cover, stream, 0);
	cover_run(core, &cover);
}

/* This can free destroyed streams, so it goes before any look at other streams. */
static void timeline_make_room(struct call *call)
{
	if (call->core->pending_pool.used >= call->core->config.max_pending)
		timeline_expire_first(call->core, call->op->start_ns);
}

static void pending_sort_in(struct stream *stream, struct pending *pending)
{
	struct list *position = stream->pending.prev;

	for (int steps = 0; steps < TIMELINE_SORT_STEPS && position != &stream->pending; steps++) {
		if (list_item(position, struct pending, in_stream)->start_ns <= pending->start_ns)
			break;
		position = position->prev;
	}
	list_insert_after(position, &pending->in_stream);
}

static struct pending *pending_add(struct call *call)
{
	struct core *core = call->core;
	struct pending *pending = pool_get(&core->pending_pool);

	if (!pending) {
		loss_count(core, call->process, LOSS_LIMIT);
		return NULL;
	}
	pending->stream = call->stream;
	pending->source = NULL;
	pending->start_ns = call->op->start_ns;
	list_append(&core->pendings, &pending->link);
	list_init(&pending->waiter);
	pending_sort_in(call->stream, pending);
	return pending;
}

void timeline_submit(struct call *call)
{
	struct pending *pending;

	if (!call->stream)
		return;
	if (call->stream->capture) {
		call->op->flags |= OP_CAPTURED;
		return;
	}
	timeline_make_room(call);
	pending = pending_add(call);
	if (!pending)
		return;
	pending->op = *call->op;
	call->held = true;
	stream_settle(call->core, call->stream, call->op->start_ns);
}

static void timeline_cover_stream(struct call *call, struct stream *stream, uint64_t upto_ns)
{
	struct cover cover;

	if (!call->op->end_ns || !stream)
		return;
	cover_init(&cover, call->op->end_ns, call->op->end_ns);
	cover_want(&cover, stream, upto_ns);
	cover_run(call->core, &cover);
}

/* As work that the call itself waits for. */
void timeline_submit_wait(struct call *call)
{
	timeline_submit(call);
	if (call->held)
		timeline_cover_stream(call, call->stream, call->op->start_ns);
}

void timeline_sync_stream(struct call *call)
{
	timeline_cover_stream(call, call->stream, call->op->start_ns);
}

void timeline_sync_event(struct call *call)
{
	const struct gpu_event *gpu_event = gpu_event_find(call);

	if (gpu_event && !gpu_event->capture)
		timeline_cover_stream(call, stream_by_id(call->core, gpu_event->stream),
				      gpu_event->record_ns);
}

static void cover_want_context(struct cover *cover, const struct context *context, uint64_t upto_ns)
{
	struct stream *stream;

	list_for_each(stream, &context->active, active)
		cover_want(cover, stream, upto_ns);
}

void timeline_cover_context(struct core *core, struct context *context, uint64_t upto_ns,
			    uint64_t bound_ns)
{
	struct cover cover;

	if (!bound_ns)
		return;
	cover_init(&cover, bound_ns, bound_ns);
	cover_want_context(&cover, context, upto_ns);
	cover_run(core, &cover);
}

/* A stream whose context is not known is taken to be meant, and so is every stream where the
 * context of the call is not known. */
void timeline_sync_context(struct call *call)
{
	struct context *context;
	struct cover cover;

	if (!call->op->end_ns)
		return;
	cover_init(&cover, call->op->end_ns, call->op->end_ns);
	list_for_each(context, &call->process->contexts, link)
		if (!call->context->handle || !context->handle || context == call->context)
			cover_want_context(&cover, context, call->op->start_ns);
	cover_run(call->core, &cover);
}

void timeline_stream_wait(struct call *call)
{
	const struct gpu_event *gpu_event = gpu_event_find(call);
	const struct pending *first;
	struct stream *source;
	struct pending *mark;

	timeline_make_room(call);
	source = gpu_event ? stream_by_id(call->core, gpu_event->stream) : NULL;
	if (!source || !call->stream || source == call->stream)
		return;
	if (gpu_event->capture) {
		if (source->capture == gpu_event->capture)
			stream_join_capture(call->stream, gpu_event->capture);
		return;
	}
	first = pending_first(source);
	if (!first || first->start_ns > gpu_event->record_ns)
		return;
	mark = pending_add(call);
	if (!mark)
		return;
	mark->source = source;
	mark->upto_ns = gpu_event->record_ns;
	list_append(&source->waiters, &mark->waiter);
	stream_settle(call->core, call->stream, call->op->start_ns);
}

void timeline_drop_stream(struct core *core, struct stream *stream, uint64_t time_ns)
{
	struct cover cover;

	cover_init(&cover, 0, time_ns);
	cover_want(&cover, stream, UINT64_MAX);
	cover_run(core, &cover);
}

void timeline_tick(struct core *core, uint64_t now_ns)
{
	const struct pending *first;

	while ((first = list_first(&core->pendings, struct pending, link)) &&
	       first->start_ns + core->config.bounds_wait_ns <= now_ns)
		timeline_expire_first(core, now_ns);
}

void timeline_flush(struct core *core, uint64_t now_ns)
{
	while (!list_empty(&core->pendings))
		timeline_expire_first(core, now_ns);
}
