/* Stream: which streams there are. A stream is found by its key until it is destroyed, and by its
 * id until nothing is pending on it any more.
 *
 * The handles 0 and 1 are the legacy default stream of a context, 2 (or 0 if the caller was
 * compiled that way) is the default stream of a thread; every other handle is unique in its
 * process. 3 is not a driver handle: here it means a stream of which only CUPTI's number is
 * known. */
#include "core/model/stream.h"

#include <stdlib.h>

#include "core/base/cleanup.h"
#include "core/model/call.h"

#define STREAM_LEGACY		 1
#define STREAM_PER_THREAD	 2
#define STREAM_NUMBERED		 3
#define STREAM_FLAG_NON_BLOCKING 1

/* CUresult */
#define ERROR_INVALID_VALUE	1
#define ERROR_INVALID_HANDLE	400
#define ERROR_CAPTURE_UNMATCHED 903

/* Thread ids stay below 2^22, so the bits above can say what a key is. */
#define KEY_NUMBERED   (1u << 29)
#define KEY_LEGACY     (1u << 30)
#define KEY_PER_THREAD (1u << 31)

static bool stream_is_legacy(const struct core_stream *row)
{
	return row->handle <= STREAM_LEGACY;
}

static struct map_key stream_key(const struct core_stream *row)
{
	uint64_t process = (uint64_t)row->process << 32;

	if (stream_is_legacy(row))
		return (struct map_key){ row->context, process | KEY_LEGACY };
	if (row->handle == STREAM_PER_THREAD)
		return (struct map_key){ row->context, process | KEY_PER_THREAD | row->tid };
	if (row->handle == STREAM_NUMBERED)
		return (struct map_key){ (uint64_t)row->number << 16 | (uint16_t)row->device,
					 process | KEY_NUMBERED };
	return (struct map_key){ row->handle, process };
}

static struct map_key stream_id_key(uint32_t id)
{
	return (struct map_key){ id, 0 };
}

struct stream *stream_by_id(const struct core *core, uint32_t id)
{
	return map_get(&core->stream_by_id, stream_id_key(id));
}

/* The row that the call's stream has or would get. */
static struct core_stream stream_of_call(const struct call *call)
{
	uint64_t handle = call->event->api.stream;
	struct core_stream row = {
		.process = call->process->row.id,
		.handle = handle == STREAM_LEGACY ? 0 : handle,
		.context = call->context->handle,
		.device = call->context->device,
	};

	if (!handle && (call->event->flags & TS_EVENT_PER_THREAD))
		row.handle = STREAM_PER_THREAD;
	if (row.handle == STREAM_PER_THREAD)
		row.tid = call->op->tid;
	return row;
}

struct stream *stream_find(const struct call *call)
{
	struct core_stream row = stream_of_call(call);

	return map_get(&call->core->stream_by_key, stream_key(&row));
}

static void stream_init(struct stream *stream, struct process *process, struct context *context,
			const struct core_stream *row)
{
	*stream = (struct stream){ .row = *row, .process = process, .context = context };
	stream->key = stream_key(row);
	stream->legacy = stream_is_legacy(row);
	stream->device = device_get(process, row->device);
	list_init(&stream->in_context);
	list_init(&stream->active);
	list_init(&stream->capturing);
	list_init(&stream->pending);
	list_init(&stream->waiters);
	list_init(&stream->work);
	state_init(&stream->state, process->row.id, row->id, row->device);
}

static struct stream *stream_put(struct core *core, struct stream *stream)
{
	uint32_t id = stream->row.id;

	if (map_put(&core->stream_by_id, stream_id_key(id), stream) < 0)
		return NULL;
	if (map_put(&core->stream_by_key, stream->key, stream) < 0 ||
	    !quota_take(&core->share[CORE_SHARE_STREAMS], stream->process->row.user, 1)) {
		map_remove(&core->stream_by_key, stream->key);
		map_remove(&core->stream_by_id, stream_id_key(id));
		return NULL;
	}
	return stream;
}

static bool stream_has_room(const struct core *core, const struct process *process)
{
	return quota_left(&core->share[CORE_SHARE_STREAMS], process->row.user) > 0;
}

struct stream *stream_add(struct core *core, struct process *process,
			  const struct core_stream *from)
{
	_cleanup_(freep) struct stream *stream = NULL;
	struct core_stream row = *from;
	struct context *context = &process->unknown;

	if (!stream_has_room(core, process))
		return NULL;
	if (map_get(&core->stream_by_key, stream_key(from)))
		return NULL;
	stream = malloc(sizeof(*stream));
	if (!stream)
		return NULL;
	if (!row.id)
		row.id = core->next_stream;
	if (row.context)
		context = context_get(core, process, row.context, row.device);
	stream_init(stream, process, context, &row);
	if (!stream_put(core, stream))
		return NULL;
	if (row.id >= core->next_stream)
		core->next_stream = row.id + 1;
	list_append(&context->streams, &stream->in_context);
	return TAKE(stream);
}

static void stream_tell(struct core *core, const struct stream *stream)
{
	core_tell(core, &stream->row);
}

static struct stream *stream_add_told(struct core *core, struct process *process,
				      const struct core_stream *row)
{
	struct stream *stream = stream_add(core, process, row);

	if (!stream) {
		loss_count(core, process, LOSS_LIMIT);
		return NULL;
	}
	stream_tell(core, stream);
	return stream;
}

struct stream *stream_numbered(struct core *core, struct process *process, uint32_t number,
			       int16_t device)
{
	struct core_stream row = {
		.process = process->row.id,
		.handle = STREAM_NUMBERED,
		.number = number,
		.device = device,
	};
	struct stream *stream = map_get(&core->stream_by_key, stream_key(&row));

	return stream ? stream : stream_add_told(core, process, &row);
}

struct stream *stream_legacy(struct core *core, struct process *process,
			     const struct context *context)
{
	struct core_stream row = {
		.process = process->row.id,
		.context = context->handle,
		.device = context->device,
	};
	struct stream *stream = map_get(&core->stream_by_key, stream_key(&row));

	return stream ? stream : stream_add_told(core, process, &row);
}

bool stream_is_numbered(const struct stream *stream)
{
	return stream->row.handle == STREAM_NUMBERED;
}

void stream_learn_number(struct core *core, struct stream *stream, uint32_t number)
{
	if (stream->row.number == number)
		return;
	stream->row.number = number;
	stream_tell(core, stream);
}

static void stream_set_state(struct core *core, struct stream *stream, uint8_t now,
			     uint64_t time_ns)
{
	uint8_t before = stream->state.now;

	if (now == before || exact_is_swept(stream->process))
		return;
	device_count(core, stream->device, before, now, time_ns);
	state_set(core, &stream->state, now, time_ns);
}

static bool stream_is_misplaced(const struct stream *stream, const struct context *context)
{
	if (stream->context == context)
		return context->handle && stream->row.device != context->device;
	return !stream->context->handle;
}

/* A stream first seen in a thread with an unknown context is placed when a thread that knows more
 * uses it. */
static void stream_place(struct call *call, struct stream *stream)
{
	struct context *context = call->context;
	uint8_t state = stream->state.now;

	stream_set_state(call->core, stream, STATE_NONE, call->op->start_ns);
	list_remove(&stream->in_context);
	list_append(&context->streams, &stream->in_context);
	if (list_linked(&stream->active)) {
		list_remove(&stream->active);
		list_append(&context->active, &stream->active);
	}
	stream->context = context;
	stream->row.context = context->handle;
	stream->row.device = stream->state.device = context->device;
	stream->device = device_get(call->process, context->device);
	stream_set_state(call->core, stream, state, call->op->start_ns);
	stream_tell(call->core, stream);
}

/* The return of a launch is not watched, so whether the driver accepted its stream is unknown. If
 * the creation of all streams was seen, an unknown one is invalid. */
static bool stream_is_refused(const struct call *call, const struct core_stream *row)
{
	return row->handle > STREAM_PER_THREAD && !(call->event->flags & TS_EVENT_RETURNED) &&
	       process_is_whole(call->process) && stream_has_room(call->core, call->process);
}

struct stream *stream_get(struct call *call)
{
	struct core_stream row = stream_of_call(call);
	struct stream *stream = map_get(&call->core->stream_by_key, stream_key(&row));

	if (!stream && stream_is_refused(call, &row))
		return NULL;
	if (!stream)
		return stream_add_told(call->core, call->process, &row);
	if (stream_is_misplaced(stream, call->context))
		stream_place(call, stream);
	return stream;
}

static void stream_free(struct core *core, struct stream *stream)
{
	map_remove(&core->stream_by_id, stream_id_key(stream->row.id));
	quota_give(&core->share[CORE_SHARE_STREAMS], stream->process->row.user, 1);
	list_remove(&stream->in_context);
	list_remove(&stream->active);
	lane_unref(stream->lane);
	free(stream);
}

static uint8_t stream_state(const struct stream *stream)
{
	const struct pending *last = list_last(&stream->pending, struct pending, in_stream);

	if (last)
		return last->source ? OP_STATE_WAITING : OP_STATE_PENDING;
	return stream->destroyed || stream->state.now == STATE_NONE ? STATE_NONE : OP_STATE_IDLE;
}

void stream_settle(struct core *core, struct stream *stream, uint64_t time_ns)
{
	stream_set_state(core, stream, stream_state(stream), time_ns);
	if (!list_empty(&stream->pending)) {
		if (!list_linked(&stream->active))
			list_append(&stream->context->active, &stream->active);
		return;
	}
	list_remove(&stream->active);
	if (stream->destroyed)
		stream_free(core, stream);
}

bool stream_rest(struct core *core, struct stream *stream, uint64_t time_ns)
{
	uint8_t before = stream->state.now;

	if (before == STATE_NONE)
		return false;
	/* The state of the device is taken over as well. */
	if (stream->device) {
		stream->device->pending -= before == OP_STATE_PENDING;
		stream->device->waiting -= before == OP_STATE_WAITING;
	}
	state_set(core, &stream->state, STATE_NONE, time_ns);
	return true;
}

void stream_resume(struct core *core, struct stream *stream, uint64_t time_ns)
{
	uint8_t now;

	if (!stream->lane)
		return;
	stream->lane = lane_unref(stream->lane);
	now = stream_state(stream);
	if (now == STATE_NONE && !stream->destroyed)
		now = OP_STATE_IDLE;
	stream_set_state(core, stream, now, time_ns);
}

static void stream_leave_capture(struct stream *stream)
{
	stream->capture = 0;
	stream->broken = false;
	list_remove(&stream->capturing);
}

void stream_end(struct core *core, struct stream *stream, uint64_t time_ns)
{
	if (stream->destroyed)
		return;
	stream->destroyed = true;
	stream->row.destroyed_ns = time_ns;
	stream_leave_capture(stream);
	map_remove(&core->stream_by_key, stream->key);
	if (stream->lane)
		sweep_stream_end(core, stream->process->exact, stream, time_ns);
	stream_tell(core, stream);
	stream_settle(core, stream, time_ns);
}

void stream_create(struct call *call)
{
	struct core_stream row = stream_of_call(call);
	struct stream *former = map_get(&call->core->stream_by_key, stream_key(&row));

	if (row.handle <= STREAM_PER_THREAD)
		return;
	if (former)
		stream_end(call->core, former, call->op->start_ns);
	row.created_ns = call_end_ns(call);
	row.non_blocking = call->event->api.flags & STREAM_FLAG_NON_BLOCKING;
	call->stream = stream_add_told(call->core, call->process, &row);
	if (call->stream)
		call->op->stream = call->stream->row.id;
}

/* The default streams are there as long as their context. */
void stream_destroy(struct call *call)
{
	if (call->stream && call->stream->row.handle > STREAM_PER_THREAD)
		stream_end(call->core, call->stream, call_end_ns(call));
	call->stream = NULL;
}

void stream_break_capture(struct stream *stream)
{
	struct stream *member;

	if (!stream->capture)
		return;
	list_for_each(member, &stream->process->capturing, capturing)
		if (member->capture == stream->capture)
			member->broken = true;
}

static void stream_enter_capture(struct stream *stream, uint64_t capture)
{
	if (stream->legacy)
		return;
	if (!stream->capture)
		list_append(&stream->process->capturing, &stream->capturing);
	stream->capture = capture;
	stream->broken = false;
}

/* Two captures are not merged; both are broken by the attempt. */
void stream_join_capture(struct stream *stream, struct stream *source)
{
	if (source->broken || stream->legacy)
		return;
	if (!stream->capture) {
		stream_enter_capture(stream, source->capture);
		return;
	}
	if (stream->capture == source->capture)
		return;
	stream_break_capture(stream);
	stream_break_capture(source);
}

void stream_capture_begin(struct call *call)
{
	if (call->stream)
		stream_enter_capture(call->stream, call->core->next_capture++);
}

/* A failed capture is over as well. It continues if the call did not name the stream in which it
 * started. */
static bool stream_capture_is_over(int32_t result)
{
	return result != ERROR_INVALID_VALUE && result != ERROR_INVALID_HANDLE &&
	       result != ERROR_CAPTURE_UNMATCHED;
}

void stream_capture_end(struct call *call)
{
	uint64_t capture = call->stream ? call->stream->capture : 0;
	struct stream *stream;

	if (!capture || !stream_capture_is_over(call->op->result))
		return;
	list_for_each(stream, &call->process->capturing, capturing)
		if (stream->capture == capture)
			stream_leave_capture(stream);
}
