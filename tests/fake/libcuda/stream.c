/* Stream: queues of operations that run in order.
 * An operation is in exactly one place: captured in a graph, done at once by the caller because
 * nothing is before it and it takes no time, or in the ring for the engine. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

#define STAGING_MAX (64 << 10) /* pageable bytes that an asynchronous copy takes along */

static pthread_key_t stream_thread_key;
static pthread_once_t stream_thread_once = PTHREAD_ONCE_INIT;

bool stream_is_blocking(const struct stream *stream)
{
	return !stream->legacy && !(stream->flags & CU_STREAM_NON_BLOCKING);
}

bool stream_is_idle(const struct stream *stream)
{
	return atomic_load_explicit(&stream->head, memory_order_acquire) ==
	       atomic_load_explicit(&stream->tail, memory_order_acquire);
}

CUresult stream_new(struct stream **ret, struct context *context, unsigned int flags, int priority,
		    bool legacy)
{
	struct stream *stream = arena_take(&arena_streams);

	if (!stream)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->context = context;
	stream->flags = flags;
	stream->priority = MIN(MAX(priority, -5), 0);
	stream->legacy = legacy;
	pthread_mutex_init(&stream->lock, NULL);
	pthread_cond_init(&stream->moved, NULL);
	pthread_mutex_lock(&context->lock);
	stream->next = context->streams;
	context->streams = stream;
	pthread_mutex_unlock(&context->lock);
	HOOK(stream_created, (CUstream)stream, (uint32_t)stream->object.id,
	     (uint32_t)context->object.id);
	*ret = stream;
	return CUDA_SUCCESS;
}

static void stream_release(struct stream *stream)
{
	pthread_cond_destroy(&stream->moved);
	pthread_mutex_destroy(&stream->lock);
	free(stream->ring);
	arena_give(&arena_streams, stream);
}

/* The stream is idle and the engine does not have it. A wait may still have it pinned. */
void stream_delete(struct stream *stream)
{
	struct context *context = stream->context;
	struct stream **link;
	bool pinned;

	HOOK(stream_destroyed, (CUstream)stream, (uint32_t)stream->object.id,
	     (uint32_t)context->object.id);
	pthread_mutex_lock(&context->lock);
	for (link = &context->streams; *link != stream; link = &(*link)->next)
		;
	*link = stream->next;
	atomic_store(&stream->object.state, OBJECT_DYING);
	stream->unlinked = true;
	pthread_cond_broadcast(&context->stream_gone);
	pinned = stream->pins > 0;
	pthread_mutex_unlock(&context->lock);
	if (!pinned)
		stream_release(stream);
}

void stream_unpin(struct stream *stream)
{
	struct context *context = stream->context;
	bool last;

	pthread_mutex_lock(&context->lock);
	last = --stream->pins == 0 && stream->unlinked;
	pthread_mutex_unlock(&context->lock);
	if (last)
		stream_release(stream);
}

static void stream_thread_exit(void *unused)
{
	(void)unused;
	for (size_t i = 0; i < ARRAY_SIZE(thread.streams); i++) {
		struct stream *stream = thread.streams[i].stream;

		/* With its context the stream is gone already. */
		if (stream && object_live(&stream->object) &&
		    stream->object.id == thread.streams[i].stream_id)
			stream_destroy((CUstream)stream);
	}
}

static void stream_thread_setup(void)
{
	pthread_key_create(&stream_thread_key, stream_thread_exit);
}

static struct stream *stream_of_thread(struct context *context)
{
	size_t slot = ARRAY_SIZE(thread.streams);
	struct stream *stream;

	for (size_t i = 0; i < ARRAY_SIZE(thread.streams); i++) {
		stream = thread.streams[i].stream;
		if (!stream || !object_live(&stream->object) ||
		    stream->object.id != thread.streams[i].stream_id)
			slot = MIN(slot, i);
		else if (stream->context == context)
			return stream;
	}
	if (slot == ARRAY_SIZE(thread.streams) ||
	    stream_new(&stream, context, 0, 0, false) != CUDA_SUCCESS)
		return NULL;
	pthread_once(&stream_thread_once, stream_thread_setup);
	pthread_setspecific(stream_thread_key, &thread);
	thread.streams[slot].stream = stream;
	thread.streams[slot].stream_id = stream->object.id;
	return stream;
}

struct stream *stream_resolve(CUstream handle)
{
	if (likely((uintptr_t)handle > 2))
		return arena_check(&arena_streams, handle);
	if (handle == CU_STREAM_PER_THREAD)
		return stream_of_thread(context_current());
	return context_current()->legacy;
}

static void stream_waited(void *data)
{
	struct stream *stream = data;

	stream->waiters--;
	pthread_mutex_unlock(&stream->lock);
}

/* A thread that is cancelled here leaves no lock behind. */
void stream_wait_head(struct stream *stream, uint64_t target)
{
	if (atomic_load_explicit(&stream->head, memory_order_acquire) >= target)
		return;
	pthread_mutex_lock(&stream->lock);
	stream->waiters++;
	pthread_cleanup_push(stream_waited, stream);
	while (atomic_load(&stream->head) < target)
		pthread_cond_wait(&stream->moved, &stream->lock);
	pthread_cleanup_pop(1);
}

/* May the operation be done here and now? With the stream's lock held. */
static bool stream_runs_inline(const struct stream *stream, const struct op *op)
{
	struct context *context = stream->context;

	if (!stream_is_idle(stream) || op->duration_ns)
		return false;
	if (op->kind == FAKE_OP_HOST || op->kind == FAKE_OP_CALLBACK)
		return false;
	if (op->kind == FAKE_OP_GRAPH && exec_has_host(op->graph.exec))
		return false;
	if (op->kind == FAKE_OP_WAIT && atomic_load(&op->event.event->done) < op->event.generation)
		return false;
	if (stream->legacy)
		return atomic_load(&context->blocking_pending) == 0;
	return !stream_is_blocking(stream) || stream_is_idle(context->legacy);
}

/* The program may use its pageable memory again as soon as the call returns: small sources are
 * taken along, for anything else the call has to wait. */
static bool stream_must_wait(struct op *op)
{
	struct copy *c = &op->copy.shape;
	bool linear = c->height == 1 && c->depth == 1;

	if (op->kind != FAKE_OP_COPY)
		return false;
	if (op->copy_kind != FAKE_COPY_HTOD && op->copy_kind != FAKE_COPY_DTOH &&
	    op->copy_kind != FAKE_COPY_HTOH)
		return false;
	if (op->copy_kind != FAKE_COPY_HTOD)
		return !host_is_pinned((void *)(uintptr_t)c->dst, c->width);
	if (host_is_pinned((void *)(uintptr_t)c->src, c->width))
		return false;
	if (!linear || c->width > STAGING_MAX)
		return true;
	op->copy.staging = malloc(c->width);
	if (!op->copy.staging)
		return true;
	memcpy(op->copy.staging, (void *)(uintptr_t)c->src, c->width);
	c->src = (CUdeviceptr)(uintptr_t)op->copy.staging;
	return false;
}

/* With the stream's lock held, which it gives up while the ring is full. */
static CUresult stream_push(struct stream *stream, const struct op *op, uint64_t *target)
{
	struct context *context = stream->context;
	uint64_t tail;

	if (!stream->ring)
		stream->ring = malloc(RING_OPS * sizeof(*stream->ring));
	if (!stream->ring)
		return CUDA_ERROR_OUT_OF_MEMORY;
	stream->waiters++;
	while (atomic_load(&stream->tail) - atomic_load(&stream->head) == RING_OPS)
		pthread_cond_wait(&stream->moved, &stream->lock);
	stream->waiters--;
	tail = atomic_load(&stream->tail);
	stream->ring[tail % RING_OPS] = *op;
	stream->ring[tail % RING_OPS].order = atomic_fetch_add(&context->order, 1);
	atomic_fetch_add(&context->pending, 1);
	if (stream_is_blocking(stream))
		atomic_fetch_add(&context->blocking_pending, 1);
	atomic_store_explicit(&stream->tail, tail + 1, memory_order_release);
	*target = tail + 1;
	if (!stream->in_engine)
		engine_add(stream);
	return CUDA_SUCCESS;
}

static CUresult stream_submit_now(struct stream *stream, struct op *op, bool wait)
{
	uint64_t target;
	CUresult r;

	op->correlation = thread.correlation;
	op->duration_ns = op_duration(op);
	if (driver.time_scale > 0 || hooks_get()) {
		struct fake_op_info info;

		op->queued_ns = driver_now();
		if (hooks_get()) {
			op_describe(&info, op, stream);
			HOOK(op_queued, &info);
		}
	} else {
		op->queued_ns = 0;
	}
	if (stream_runs_inline(stream, op)) {
		engine_run_inline(stream, op);
		pthread_mutex_unlock(&stream->lock);
		return CUDA_SUCCESS;
	}
	if (!wait && stream_must_wait(op))
		wait = true;
	r = stream_push(stream, op, &target);
	pthread_mutex_unlock(&stream->lock);
	if (r == CUDA_SUCCESS && wait)
		stream_wait_head(stream, target);
	return r;
}

CUresult stream_submit(struct stream *stream, struct op *op, bool wait)
{
	CUresult r;

	pthread_mutex_lock(&stream->lock);
	if (unlikely(stream->capture)) {
		if (wait)
			r = capture_invalidate(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
		else
			r = capture_add(stream, op);
		pthread_mutex_unlock(&stream->lock);
		return r;
	}
	if (unlikely(stream->legacy && atomic_load(&stream->context->captures))) {
		pthread_mutex_unlock(&stream->lock);
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	}
	return stream_submit_now(stream, op, wait);
}

CUresult stream_create(CUstream *ret, unsigned int flags, int priority)
{
	struct stream *stream;
	CUresult r;

	if (!ret || (flags & ~(unsigned int)CU_STREAM_NON_BLOCKING))
		return CUDA_ERROR_INVALID_VALUE;
	r = stream_new(&stream, context_current(), flags, priority, false);
	if (r == CUDA_SUCCESS)
		*ret = (CUstream)stream;
	return r;
}

void stream_retire(struct stream *stream)
{
	bool idle;

	pthread_mutex_lock(&stream->lock);
	if (stream->capture)
		capture_invalidate(stream, CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
	atomic_store(&stream->object.state, OBJECT_DYING);
	idle = !stream->in_engine;
	pthread_mutex_unlock(&stream->lock);
	if (idle)
		stream_delete(stream);
}

CUresult stream_destroy(CUstream handle)
{
	struct stream *stream = arena_check(&arena_streams, handle);

	if (!stream || stream->legacy)
		return CUDA_ERROR_INVALID_HANDLE;
	stream_retire(stream);
	return CUDA_SUCCESS;
}
