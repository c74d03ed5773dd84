/* Event: marks in streams. Each record asks for a new generation; a wait is for the generation
 * that was asked for last when the wait was called. */
#include "fake.h"

static pthread_mutex_t event_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t event_reached = PTHREAD_COND_INITIALIZER;
static _Atomic uint32_t event_waiters;

struct event *event_check(CUevent handle)
{
	return arena_check(&arena_events, handle);
}

void event_put(struct event *event)
{
	if (atomic_fetch_sub(&event->refs, 1) == 1)
		arena_give(&arena_events, event);
}

void event_reach(struct event *event, uint64_t generation, uint64_t now_ns)
{
	atomic_store(&event->done_ns, now_ns);
	if (atomic_load(&event->done) < generation)
		atomic_store(&event->done, generation);
	engine_kick();
	if (atomic_load(&event_waiters)) {
		pthread_mutex_lock(&event_lock);
		pthread_cond_broadcast(&event_reached);
		pthread_mutex_unlock(&event_lock);
	}
}

CUresult event_create(CUevent *ret, unsigned int flags)
{
	struct event *event;

	if (!ret || flags > 7)
		return CUDA_ERROR_INVALID_VALUE;
	if ((flags & CU_EVENT_INTERPROCESS) && !(flags & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_VALUE;
	event = arena_take(&arena_events);
	if (!event)
		return CUDA_ERROR_OUT_OF_MEMORY;
	event->flags = flags;
	event->context = context_current();
	atomic_store(&event->refs, 1);
	*ret = (CUevent)event;
	return CUDA_SUCCESS;
}

CUresult event_destroy(CUevent handle)
{
	struct event *event = event_check(handle);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	atomic_store(&event->object.state, OBJECT_DYING);
	event_put(event);
	return CUDA_SUCCESS;
}

CUresult event_record(CUevent handle, CUstream stream_handle, unsigned int flags)
{
	struct event *event = event_check(handle);
	struct stream *stream = stream_resolve(stream_handle);
	struct op op = { .kind = FAKE_OP_RECORD, .event.event = event };
	CUresult r;

	if (!event || !stream || event->context != stream->context)
		return CUDA_ERROR_INVALID_HANDLE;
	if (flags > CU_EVENT_RECORD_EXTERNAL)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&stream->lock);
	if (stream->capture) {
		capture_record_event(stream, event);
		pthread_mutex_unlock(&stream->lock);
		return CUDA_SUCCESS;
	}
	event->capture = NULL;
	pthread_mutex_unlock(&stream->lock);
	op.event.generation = atomic_fetch_add(&event->recorded, 1) + 1;
	atomic_fetch_add(&event->refs, 1);
	r = stream_submit(stream, &op, false);
	if (r != CUDA_SUCCESS) {
		/* Nobody may wait for it. */
		atomic_fetch_sub(&event->recorded, 1);
		event_put(event);
	}
	return r;
}

CUresult event_query(CUevent handle)
{
	struct event *event = event_check(handle);

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture)
		return CUDA_ERROR_CAPTURED_EVENT;
	if (atomic_load(&event->done) < atomic_load(&event->recorded))
		return CUDA_ERROR_NOT_READY;
	return CUDA_SUCCESS;
}

CUresult event_sync(CUevent handle)
{
	struct event *event = event_check(handle);
	uint64_t generation;

	if (!event)
		return CUDA_ERROR_INVALID_HANDLE;
	if (event->capture)
		return CUDA_ERROR_CAPTURED_EVENT;
	generation = atomic_load(&event->recorded);
	if (atomic_load(&event->done) >= generation)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&event_lock);
	atomic_fetch_add(&event_waiters, 1);
	while (atomic_load(&event->done) < generation)
		pthread_cond_wait(&event_reached, &event_lock);
	atomic_fetch_sub(&event_waiters, 1);
	pthread_mutex_unlock(&event_lock);
	return CUDA_SUCCESS;
}

CUresult event_elapsed(float *ms, CUevent start_handle, CUevent end_handle)
{
	struct event *start = event_check(start_handle), *end = event_check(end_handle);

	if (!ms)
		return CUDA_ERROR_INVALID_VALUE;
	if (!start || !end || ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING))
		return CUDA_ERROR_INVALID_HANDLE;
	if (!atomic_load(&start->recorded) || !atomic_load(&end->recorded))
		return CUDA_ERROR_INVALID_HANDLE;
	if (event_query(start_handle) != CUDA_SUCCESS || event_query(end_handle) != CUDA_SUCCESS)
		return CUDA_ERROR_NOT_READY;
	*ms = (float)((double)((int64_t)atomic_load(&end->done_ns) -
			       (int64_t)atomic_load(&start->done_ns)) /
		      1e6);
	return CUDA_SUCCESS;
}
