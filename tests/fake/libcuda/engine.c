/* Engine: the thread that plays all devices, and the one that runs host functions.
 * Times are those of the plan: an operation starts when its stream and what it waits for allow,
 * and ends its duration later, however late this thread wakes up to say so. */
#include "fake.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#define LAUNCH_LATENCY_NS 2000

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool running;
	struct stream *inbox; /* streams that have work and are not in the list yet */
	uint64_t kicks;
	_Atomic uint32_t streams; /* in the inbox or the list */
	struct stream *list;	  /* the engine thread's own */
} engine = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct {
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct stream *first, *last; /* whose operation at the head is for the host */
} host = { .lock = PTHREAD_MUTEX_INITIALIZER, .wake = PTHREAD_COND_INITIALIZER };

/* When the streams that this one waits for by the rules of the legacy stream were done. */
static uint64_t engine_after(const struct stream *stream)
{
	struct context *context = stream->context;
	uint64_t after = 0;

	if (stream_is_blocking(stream))
		return atomic_load(&context->legacy->last_end_ns);
	if (!stream->legacy)
		return 0;
	pthread_mutex_lock(&context->lock);
	for (struct stream *s = context->streams; s; s = s->next)
		if (stream_is_blocking(s))
			after = MAX(after, atomic_load(&s->last_end_ns));
	pthread_mutex_unlock(&context->lock);
	return after;
}

/* Has the stream an operation from before order? */
static bool engine_older(const struct stream *stream, uint64_t order)
{
	return !stream_is_idle(stream) &&
	       stream->ring[atomic_load(&stream->head) % RING_OPS].order < order;
}

static bool engine_ready(struct stream *stream, const struct op *op)
{
	struct context *context = stream->context;
	bool older = false;

	if (op->kind == FAKE_OP_WAIT && atomic_load(&op->event.event->done) < op->event.generation)
		return false;
	if (stream_is_blocking(stream))
		return !engine_older(context->legacy, op->order);
	if (!stream->legacy)
		return true;
	pthread_mutex_lock(&context->lock);
	for (struct stream *s = context->streams; s && !older; s = s->next)
		older = stream_is_blocking(s) && engine_older(s, op->order);
	pthread_mutex_unlock(&context->lock);
	return !older;
}

static void engine_tell(const struct stream *stream, const struct op *op, bool end)
{
	struct fake_op_info info;

	if (likely(!hooks_get()))
		return;
	op_describe(&info, op, stream);
	info.start_ns = stream->start_ns;
	info.end_ns = stream->end_ns;
	if (end)
		HOOK(op_end, &info);
	else
		HOOK(op_start, &info);
}

static bool engine_needs_host(const struct op *op)
{
	return op->kind == FAKE_OP_HOST || op->kind == FAKE_OP_CALLBACK ||
	       (op->kind == FAKE_OP_GRAPH && exec_has_host(op->graph.exec));
}

static void engine_begin(struct stream *stream, const struct op *op)
{
	uint64_t start =
		op->queued_ns ? op->queued_ns + op_scaled(LAUNCH_LATENCY_NS) : driver_now();

	start = MAX(start, atomic_load(&stream->last_end_ns));
	start = MAX(start, engine_after(stream));
	if (op->kind == FAKE_OP_WAIT)
		start = MAX(start, atomic_load(&op->event.event->done_ns));
	stream->start_ns = start;
	stream->end_ns = start + op->duration_ns;
	stream->started = true;
	engine_tell(stream, op, false);
	if (!engine_needs_host(op))
		return;
	atomic_store(&stream->host_state, HOST_RUNNING);
	stream->host_next = NULL;
	pthread_mutex_lock(&host.lock);
	if (host.last)
		host.last->host_next = stream;
	else
		host.first = stream;
	host.last = stream;
	pthread_cond_signal(&host.wake);
	pthread_mutex_unlock(&host.lock);
}

static void engine_finish(struct stream *stream, struct op *op)
{
	struct context *context = stream->context;

	if (op->kind == FAKE_OP_GRAPH) {
		if (atomic_load(&stream->host_state) == HOST_NONE)
			exec_run(op->graph.exec, op, stream, stream->start_ns);
		exec_put(op->graph.exec);
	} else {
		op_apply(op, stream->end_ns);
	}
	atomic_store(&stream->host_state, HOST_NONE);
	engine_tell(stream, op, true);
	stream->started = false;
	atomic_store(&stream->last_end_ns, stream->end_ns);
	if (stream_is_blocking(stream))
		atomic_fetch_sub(&context->blocking_pending, 1);
	atomic_fetch_sub(&context->pending, 1);
	pthread_mutex_lock(&stream->lock);
	atomic_fetch_add(&stream->head, 1);
	if (stream->waiters)
		pthread_cond_broadcast(&stream->moved);
	pthread_mutex_unlock(&stream->lock);
}

/* Goes on with a stream as far as it can; next is when there is more to do. */
static bool engine_advance(struct stream *stream, uint64_t now, uint64_t *next)
{
	bool progressed = false;

	while (!stream_is_idle(stream)) {
		struct op *op = &stream->ring[atomic_load(&stream->head) % RING_OPS];

		if (!stream->started) {
			if (!engine_ready(stream, op))
				break;
			engine_begin(stream, op);
			progressed = true;
		}
		if (atomic_load(&stream->host_state) == HOST_RUNNING)
			break;
		if (stream->end_ns > now) {
			*next = MIN(*next, stream->end_ns);
			break;
		}
		engine_finish(stream, op);
		progressed = true;
	}
	return progressed;
}

/* Takes an idle stream out of the list. False: it has got work again. */
static bool engine_drop(struct stream *stream)
{
	bool dying;

	pthread_mutex_lock(&stream->lock);
	if (!stream_is_idle(stream)) {
		pthread_mutex_unlock(&stream->lock);
		return false;
	}
	stream->in_engine = false;
	atomic_fetch_sub(&engine.streams, 1);
	dying = !object_live(&stream->object);
	pthread_mutex_unlock(&stream->lock);
	if (dying)
		stream_delete(stream);
	return true;
}

static uint64_t engine_pass(void)
{
	uint64_t next;
	bool progressed;

	do {
		uint64_t now = driver_now();
		struct stream **link = &engine.list;

		next = NEVER;
		progressed = false;
		while (*link) {
			struct stream *stream = *link, *after = stream->engine_next;

			progressed |= engine_advance(stream, now, &next);
			if (stream_is_idle(stream) && engine_drop(stream))
				*link = after;
			else
				link = &stream->engine_next;
		}
	} while (progressed);
	return next;
}

static void engine_collect(void)
{
	while (engine.inbox) {
		struct stream *stream = engine.inbox;

		engine.inbox = stream->engine_next;
		stream->engine_next = engine.list;
		engine.list = stream;
	}
}

static void *engine_main(void *unused)
{
	uint64_t seen, next;

	(void)unused;
	prctl(PR_SET_TIMERSLACK, 1);
	pthread_mutex_lock(&engine.lock);
	for (;;) {
		engine_collect();
		seen = engine.kicks;
		pthread_mutex_unlock(&engine.lock);
		next = engine_pass();
		pthread_mutex_lock(&engine.lock);
		while (engine.kicks == seen && !engine.inbox && driver_now() < next) {
			struct timespec until = { (time_t)(next / 1000000000),
						  (long)(next % 1000000000) };

			if (next == NEVER)
				pthread_cond_wait(&engine.wake, &engine.lock);
			else
				pthread_cond_timedwait(&engine.wake, &engine.lock, &until);
		}
	}
	return NULL;
}

static void host_run(struct stream *stream)
{
	struct op *op = &stream->ring[atomic_load(&stream->head) % RING_OPS];

	stream->start_ns = driver_now();
	thread.in_callback = true;
	if (op->kind == FAKE_OP_HOST)
		op->host.fn(op->host.user);
	else if (op->kind == FAKE_OP_CALLBACK)
		op->host.callback(op->host.handle, CUDA_SUCCESS, op->host.user);
	else
		exec_run(op->graph.exec, op, stream, stream->start_ns);
	thread.in_callback = false;
	stream->end_ns = driver_now();
	atomic_store(&stream->host_state, HOST_DONE);
	engine_kick();
}

static void *host_main(void *unused)
{
	struct stream *stream;

	(void)unused;
	for (;;) {
		pthread_mutex_lock(&host.lock);
		while (!host.first)
			pthread_cond_wait(&host.wake, &host.lock);
		stream = host.first;
		host.first = stream->host_next;
		if (!host.first)
			host.last = NULL;
		pthread_mutex_unlock(&host.lock);
		host_run(stream);
	}
	return NULL;
}

/* With the engine's lock held. Programs see our threads block all signals. */
static void engine_start(void)
{
	void *(*const mains[])(void *) = { engine_main, host_main };
	pthread_condattr_t monotonic;
	sigset_t all, old;
	pthread_t id;

	engine.running = true;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&engine.wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	for (size_t i = 0; i < ARRAY_SIZE(mains); i++) {
		if (pthread_create(&id, NULL, mains[i], NULL) != 0)
			abort();
		pthread_detach(id);
	}
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void engine_add(struct stream *stream)
{
	stream->in_engine = true;
	atomic_fetch_add(&engine.streams, 1);
	pthread_mutex_lock(&engine.lock);
	if (!engine.running)
		engine_start();
	stream->engine_next = engine.inbox;
	engine.inbox = stream;
	pthread_cond_signal(&engine.wake);
	pthread_mutex_unlock(&engine.lock);
}

void engine_kick(void)
{
	if (atomic_load(&engine.streams) == 0)
		return;
	pthread_mutex_lock(&engine.lock);
	engine.kicks++;
	pthread_cond_signal(&engine.wake);
	pthread_mutex_unlock(&engine.lock);
}

void engine_run_inline(struct stream *stream, struct op *op)
{
	bool stamped = op->kind == FAKE_OP_RECORD || unlikely(hooks_get());

	if (stamped) {
		stream->start_ns = MAX(driver_now(), atomic_load(&stream->last_end_ns));
		stream->end_ns = stream->start_ns;
		engine_tell(stream, op, false);
	}
	if (op->kind == FAKE_OP_GRAPH) {
		exec_run(op->graph.exec, op, stream, stream->start_ns);
		exec_put(op->graph.exec);
	} else {
		op_apply(op, stream->end_ns);
	}
	if (!stamped)
		return;
	if (op->kind != FAKE_OP_RECORD)
		stream->end_ns = MAX(driver_now(), stream->end_ns);
	engine_tell(stream, op, true);
	atomic_store(&stream->last_end_ns, stream->end_ns);
}
