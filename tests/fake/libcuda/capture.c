/* Capture: turns the operations of streams into nodes of a graph.
 * A capture starts in one stream; others join it by waiting for an event that was recorded in
 * it, and must have been joined back when it ends. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

struct capture {
	uint64_t id;
	CUstreamCaptureMode mode;
	CUstreamCaptureStatus status;
	pthread_t thread;
	struct graph *graph;
	struct context *context;
	struct stream *origin;
	struct stream *members; /* by capture_next, the origin too */
	struct capture *next;
};

static pthread_mutex_t capture_lock = PTHREAD_MUTEX_INITIALIZER;
static struct capture *captures;
static _Atomic uint32_t captures_count;
static uint64_t captures_next_id;

static void capture_set_last(struct stream *stream, struct node *const *nodes, unsigned int count)
{
	memmove(stream->capture_last, nodes, count * sizeof(*nodes));
	stream->capture_last_count = count;
}

/* With capture_lock held. */
static void capture_member(struct capture *capture, struct stream *stream)
{
	stream->capture = capture;
	stream->capture_next = capture->members;
	stream->capture_last_count = 0;
	capture->members = stream;
	atomic_fetch_add(&stream->context->captures, stream_is_blocking(stream));
}

static CUgraphNodeType capture_type(const struct op *op)
{
	switch (op->kind) {
	case FAKE_OP_KERNEL:
		return CU_GRAPH_NODE_TYPE_KERNEL;
	case FAKE_OP_COPY:
		return CU_GRAPH_NODE_TYPE_MEMCPY;
	case FAKE_OP_SET:
		return CU_GRAPH_NODE_TYPE_MEMSET;
	case FAKE_OP_HOST:
		return CU_GRAPH_NODE_TYPE_HOST;
	default:
		return CU_GRAPH_NODE_TYPE_EMPTY;
	}
}

static CUresult capture_append(struct stream *stream, CUgraphNodeType type, const struct op *op)
{
	struct node *node;
	CUresult r = graph_append(&node, stream->capture->graph, type, op, stream->capture_last,
				  stream->capture_last_count);

	if (r == CUDA_SUCCESS)
		capture_set_last(stream, &node, 1);
	return r;
}

CUresult capture_invalidate(struct stream *stream, CUresult error)
{
	pthread_mutex_lock(&capture_lock);
	if (stream->capture)
		stream->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
	pthread_mutex_unlock(&capture_lock);
	return error;
}

CUresult capture_add(struct stream *stream, const struct op *op)
{
	CUresult r;

	if (op->kind == FAKE_OP_FREE || op->kind == FAKE_OP_CALLBACK || op->kind == FAKE_OP_GRAPH)
		return capture_invalidate(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
	pthread_mutex_lock(&capture_lock);
	if (stream->capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else
		r = capture_append(stream, capture_type(op), op);
	pthread_mutex_unlock(&capture_lock);
	if (r == CUDA_SUCCESS)
		books_count(0);
	return r;
}

void capture_record_event(struct stream *stream, struct event *event)
{
	pthread_mutex_lock(&capture_lock);
	atomic_store(&event->capture, stream->capture);
	event->capture_id = stream->capture->id;
	event->capture_last_count = stream->capture_last_count;
	memcpy(event->capture_last, stream->capture_last, sizeof(event->capture_last));
	pthread_mutex_unlock(&capture_lock);
}

/* With capture_lock held: the stream's next node depends on the event's too. */
static CUresult capture_merge(struct stream *stream, const struct event *event)
{
	for (unsigned int i = 0; i < event->capture_last_count; i++) {
		bool known = false;
		CUresult r;

		for (unsigned int j = 0; j < stream->capture_last_count; j++)
			known |= stream->capture_last[j] == event->capture_last[i];
		if (known)
			continue;
		if (stream->capture_last_count == CAPTURE_LAST_MAX) {
			r = capture_append(stream, CU_GRAPH_NODE_TYPE_EMPTY, NULL);
			if (r != CUDA_SUCCESS)
				return r;
		}
		stream->capture_last[stream->capture_last_count++] = event->capture_last[i];
	}
	return CUDA_SUCCESS;
}

static struct capture *capture_find(uint64_t id)
{
	struct capture *c;

	for (c = captures; c; c = c->next)
		if (c->id == id)
			break;
	return c;
}

CUresult capture_join(struct stream *stream, struct event *event)
{
	struct capture *capture = NULL;
	CUresult r = CUDA_SUCCESS;

	pthread_mutex_lock(&capture_lock);
	if (atomic_load(&event->capture))
		capture = capture_find(event->capture_id);
	if (!capture && !atomic_load(&event->capture) && !atomic_load(&event->recorded)) {
		/* Nothing is waited for. */
	} else if (!capture && stream->capture) {
		stream->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
		r = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
	} else if (!capture) {
		r = CUDA_ERROR_INVALID_VALUE; /* its capture has ended */
	} else if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE) {
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	} else if (stream->legacy) {
		r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	} else if (stream->capture && stream->capture != capture) {
		capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
		stream->capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
		r = CUDA_ERROR_STREAM_CAPTURE_MERGE;
	} else {
		if (!stream->capture)
			capture_member(capture, stream);
		r = capture_merge(stream, event);
	}
	pthread_mutex_unlock(&capture_lock);
	return r;
}

CUresult capture_forbids(void)
{
	CUresult r = CUDA_SUCCESS;

	if (likely(atomic_load(&captures_count) == 0) ||
	    thread.capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_SUCCESS;
	pthread_mutex_lock(&capture_lock);
	for (struct capture *c = captures; c; c = c->next) {
		bool mine = pthread_equal(c->thread, pthread_self());

		if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED)
			continue;
		if (mine || (c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
			     thread.capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL)) {
			c->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
			r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
		}
	}
	pthread_mutex_unlock(&capture_lock);
	return r;
}

CUresult capture_begin(CUstream handle, CUstreamCaptureMode mode)
{
	struct stream *stream = stream_resolve(handle);
	struct capture *capture;
	CUresult r = CUDA_SUCCESS;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if ((unsigned int)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	if (stream->legacy)
		return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
	capture = calloc(1, sizeof(*capture));
	if (!capture)
		return CUDA_ERROR_OUT_OF_MEMORY;
	capture->mode = mode;
	capture->status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	capture->thread = pthread_self();
	capture->origin = stream;
	capture->graph = graph_new();
	pthread_mutex_lock(&stream->lock);
	pthread_mutex_lock(&capture_lock);
	if (stream->capture || !capture->graph) {
		r = capture->graph ? CUDA_ERROR_ILLEGAL_STATE : CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		capture->id = ++captures_next_id;
		capture->next = captures;
		captures = capture;
		atomic_fetch_add(&captures_count, 1);
		capture_member(capture, stream);
	}
	pthread_mutex_unlock(&capture_lock);
	pthread_mutex_unlock(&stream->lock);
	if (r != CUDA_SUCCESS) {
		if (capture->graph)
			graph_delete(capture->graph);
		free(capture);
	}
	return r;
}

static void capture_mark(struct node *node)
{
	if (node->marked)
		return;
	node->marked = true;
	for (size_t i = 0; i < node->deps_count; i++)
		capture_mark(node->deps[i]);
}

/* With capture_lock held: is all the members' work before the origin's last? */
static bool capture_joined(const struct capture *capture)
{
	bool joined = true;

	for (unsigned int i = 0; i < capture->origin->capture_last_count; i++)
		capture_mark(capture->origin->capture_last[i]);
	for (struct stream *s = capture->members; s; s = s->capture_next)
		for (unsigned int i = 0; i < s->capture_last_count; i++)
			joined &= s->capture_last[i]->marked;
	return joined;
}

/* With capture_lock held. */
static CUresult capture_may_end(struct capture *capture, const struct stream *stream)
{
	if (!capture)
		return CUDA_ERROR_ILLEGAL_STATE;
	if (capture->origin != stream) {
		capture->status = CU_STREAM_CAPTURE_STATUS_INVALIDATED;
		return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
	}
	return CUDA_SUCCESS;
}

/* With capture_lock held; nobody can find the capture any more. */
static void capture_unlink(struct capture *capture)
{
	struct capture **link;

	for (link = &captures; *link != capture; link = &(*link)->next)
		;
	*link = capture->next;
	atomic_fetch_sub(&captures_count, 1);
}

CUresult capture_end(CUstream handle, CUgraph *ret)
{
	struct stream *stream = stream_resolve(handle), *member, *next;
	struct capture *capture;
	CUresult r;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!ret)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&stream->lock);
	pthread_mutex_lock(&capture_lock);
	capture = stream->capture;
	r = capture_may_end(capture, stream);
	if (r == CUDA_SUCCESS)
		capture_unlink(capture);
	pthread_mutex_unlock(&capture_lock);
	pthread_mutex_unlock(&stream->lock);
	if (r != CUDA_SUCCESS)
		return r;
	/* Another thread may not end it, but it is over all the same. */
	if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
	    !pthread_equal(capture->thread, pthread_self()))
		r = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
	else if (capture->status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	else if (!capture_joined(capture))
		r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
	for (member = capture->members; member; member = next) {
		pthread_mutex_lock(&member->lock);
		next = member->capture_next;
		member->capture = NULL;
		atomic_fetch_sub(&member->context->captures, stream_is_blocking(member));
		pthread_mutex_unlock(&member->lock);
	}
	*ret = r == CUDA_SUCCESS ? (CUgraph)capture->graph : NULL;
	if (r != CUDA_SUCCESS)
		graph_delete(capture->graph);
	free(capture);
	return r;
}

CUresult capture_info(CUstream handle, CUstreamCaptureStatus *status, cuuint64_t *id,
		      CUgraph *graph, const CUgraphNode **dependencies, size_t *count)
{
	struct stream *stream = stream_resolve(handle);
	CUresult r = CUDA_SUCCESS;

	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!status)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&stream->lock);
	pthread_mutex_lock(&capture_lock);
	*status = CU_STREAM_CAPTURE_STATUS_NONE;
	if (stream->legacy && atomic_load(&stream->context->captures))
		r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
	if (stream->capture) {
		*status = stream->capture->status;
		if (id)
			*id = stream->capture->id;
		if (graph)
			*graph = (CUgraph)stream->capture->graph;
		if (dependencies)
			*dependencies = (const CUgraphNode *)stream->capture_last;
		if (count)
			*count = stream->capture_last_count;
	}
	pthread_mutex_unlock(&capture_lock);
	pthread_mutex_unlock(&stream->lock);
	return r;
}

CUresult capture_status(CUstream handle, CUstreamCaptureStatus *status)
{
	return capture_info(handle, status, NULL, NULL, NULL, NULL);
}

CUresult capture_exchange_mode(CUstreamCaptureMode *mode)
{
	CUstreamCaptureMode old = thread.capture_mode;

	if (!mode || (unsigned int)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
		return CUDA_ERROR_INVALID_VALUE;
	thread.capture_mode = *mode;
	*mode = old;
	return CUDA_SUCCESS;
}
