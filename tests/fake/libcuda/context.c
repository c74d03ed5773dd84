/* Context: contexts of a device and each thread's stack of current ones.
 * A stack entry is believed only while the context that was pushed still lives. */
#include "fake.h"

#include <string.h>

struct context *context_check(CUcontext handle)
{
	return arena_check(&arena_contexts, handle);
}

struct context *context_current(void)
{
	struct context *context;

	if (thread.depth == 0)
		return NULL;
	context = thread.stack[thread.depth - 1];
	if (!context || !object_live(&context->object) ||
	    context->object.id != thread.stack_id[thread.depth - 1])
		return NULL;
	return context;
}

static void context_put_top(struct context *context)
{
	thread.stack[thread.depth - 1] = context;
	thread.stack_id[thread.depth - 1] = context ? context->object.id : 0;
}

/* A primary context comes back under its handle and is current again where it was. */
static struct context *context_take(struct device *device)
{
	struct context *context = device->primary_kept;

	if (!context)
		return arena_take(&arena_contexts);
	memset(&context->object + 1, 0, sizeof(*context) - sizeof(context->object));
	atomic_store(&context->object.state, OBJECT_LIVE);
	device->primary_kept = NULL;
	return context;
}

CUresult context_new(struct context **ret, struct device *device, unsigned int flags, bool primary)
{
	struct context *context = primary ? context_take(device) : arena_take(&arena_contexts);
	CUresult r;

	if (!context)
		return CUDA_ERROR_OUT_OF_MEMORY;
	context->primary = primary;
	context->device = device;
	context->flags = flags;
	context->limits[CU_LIMIT_STACK_SIZE] = 1024;
	context->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
	context->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
	pthread_mutex_init(&context->lock, NULL);
	pthread_cond_init(&context->stream_gone, NULL);
	HOOK(context_created, (CUcontext)context, (uint32_t)context->object.id, device->ordinal);
	r = stream_new(&context->legacy, context, 0, 0, true);
	if (r != CUDA_SUCCESS) {
		arena_give(&arena_contexts, context);
		return r;
	}
	*ret = context;
	return CUDA_SUCCESS;
}

static struct stream *context_live_stream(struct context *context)
{
	struct stream *s;

	pthread_mutex_lock(&context->lock);
	for (s = context->streams; s && !object_live(&s->object); s = s->next)
		;
	pthread_mutex_unlock(&context->lock);
	return s;
}

/* A stream that the engine has in hand is deleted there, so the last may take a moment. */
static void context_delete_streams(struct context *context)
{
	struct stream *s;

	while ((s = context_live_stream(context)))
		stream_retire(s);
	pthread_mutex_lock(&context->lock);
	while (context->streams)
		pthread_cond_wait(&context->stream_gone, &context->lock);
	pthread_mutex_unlock(&context->lock);
}

void context_delete(struct context *context)
{
	context_drain(context);
	atomic_store(&context->object.state, OBJECT_DYING);
	context_delete_streams(context);
	module_unload_all(context);
	memory_release_context(context);
	host_release_context(context);
	HOOK(context_destroyed, (CUcontext)context, (uint32_t)context->object.id);
	pthread_cond_destroy(&context->stream_gone);
	pthread_mutex_destroy(&context->lock);
	if (context->primary)
		context->device->primary_kept = context;
	else
		arena_give(&arena_contexts, context);
}

/* Streams that are pinned outlive their destruction, so the wait needs no lock. */
void context_drain(struct context *context)
{
	struct stream *pinned[64];
	uint64_t target[64];
	uint64_t after = 0;
	size_t count;

	if (atomic_load(&context->pending) == 0)
		return;
	do {
		count = 0;
		pthread_mutex_lock(&context->lock);
		/* New streams come first in the list, so their ids go down along it. */
		for (struct stream *s = context->streams; s && count < ARRAY_SIZE(pinned);
		     s = s->next) {
			if (after && s->object.id >= after)
				continue;
			s->pins++;
			target[count] = atomic_load(&s->tail);
			pinned[count++] = s;
		}
		pthread_mutex_unlock(&context->lock);
		for (size_t i = 0; i < count; i++) {
			after = pinned[i]->object.id;
			stream_wait_head(pinned[i], target[i]);
			stream_unpin(pinned[i]);
		}
	} while (count == ARRAY_SIZE(pinned));
}

CUresult context_create(CUcontext *ret, unsigned int flags, CUdevice dev)
{
	struct device *device = device_check(dev);
	struct context *context;
	CUresult r;

	if (!ret || (flags & ~(unsigned int)CU_CTX_FLAGS_MASK))
		return CUDA_ERROR_INVALID_VALUE;
	if (!device)
		return CUDA_ERROR_INVALID_DEVICE;
	if (thread.depth == CONTEXT_STACK_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	r = context_new(&context, device, flags, false);
	if (r != CUDA_SUCCESS)
		return r;
	thread.depth++;
	context_put_top(context);
	*ret = (CUcontext)context;
	return CUDA_SUCCESS;
}

CUresult context_destroy(CUcontext handle)
{
	struct context *context = context_check(handle);

	if (!context || context->primary)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (context_current() == context)
		thread.depth--;
	context_delete(context);
	return CUDA_SUCCESS;
}

/* Also a primary one that is not there at the moment. */
static struct context *context_settable(CUcontext handle)
{
	for (int i = 0; handle && i < driver.devices_count; i++)
		if ((CUcontext)driver.devices[i].primary_kept == handle)
			return driver.devices[i].primary_kept;
	return context_check(handle);
}

CUresult context_push(CUcontext handle)
{
	struct context *context = context_settable(handle);

	if (!context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (thread.depth == CONTEXT_STACK_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	thread.depth++;
	context_put_top(context);
	return CUDA_SUCCESS;
}

CUresult context_pop(CUcontext *ret)
{
	if (thread.depth == 0)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (ret)
		*ret = (CUcontext)thread.stack[thread.depth - 1];
	thread.depth--;
	return CUDA_SUCCESS;
}

CUresult context_set(CUcontext handle)
{
	struct context *context = context_settable(handle);

	if (handle && !context)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (!handle) {
		thread.depth -= thread.depth > 0;
		return CUDA_SUCCESS;
	}
	thread.depth += thread.depth == 0;
	context_put_top(context);
	return CUDA_SUCCESS;
}

CUresult context_get(CUcontext *ret)
{
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	*ret = thread.depth ? (CUcontext)thread.stack[thread.depth - 1] : NULL;
	return CUDA_SUCCESS;
}

static CUresult context_pick(struct context **ret, CUcontext handle)
{
	*ret = handle ? context_check(handle) : context_current();
	return *ret ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult context_get_device(CUdevice *device, CUcontext handle)
{
	struct context *context;
	CUresult r = context_pick(&context, handle);

	if (r != CUDA_SUCCESS)
		return r;
	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	*device = context->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult context_get_flags(unsigned int *flags)
{
	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	*flags = context_current()->flags;
	return CUDA_SUCCESS;
}

CUresult context_get_id(CUcontext handle, unsigned long long *id)
{
	struct context *context;
	CUresult r = context_pick(&context, handle);

	if (r != CUDA_SUCCESS)
		return r;
	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	*id = context->object.id;
	return CUDA_SUCCESS;
}

CUresult context_get_version(CUcontext handle, unsigned int *version)
{
	struct context *context;
	CUresult r = context_pick(&context, handle);

	if (r != CUDA_SUCCESS)
		return r;
	if (!version)
		return CUDA_ERROR_INVALID_VALUE;
	*version = 3020;
	return CUDA_SUCCESS;
}

CUresult context_sync(CUcontext handle)
{
	struct context *context;
	CUresult r = context_pick(&context, handle);

	if (r == CUDA_SUCCESS)
		r = capture_forbids();
	if (r != CUDA_SUCCESS)
		return r;
	context_drain(context);
	pool_settle(context->device);
	return CUDA_SUCCESS;
}

CUresult context_set_limit(CUlimit limit, size_t value)
{
	struct context *context = context_current();

	if ((size_t)limit >= ARRAY_SIZE(context->limits))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	context->limits[limit] = value;
	return CUDA_SUCCESS;
}

CUresult context_get_limit(size_t *value, CUlimit limit)
{
	struct context *context = context_current();

	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	if ((size_t)limit >= ARRAY_SIZE(context->limits))
		return CUDA_ERROR_UNSUPPORTED_LIMIT;
	*value = context->limits[limit];
	return CUDA_SUCCESS;
}

CUresult context_set_cache(CUfunc_cache cache)
{
	if ((unsigned int)cache > CU_FUNC_CACHE_PREFER_EQUAL)
		return CUDA_ERROR_INVALID_VALUE;
	context_current()->cache = cache;
	return CUDA_SUCCESS;
}

CUresult context_get_cache(CUfunc_cache *cache)
{
	if (!cache)
		return CUDA_ERROR_INVALID_VALUE;
	*cache = context_current()->cache;
	return CUDA_SUCCESS;
}

CUresult context_get_priorities(int *least, int *greatest)
{
	if (least)
		*least = 0;
	if (greatest)
		*greatest = -5;
	return CUDA_SUCCESS;
}

CUresult context_enable_peer(CUcontext handle, unsigned int flags)
{
	struct context *context = context_current();
	struct context *peer = context_check(handle);
	uint32_t bit;

	if (flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	if (!peer || peer->device == context->device)
		return CUDA_ERROR_INVALID_CONTEXT;
	bit = 1u << peer->device->ordinal;
	if (atomic_fetch_or(&context->peers, bit) & bit)
		return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
	return CUDA_SUCCESS;
}

CUresult context_disable_peer(CUcontext handle)
{
	struct context *peer = context_check(handle);
	uint32_t bit;

	if (!peer)
		return CUDA_ERROR_INVALID_CONTEXT;
	bit = 1u << peer->device->ordinal;
	if (!(atomic_fetch_and(&context_current()->peers, ~bit) & bit))
		return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
	return CUDA_SUCCESS;
}
