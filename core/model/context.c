/* Context: which contexts a process has, on which devices, and which one a call refers to. The
 * unknown context, handle 0, holds what is not known to belong to another; it never ends. */
#include "core/model/context.h"

#include <errno.h>
#include <stdlib.h>

#include "core/model/call.h"

/* Programs have one per device; libraries that partition a device have a few more. */
#define CONTEXT_PER_PROCESS_MAX 256

void context_init(const struct core *core, struct context *context, uint64_t handle)
{
	*context = (struct context){
		.handle = handle,
		.device = core->config.one_device ? 0 : DEVICE_UNKNOWN,
	};
	list_init(&context->link);
	list_init(&context->streams);
	list_init(&context->active);
	list_init(&context->allocations);
}

int16_t context_device(uint32_t ordinal)
{
	return ordinal < CONTEXT_DEVICES_MAX ? (int16_t)ordinal : DEVICE_UNKNOWN;
}

struct context *context_find(const struct process *process, uint64_t handle)
{
	struct context *context;

	list_for_each(context, &process->contexts, link)
		if (context->handle == handle)
			return context;
	return NULL;
}

static struct context *context_add(struct core *core, struct process *process, uint64_t handle)
{
	struct context *context = NULL;

	if (process->context_count < CONTEXT_PER_PROCESS_MAX)
		context = malloc(sizeof(*context));
	if (!context) {
		loss_count(core, process, LOSS_LIMIT);
		return &process->unknown;
	}
	context_init(core, context, handle);
	list_append(&process->contexts, &context->link);
	process->context_count++;
	return context;
}

struct context *context_get(struct core *core, struct process *process, uint64_t handle,
			    int16_t device)
{
	struct context *context = context_find(process, handle);

	if (!context)
		context = context_add(core, process, handle);
	if (context->handle && device != DEVICE_UNKNOWN)
		context->device = device;
	return context;
}

struct context *context_of_call(const struct core *core, struct process *process, uint64_t handle,
				uint32_t tid)
{
	struct context *context;

	if (!handle)
		handle = thread_context(core, process, tid);
	if (handle) {
		context = context_find(process, handle);
		return context ? context : &process->unknown;
	}
	return process->context_count == 1 ? list_last(&process->contexts, struct context, link)
					   : &process->unknown;
}

void context_end_streams(struct core *core, struct context *context, uint64_t time_ns)
{
	struct stream *stream;

	list_for_each(stream, &context->streams, in_context)
		stream_end(core, stream, time_ns);
	/* Dropping one can free others that waited for it. */
	while ((stream = list_first(&context->streams, struct stream, in_context)))
		timeline_drop_stream(core, stream, time_ns);
}

static void context_free(struct process *process, struct context *context)
{
	list_remove(&context->link);
	process->context_count--;
	free(context);
}

/* Nothing of it runs any more when the call returns, which bounds its work. */
static void context_empty(struct call *call, struct context *context)
{
	uint64_t time_ns = call_end_ns(call);

	timeline_cover_context(call->core, context, call->op->start_ns, call->op->end_ns);
	context_end_streams(call->core, context, time_ns);
	memory_end_context(call->core, context, time_ns);
}

/* It is gone, though its end was not seen: threads that had it as their current one have none. */
static void context_lose(struct call *call, struct context *context)
{
	context_empty(call, context);
	thread_lose_context(call->process, context->handle);
	context_free(call->process, context);
}

void context_create(struct call *call)
{
	uint64_t handle = call->event->api.context;
	struct context *former = handle ? context_find(call->process, handle) : NULL;

	if (!handle)
		return;
	if (former)
		context_lose(call, former);
	call->context = context_get(call->core, call->process, handle, call->op->device);
	thread_push(call->core, call->process, call->op->tid, handle);
}

static struct context *context_primary(const struct process *process, int16_t device)
{
	struct context *context;

	list_for_each(context, &process->contexts, link)
		if (context->primary && context->device == device)
			return context;
	return NULL;
}

static uint32_t *context_retains(struct call *call)
{
	return call->op->device >= 0 ? &call->process->retains[call->op->device] : NULL;
}

/* A device has one: when it gets another handle, the former one is gone. */
void context_retain(struct call *call)
{
	uint64_t handle = call->event->api.context;
	struct context *former = context_primary(call->process, call->op->device);
	struct context *same = handle ? context_find(call->process, handle) : NULL;
	uint32_t *retains = context_retains(call);

	if (!handle)
		return;
	if (retains)
		++*retains;
	if (former && former != same)
		context_lose(call, former);
	if (same && same->primary && same != former)
		context_lose(call, same);
	call->context = context_get(call->core, call->process, handle, call->op->device);
	call->context->primary = call->context->handle;
}

/* The last release frees everything in it. Which release is the last is known only if every retain
 * was seen; otherwise it counts as still held. The driver counts per device, and a reset leaves
 * that count unchanged. The context stays known: the next retain gives the same handle, and threads
 * that had it as their current one have it again. */
void context_release(struct call *call)
{
	struct context *context = context_primary(call->process, call->op->device);
	uint32_t *retains = context_retains(call);

	if (!retains)
		return;
	if (*retains)
		--*retains;
	if (context && !*retains && process_is_whole(call->process))
		context_empty(call, context);
}

void context_learn_primary(struct core *core, struct process *process, uint64_t handle,
			   int16_t device)
{
	struct context *context;

	if (context_primary(process, device))
		return;
	context = context_get(core, process, handle, device);
	context->primary = context->handle != 0;
}

void context_known(struct call *call)
{
	uint64_t handle = call->event->api.context;
	struct context *context;

	if (!handle)
		return;
	context = context_get(call->core, call->process, handle, DEVICE_UNKNOWN);
	context->part = context->handle != 0;
}

/* Some programs make a context current before each operation, so watching for the return would cost
 * them a second trap each time. The driver refuses an invalid handle: if the creation of all
 * contexts was seen, an unknown one is invalid. */
static bool context_is_refused(const struct process *process, uint64_t handle)
{
	return process_is_whole(process) && process->context_count < CONTEXT_PER_PROCESS_MAX &&
	       !context_find(process, handle);
}

void context_set(struct call *call)
{
	uint64_t handle = call->event->api.context;

	if (handle && context_is_refused(call->process, handle))
		return;
	thread_pop(call->core, call->process, call->op->tid);
	context_push(call);
}

void context_push(struct call *call)
{
	uint64_t handle = call->event->api.context;

	if (!handle || context_is_refused(call->process, handle))
		return;
	context_get(call->core, call->process, handle, DEVICE_UNKNOWN);
	thread_push(call->core, call->process, call->op->tid, handle);
}

void context_pop(struct call *call)
{
	thread_pop(call->core, call->process, call->op->tid);
}

void context_destroy(struct call *call)
{
	uint64_t handle = call->event->api.context;
	struct context *context = handle ? context_find(call->process, handle) : NULL;

	if (!context)
		return;
	context_empty(call, context);
	context_free(call->process, context);
	call->context = &call->process->unknown;
	if (thread_context(call->core, call->process, call->op->tid) == handle)
		thread_pop(call->core, call->process, call->op->tid);
	thread_lose_context(call->process, handle);
}

void context_reset_primary(struct call *call)
{
	struct context *context;

	list_for_each(context, &call->process->contexts, link)
		if (context->primary && context->device == call->op->device)
			context_empty(call, context);
}
