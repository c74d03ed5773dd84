/* GPU event: where each of the driver's events was last recorded. An event is known from its
 * creation or, if that was not seen, from its first record on, until it is destroyed or its process
 * ends.
 *
 * The return of a record is not watched: events are recorded too often for a second trap each time.
 * The driver refuses an invalid handle, and an event of another context than the stream's: if
 * everything is seen from the start, that can be detected. */
#include "core/model/gpu_event.h"

#include "core/model/call.h"

static struct map_key gpu_event_key(uint32_t process, uint64_t handle)
{
	return (struct map_key){ handle, process };
}

struct gpu_event *gpu_event_find(const struct call *call)
{
	return map_get(&call->core->gpu_event_by_handle,
		       gpu_event_key(call->process->row.id, call->event->api.handle));
}

static void gpu_event_drop(struct core *core, struct gpu_event *gpu_event)
{
	quota_give(&core->share[CORE_SHARE_EVENTS], gpu_event->user, 1);
	pool_put(&core->gpu_event_pool, gpu_event);
}

static void gpu_event_forget(struct core *core, struct gpu_event *gpu_event)
{
	map_remove(&core->gpu_event_by_handle,
		   gpu_event_key(gpu_event->process, gpu_event->handle));
	list_remove(&gpu_event->in_process);
	gpu_event_drop(core, gpu_event);
}

static struct gpu_event *gpu_event_add(struct call *call)
{
	struct core *core = call->core;
	uint64_t handle = call->event->api.handle;
	uint32_t process = call->process->row.id, user = call->process->row.user;
	struct gpu_event *gpu_event;

	if (!quota_take(&core->share[CORE_SHARE_EVENTS], user, 1))
		return NULL;
	gpu_event = pool_get(&core->gpu_event_pool);
	if (!gpu_event) {
		quota_give(&core->share[CORE_SHARE_EVENTS], user, 1);
		return NULL;
	}
	*gpu_event = (struct gpu_event){ .handle = handle, .process = process, .user = user };
	if (map_put(&core->gpu_event_by_handle, gpu_event_key(process, handle), gpu_event) < 0) {
		gpu_event_drop(core, gpu_event);
		return NULL;
	}
	list_append(&call->process->gpu_events, &gpu_event->in_process);
	return gpu_event;
}

void gpu_event_create(struct call *call)
{
	struct gpu_event *gpu_event = gpu_event_find(call);

	call->process->events_told = true;
	if (!gpu_event && call->event->api.handle)
		gpu_event = gpu_event_add(call);
	if (!gpu_event || call->event->flags & TS_EVENT_UNREAD) {
		call->process->event_missed = true;
		return;
	}
	/* The previous event with this handle is gone. */
	gpu_event->stream = 0;
	gpu_event->capture = 0;
	gpu_event->context = call->context->handle;
}

static bool gpu_event_is_of(const struct call *call, const struct gpu_event *gpu_event)
{
	const struct context *context = call->stream->context, *made;

	if (!gpu_event->context || !context->handle || gpu_event->context == context->handle)
		return true;
	/* What the driver says of a part of a device and the whole is unknown. */
	made = context_find(call->process, gpu_event->context);
	return context->part || (made && made->part);
}

static bool gpu_event_is_refused(const struct call *call, const struct gpu_event *gpu_event)
{
	const struct process *process = call->process;

	if (!call->event->api.handle)
		return true;
	if (call->event->flags & TS_EVENT_RETURNED || !process_is_whole(process))
		return false;
	if (!gpu_event)
		return process->events_told && !process->event_missed;
	return !gpu_event_is_of(call, gpu_event);
}

void gpu_event_record(struct call *call)
{
	struct gpu_event *gpu_event = gpu_event_find(call);

	if (!call->stream || gpu_event_is_refused(call, gpu_event))
		return;
	/* It is recorded when the graph runs. */
	if (call->stream->capture && call->event->api.flags & GPU_EVENT_EXTERNAL)
		return;
	if (!gpu_event)
		gpu_event = gpu_event_add(call);
	if (!gpu_event) {
		loss_count(call->core, call->process, LOSS_LIMIT);
		return;
	}
	gpu_event->stream = call->stream->row.id;
	gpu_event->record_ns = call->op->start_ns;
	gpu_event->seq = call->stream->submitted;
	gpu_event->capture = call->stream->capture;
}

void gpu_event_destroy(struct call *call)
{
	struct gpu_event *gpu_event = gpu_event_find(call);

	if (gpu_event)
		gpu_event_forget(call->core, gpu_event);
}

void gpu_event_forget_all(struct core *core, struct process *process)
{
	struct gpu_event *gpu_event;

	list_for_each(gpu_event, &process->gpu_events, in_process)
		gpu_event_forget(core, gpu_event);
}
