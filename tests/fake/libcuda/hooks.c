/* Hooks: the way from the driver to a simulated CUPTI, empty in most processes. */
#include "fake.h"

#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

_Atomic(const struct fake_hooks *) hooks_table;

static _Atomic uint32_t hooks_correlation;

void hooks_enter(const struct fake_hooks *hooks, struct fake_api_call *call)
{
	call->correlation = atomic_fetch_add(&hooks_correlation, 1) + 1;
	call->thread = (uint32_t)syscall(SYS_gettid);
	call->context = (CUcontext)context_current();
	call->outer = thread.correlation;
	thread.correlation = call->correlation;
	if (hooks->api_enter)
		hooks->api_enter(call);
}

void hooks_exit(const struct fake_hooks *hooks, struct fake_api_call *call)
{
	if (hooks->api_exit)
		hooks->api_exit(call);
	thread.correlation = call->outer;
}

static void hooks_set(const struct fake_hooks *hooks)
{
	atomic_store(&hooks_table, hooks);
}

static void hooks_replay_context(const struct fake_hooks *hooks, struct context *context)
{
	uint32_t id = (uint32_t)context->object.id;

	if (hooks->context_created)
		hooks->context_created((CUcontext)context, id, context->device->ordinal);
	pthread_mutex_lock(&context->lock);
	/* The list is newest first; the legacy stream was the first. */
	if (hooks->stream_created && context->legacy)
		hooks->stream_created((CUstream)context->legacy,
				      (uint32_t)context->legacy->object.id, id);
	for (struct stream *s = context->streams; s; s = s->next)
		if (hooks->stream_created && !s->legacy)
			hooks->stream_created((CUstream)s, (uint32_t)s->object.id, id);
	pthread_mutex_unlock(&context->lock);
}

static void hooks_replay(const struct fake_hooks *hooks)
{
	char *base = atomic_load(&arena_contexts.base);

	for (size_t i = 0; base && i < atomic_load(&arena_contexts.used); i++) {
		struct context *context =
			(struct context *)(base + i * arena_contexts.object_bytes);

		if (object_live(&context->object))
			hooks_replay_context(hooks, context);
	}
}

static uint64_t hooks_object_id(const void *handle)
{
	return ((const struct object *)handle)->id;
}

static void hooks_keep(uint64_t bytes)
{
	for (int i = 0; i < driver.devices_count; i++)
		device_charge(&driver.devices[i], bytes);
}

static const struct fake_driver hooks_driver = {
	.size = sizeof(hooks_driver),
	.set_hooks = hooks_set,
	.function_name = proc_name,
	.now = driver_now,
	.replay = hooks_replay,
	.object_id = hooks_object_id,
	.books = books_read,
	.device_pool = pool_get_current,
	.keep = hooks_keep,
};

CUresult hooks_export(const void **table, const CUuuid *id)
{
	const CUuuid ours = FAKE_DRIVER_UUID;

	if (!table || !id)
		return CUDA_ERROR_INVALID_VALUE;
	if (memcmp(id, &ours, sizeof(ours)) != 0)
		return CUDA_ERROR_NOT_FOUND;
	*table = &hooks_driver;
	return CUDA_SUCCESS;
}
