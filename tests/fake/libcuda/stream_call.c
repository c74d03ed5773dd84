/* Stream calls: synchronizing, waiting, and questions about a stream. */
#include "fake.h"

CUresult stream_sync(CUstream handle)
{
	struct stream *stream = stream_resolve(handle);
	struct op mark = { .kind = FAKE_OP_MARK };
	CUresult r = CUDA_SUCCESS;
	uint64_t target;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&stream->lock);
	if (stream->capture)
		r = capture_invalidate(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	target = atomic_load(&stream->tail);
	pthread_mutex_unlock(&stream->lock);
	if (r != CUDA_SUCCESS)
		return r;
	/* The legacy stream is after all that was queued in the blocking streams. */
	if (stream->legacy)
		r = stream_submit(stream, &mark, true);
	else
		stream_wait_head(stream, target);
	if (r == CUDA_SUCCESS)
		pool_settle(stream->context->device);
	return r;
}

CUresult stream_query(CUstream handle)
{
	struct stream *stream = stream_resolve(handle);
	CUresult r = CUDA_SUCCESS;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	pthread_mutex_lock(&stream->lock);
	if (stream->capture)
		r = capture_invalidate(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	pthread_mutex_unlock(&stream->lock);
	if (r != CUDA_SUCCESS)
		return r;
	if (stream->legacy && atomic_load(&stream->context->captures))
		return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (!stream_is_idle(stream) ||
	    (stream->legacy && atomic_load(&stream->context->blocking_pending)))
		return CUDA_ERROR_NOT_READY;
	return CUDA_SUCCESS;
}

CUresult stream_wait_event(CUstream handle, CUevent event_handle, unsigned int flags)
{
	struct stream *stream = stream_resolve(handle);
	struct event *event = event_check(event_handle);
	struct op op = { .kind = FAKE_OP_WAIT, .event.event = event };
	CUresult r;

	if (!stream || !event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags > CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&stream->lock);
	if (stream->capture || event->capture) {
		r = capture_join(stream, event);
		pthread_mutex_unlock(&stream->lock);
		return r;
	}
	pthread_mutex_unlock(&stream->lock);
	op.event.generation = atomic_load(&event->recorded);
	atomic_fetch_add(&event->refs, 1);
	r = stream_submit(stream, &op, false);
	if (r != CUDA_SUCCESS)
		event_put(event);
	return r;
}

CUresult stream_add_callback(CUstream handle, CUstreamCallback callback, void *user,
			     unsigned int flags)
{
	struct stream *stream = stream_resolve(handle);
	struct op op = {
		.kind = FAKE_OP_CALLBACK,
		.host = { .callback = callback, .user = user, .handle = handle },
	};

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!callback || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	return stream_submit(stream, &op, false);
}

CUresult stream_get_priority(CUstream handle, int *priority)
{
	struct stream *stream = stream_resolve(handle);

	if (!priority)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*priority = stream->priority;
	return CUDA_SUCCESS;
}

CUresult stream_get_flags(CUstream handle, unsigned int *flags)
{
	struct stream *stream = stream_resolve(handle);

	if (!flags)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*flags = stream->flags;
	return CUDA_SUCCESS;
}

CUresult stream_get_id(CUstream handle, unsigned long long *id)
{
	struct stream *stream = stream_resolve(handle);

	if (!id)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*id = stream->object.id;
	return CUDA_SUCCESS;
}

CUresult stream_get_device(CUstream handle, CUdevice *device)
{
	struct stream *stream = stream_resolve(handle);

	if (!device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*device = stream->context->device->ordinal;
	return CUDA_SUCCESS;
}

CUresult stream_get_context(CUstream handle, CUcontext *context)
{
	struct stream *stream = stream_resolve(handle);

	if (!context)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	*context = (CUcontext)stream->context;
	return CUDA_SUCCESS;
}
