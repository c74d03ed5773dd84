/* Timeline: work is pending from its submission until a synchronization that covers it returns; the
 * device ran it in between. Work that gets no such bound in time leaves without one and is counted.
 * Pending work is in its stream's list, by start, and in one of its process's, by arrival:
 *
 * - pendings, or awaited if the exact tier is to answer it: not covered yet;
 * - answered: with exact times, it waits briefly to be covered, to report when that was seen;
 * - covered, or graphs: known to be over, but the answer is still to come. What is covered is in
 *   no stream any more.
 *
 * A mark in a stream says that later work waits for another stream, up to a point: covering the
 * mark covers that too. Marks exist only while there is something to wait for.
 */
#include "core/model/timeline.h"

#include "core/base/array.h"
#include "core/base/invariant.h"
#include "core/base/time.h"
#include "core/model/call.h"
#include "core/model/correlate.h"

/* Threads that share a stream are seen slightly out of order, never by more than this. */
#define TIMELINE_SORT_STEPS 64
/* How long work waits for an answer if nothing covers it: a kernel may run long, and others before
 * it. */
#define TIMELINE_AWAIT_NS 30000000000ull
/* How long after it was covered: records come within a second. */
#define TIMELINE_COVERED_NS 3000000000ull
#define TIMELINE_GRAPH_NS   NS_PER_S
/* How long an answer waits to be covered. */
#define TIMELINE_ANSWERED_NS 250000000ull

/* How many others make room for at once: finding out whose takes a look at each process. */
#define TIMELINE_ROOM 64

/* Streams that a synchronization reaches, directly or through others. */
struct cover {
	struct list work;  /* struct stream */
	uint64_t bound_ns; /* when everything is finished, 0: what leaves has no bound */
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

void timeline_init(struct timeline *timeline)
{
	list_init(&timeline->link);
	list_init(&timeline->pendings);
	list_init(&timeline->awaited);
	list_init(&timeline->covered);
	list_init(&timeline->graphs);
	list_init(&timeline->answered);
}

static bool timeline_hold(struct core *core, struct process *process)
{
	struct timeline *timeline = &process->timeline;

	if (quota_charge(&core->share[CORE_SHARE_PENDING], process->row.user, 1) < 0)
		return false;
	if (!timeline->held++)
		list_append(&core->timelines, &timeline->link);
	return true;
}

static void timeline_drop(struct core *core, struct process *process)
{
	struct timeline *timeline = &process->timeline;

	assert_invariant(timeline->held > 0);
	quota_give(&core->share[CORE_SHARE_PENDING], process->row.user, 1);
	if (!--timeline->held)
		list_remove(&timeline->link);
}

static void pending_free(struct core *core, struct pending *pending)
{
	timeline_drop(core, pending->process);
	list_remove(&pending->link);
	list_remove(&pending->in_stream);
	list_remove(&pending->waiter);
	pool_put(&core->pending_pool, pending);
}

static void pending_move(struct pending *pending, struct list *to)
{
	list_remove(&pending->link);
	list_append(to, &pending->link);
}

static void pending_bound(struct core *core, struct pending *pending)
{
	struct op *op = &pending->op;

	if (call_does_nothing(op, &core->config.functions.row[op->fn]))
		return;
	op->flags |= OP_BOUNDS;
	/* Its parts say when it ran, if not one by one. */
	if (op->gpu_end_ns)
		return;
	op->gpu_start_ns = op->start_ns;
	op->gpu_end_ns = pending->covered_ns;
	if (pending->over_ns && (!op->gpu_end_ns || pending->over_ns < op->gpu_end_ns))
		op->gpu_end_ns = pending->over_ns;
	if (op->gpu_end_ns && op->gpu_end_ns < op->gpu_start_ns)
		op->gpu_end_ns = op->gpu_start_ns;
	if (!op->gpu_end_ns)
		loss_count(core, pending->process, LOSS_UNBOUND);
}

/* The op leaves the model. Clocks of stream and device may differ a little. */
static void pending_leave(struct core *core, struct pending *pending)
{
	struct op *op = &pending->op;

	if (pending->covered_ns && op->gpu_end_ns)
		op->seen_ns =
			pending->covered_ns > op->gpu_end_ns ? pending->covered_ns : op->gpu_end_ns;
	if (!(op->flags & OP_EXACT) && !pending->failed)
		pending_bound(core, pending);
	if (pending->process->exact)
		correlate_leave(core, pending);
	core_emit(core, op);
	pending_free(core, pending);
}

static void pending_over(struct core *core, struct pending *pending)
{
	struct timeline *timeline = &pending->process->timeline;

	pending->since_ns = core->now_ns;
	pending_move(pending,
		     pending->await & AWAIT_NODES ? &timeline->graphs : &timeline->covered);
}

/* It is in no stream any more. */
static void pending_cover(struct core *core, struct pending *pending, uint64_t bound_ns)
{
	list_remove(&pending->in_stream);
	pending->stream = NULL;
	pending->covered_ns = bound_ns;
	if (!bound_ns || !pending->await) {
		pending_leave(core, pending);
		return;
	}
	pending_over(core, pending);
}

/* Legacy work waits for all earlier work of the context's blocking streams. */
static void cover_blocking(struct cover *cover, const struct stream *legacy)
{
	struct stream *stream;

	list_for_each(stream, &legacy->context->active, active)
		if (!stream->legacy && !stream->row.non_blocking)
			cover_want(cover, stream, legacy->cover_ns);
}

/* Work that awaits its record is over when the record says so: a launch in progress when the wait
 * started may run after it. */
static void cover_work(struct core *core, struct cover *cover, struct stream *stream)
{
	struct pending *pending;
	uint64_t seq = 0;

	while ((pending = pending_first(stream)) && pending->start_ns <= stream->cover_ns) {
		if (!pending->source) {
			seq = pending->await ? seq : pending->seq;
			pending_cover(core, pending, cover->bound_ns);
			continue;
		}
		if (cover->bound_ns)
			cover_want(cover, pending->source, pending->upto_ns);
		pending_free(core, pending);
	}
	if (seq && stream->lane && cover->bound_ns)
		sweep_finish(core, stream->process->exact, stream->lane, seq, cover->bound_ns);
}

/* Marks that wait for what is finished now are no longer needed. */
static void cover_waiters(struct core *core, struct cover *cover, struct stream *stream)
{
	const struct pending *first = pending_first(stream);
	struct pending *mark;

	while ((mark = list_first(&stream->waiters, struct pending, waiter))) {
		if (first && first->start_ns <= mark->upto_ns)
			break;
		cover_want(cover, mark->stream, 0);
		pending_free(core, mark);
	}
}

/* A work list instead of recursion: streams can wait for each other in long chains. */
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

static void pending_expire(struct core *core, struct pending *pending, struct cover *cover)
{
	if (pending->stream)
		cover_want(cover, pending->stream, 0);
	if (pending->source)
		pending_free(core, pending);
	else
		pending_leave(core, pending);
}

void timeline_expire(struct core *core, struct pending *pending, uint64_t time_ns)
{
	struct cover cover;

	cover_init(&cover, 0, time_ns);
	pending_expire(core, pending, &cover);
	cover_run(core, &cover);
}

/* The lists, in the order in which they make room. */
static struct pending *timeline_first(const struct timeline *timeline)
{
	const struct list *lists[] = { &timeline->answered, &timeline->graphs, &timeline->covered,
				       &timeline->pendings, &timeline->awaited };

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
		if (!list_empty(lists[i]))
			return list_first(lists[i], struct pending, link);
	return NULL;
}

/* Of the user who has most, the process that has most. */
static struct timeline *timeline_biggest(const struct core *core, uint32_t user)
{
	struct timeline *timeline, *biggest = NULL;

	list_for_each(timeline, &core->timelines, link)
		if (list_item(timeline, struct process, timeline)->row.user == user &&
		    (!biggest || timeline->held > biggest->held))
			biggest = timeline;
	return biggest;
}

/* At the limit the user who has most loses the oldest: of this process, if it is his. This can free
 * destroyed streams, so it comes before any look at other streams. */
static void timeline_make_room(struct call *call)
{
	struct timeline *payer = &call->process->timeline;
	struct core *core = call->core;
	uint32_t user, leaving = 1;

	if (core->pending_pool.used < core->config.max_pending ||
	    !quota_biggest(&core->share[CORE_SHARE_PENDING], &user))
		return;
	if (user != call->process->row.user || !payer->held) {
		payer = timeline_biggest(core, user);
		leaving = TIMELINE_ROOM;
	}
	while (payer && payer->held && leaving--)
		timeline_expire(core, timeline_first(payer), call->op->start_ns);
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

	if (pending && !timeline_hold(core, call->process)) {
		pool_put(&core->pending_pool, pending);
		pending = NULL;
	}
	if (!pending) {
		loss_count(core, call->process, LOSS_LIMIT);
		return NULL;
	}
	*pending = (struct pending){
		.stream = call->stream,
		.process = call->process,
		.start_ns = call->op->start_ns,
	};
	list_init(&pending->awaiting);
	list_append(&call->process->timeline.pendings, &pending->link);
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
	/* In the exact tier it is awaited, in case there are records. */
	if (!call->process->exact &&
	    call_does_nothing(call->op, &call->core->config.functions.row[call->op->fn]))
		return;
	timeline_make_room(call);
	pending = pending_add(call);
	if (!pending)
		return;
	pending->op = *call->op;
	/* Not as they arrive: a call that waits is reported when it returns. */
	pending->seq = pending->start_ns;
	if (pending->seq > call->stream->submitted)
		call->stream->submitted = pending->seq;
	if (call->stream->submitter && call->stream->submitter != call->op->tid)
		call->stream->shared = true;
	call->stream->submitter = call->op->tid;
	pending->ns_tid = call_ns_tid(call->event);
	call->held = true;
	if (call->process->exact)
		correlate_submitted(call, pending);
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

/* A stream with an unknown context counts as meant; so does every stream if the context of the call
 * is unknown. */
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

/* Whether the wait is in a capture, whatever becomes of it there. */
static bool timeline_wait_is_captured(struct call *call, const struct gpu_event *gpu_event,
				      struct stream *source)
{
	struct stream *stream = call->stream;

	if (stream->capture && call->event->api.flags & GPU_EVENT_EXTERNAL)
		return true;
	if (gpu_event->capture && source && source->capture == gpu_event->capture)
		stream_join_capture(stream, source);
	else if (gpu_event->stream)
		stream_break_capture(stream); /* nothing in it can wait for work outside */
	return stream->capture || gpu_event->capture;
}

void timeline_stream_wait(struct call *call)
{
	const struct gpu_event *gpu_event = gpu_event_find(call);
	const struct pending *first;
	struct stream *source;
	struct pending *mark;

	timeline_make_room(call);
	if (!call->stream || !gpu_event)
		return;
	source = stream_by_id(call->core, gpu_event->stream);
	if (timeline_wait_is_captured(call, gpu_event, source))
		return;
	if (!source || source == call->stream)
		return;
	first = pending_first(source);
	if (!first || first->start_ns > gpu_event->record_ns)
		return;
	mark = pending_add(call);
	if (!mark)
		return;
	mark->source = source;
	mark->upto_ns = gpu_event->record_ns;
	if (call->process->exact)
		sweep_wait(call->core, call->process->exact, call->stream, source, gpu_event->seq,
			   call->op->start_ns);
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

void timeline_answered(struct core *core, struct pending *pending)
{
	struct timeline *timeline = &pending->process->timeline;

	if (pending->failed) {
		timeline_expire(core, pending, core->now_ns);
		return;
	}
	if (pending->await)
		return;
	list_remove(&pending->awaiting);
	if (!pending->stream) {
		pending_leave(core, pending);
		return;
	}
	pending->since_ns = core->now_ns;
	pending_move(pending,
		     pending->op.flags & OP_EXACT ? &timeline->answered : &timeline->pendings);
}

void timeline_began(struct core *core, struct pending *pending, uint64_t time_ns)
{
	struct list *node = pending->in_stream.prev;

	if (!pending->stream)
		return;
	for (int i = 0; i < TIMELINE_SORT_STEPS && node != &pending->stream->pending; i++) {
		struct pending *before = list_item(node, struct pending, in_stream);

		node = node->prev;
		if (before->source)
			continue;
		if (!before->await || before->over_ns)
			return;
		before->over_ns = time_ns;
		pending_over(core, before);
	}
}

void timeline_give_up(struct core *core, struct pending *pending)
{
	pending->await = 0;
	list_remove(&pending->awaiting);
	if (!pending->stream)
		pending_leave(core, pending);
	else
		pending_move(pending, &pending->process->timeline.pendings);
}

void timeline_await(struct core *core, struct pending *pending)
{
	list_append(&pending->process->exact->awaiting, &pending->awaiting);
	pending_move(pending, &pending->process->timeline.awaited);
}

/* In order of these times, so the first decides; streams are looked at once for all that leaves. */
static void timeline_expire_list(struct core *core, struct list *list, uint64_t wait_ns,
				 uint64_t now_ns)
{
	struct pending *first;
	struct cover cover;

	cover_init(&cover, 0, now_ns);
	while ((first = list_first(list, struct pending, link)) &&
	       (first->since_ns ? first->since_ns : first->start_ns) + wait_ns <= now_ns)
		pending_expire(core, first, &cover);
	cover_run(core, &cover);
}

void timeline_tick(struct core *core, uint64_t now_ns)
{
	uint64_t wait_ns = core->config.bounds_wait_ns;
	uint64_t await_ns = wait_ns > TIMELINE_AWAIT_NS ? wait_ns : TIMELINE_AWAIT_NS;
	struct timeline *timeline;

	list_for_each(timeline, &core->timelines, link) {
		timeline_expire_list(core, &timeline->pendings, wait_ns, now_ns);
		timeline_expire_list(core, &timeline->awaited, await_ns, now_ns);
		timeline_expire_list(core, &timeline->covered, TIMELINE_COVERED_NS, now_ns);
		timeline_expire_list(core, &timeline->graphs, TIMELINE_GRAPH_NS, now_ns);
		timeline_expire_list(core, &timeline->answered, TIMELINE_ANSWERED_NS, now_ns);
	}
}

void timeline_flush(struct core *core, uint64_t now_ns)
{
	struct timeline *timeline;

	while ((timeline = list_first(&core->timelines, struct timeline, link)))
		timeline_expire(core, timeline_first(timeline), now_ns);
}

static uint64_t timeline_oldest_of(const struct timeline *timeline)
{
	const struct list *lists[] = { &timeline->covered, &timeline->pendings };
	uint64_t oldest_ns = 0;

	for (size_t i = 0; i < ARRAY_SIZE(lists); i++) {
		const struct pending *first = list_first(lists[i], struct pending, link);

		if (first && (!oldest_ns || first->start_ns < oldest_ns))
			oldest_ns = first->start_ns;
	}
	return oldest_ns;
}

uint64_t timeline_oldest_ns(const struct core *core)
{
	const struct timeline *timeline;
	uint64_t oldest_ns = 0;

	list_for_each(timeline, &core->timelines, link) {
		uint64_t first_ns = timeline_oldest_of(timeline);

		if (first_ns && (!oldest_ns || first_ns < oldest_ns))
			oldest_ns = first_ns;
	}
	return oldest_ns;
}
