/* Job: a request that is answered by a thread of the uv pool. The worker puts framed replies in the
 * outbox and the loop takes them out; `pending` counts what the reader has not taken yet, in the
 * outbox and in libuv, and the worker waits while it is above LIMIT_CLIENT_QUEUE. A job is waiting,
 * running, or done with writes in progress, and freed after the last of them. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/store/query/query.h"
#include "daemon/api/internal.h"
#include "daemon/limits.h"

#define RECHECK_MS    2 /* how long until it is asked again */
#define WATCHED_BYTES 128

struct message {
	struct list link;
	uint8_t *data;
	size_t size;
};

struct job {
	struct list link;	 /* in api->waiting or api->running */
	struct list client_link; /* in client->jobs */
	struct api *api;
	struct client *client; /* NULL: gone */
	uid_t uid;
	Tracesmith__V1__Request *request;
	uv_work_t work;
	uint64_t asked_ns;
	uint64_t waits_ns;	     /* since then, for more than its data to be read */
	char watched[WATCHED_BYTES]; /* the only traced processes, "": all */
	uint32_t writes;
	bool running, done;
	bool held; /* asks what is held in memory */

	/* Of the loop and the worker, under the lock. */
	uv_mutex_t lock;
	uv_cond_t moved;
	struct list outbox; /* struct message */
	size_t pending;
	bool cancelled;
	bool ended; /* the last reply is in the outbox or was */
};

static void job_free(struct job *job)
{
	tracesmith__v1__request__free_unpacked(job->request, NULL);
	uv_mutex_destroy(&job->lock);
	uv_cond_destroy(&job->moved);
	free(job);
}

static void free_if_done(struct job *job)
{
	if (job->done && job->writes == 0)
		job_free(job);
}

void job_cancel(struct job *job)
{
	uv_mutex_lock(&job->lock);
	job->cancelled = true;
	uv_cond_signal(&job->moved);
	uv_mutex_unlock(&job->lock);
}

static void job_detach(struct job *job)
{
	struct client *client = job->client;
	struct api *api = job->api;

	list_remove(&job->client_link);
	client->job_count--;
	client->running_count -= job->running;
	job->client = NULL;
	job_cancel(job);
	if (job->running || job->done)
		return;
	list_remove(&job->link);
	api->waiting_count--;
	job_free(job);
}

void jobs_detach(struct client *client)
{
	struct job *job;

	list_for_each(job, &client->jobs, client_link)
		job_detach(job);
}

struct job *job_find(struct client *client, uint64_t id)
{
	struct job *job;

	list_for_each(job, &client->jobs, client_link)
		if (job->request->id == id)
			return job;
	return NULL;
}

void job_written(struct job *job, size_t size)
{
	uv_mutex_lock(&job->lock);
	job->pending -= size;
	uv_cond_signal(&job->moved);
	uv_mutex_unlock(&job->lock);
	job->writes--;
	free_if_done(job);
}

static void lock_held(struct job *job, bool locked)
{
	if (job->held)
		job->api->callbacks.held_lock(job->api->data, locked);
}

/* Once it is locked, holding neither starts nor ends. */
static void lock_if_held(struct job *job)
{
	const struct api_callbacks *call = &job->api->callbacks;

	job->held = call->is_held && call->is_held(job->api->data);
	if (!job->held)
		return;
	lock_held(job, true);
	if (call->is_held(job->api->data))
		return;
	lock_held(job, false);
	job->held = false;
}

static bool is_full(struct job *job)
{
	bool full;

	uv_mutex_lock(&job->lock);
	full = job->pending > LIMIT_CLIENT_QUEUE && !job->cancelled;
	uv_mutex_unlock(&job->lock);
	return full;
}

/* The store does not wait with it. */
static void wait_for_reader(struct job *job)
{
	lock_held(job, false);
	uv_mutex_lock(&job->lock);
	while (job->pending > LIMIT_CLIENT_QUEUE && !job->cancelled)
		uv_cond_wait(&job->moved, &job->lock);
	uv_mutex_unlock(&job->lock);
	lock_held(job, true);
}

static int put(struct job *job, struct message *message, bool last)
{
	int r = 0;

	if (is_full(job))
		wait_for_reader(job);
	uv_mutex_lock(&job->lock);
	if (job->cancelled) {
		r = -ECANCELED;
	} else {
		list_append(&job->outbox, &message->link);
		job->pending += message->size;
		job->ended = last;
	}
	uv_mutex_unlock(&job->lock);
	return r;
}

/* On the worker. */
static int on_send(void *data, const Tracesmith__V1__Reply *reply)
{
	struct job *job = data;
	_cleanup_(freep) uint8_t *bytes = NULL;
	_cleanup_(freep) struct message *message = calloc(1, sizeof(*message));
	int r;

	if (!message)
		return -ENOMEM;
	r = ts_frame_pack(&reply->base, TS_FRAME_REPLY_MAX, &bytes, &message->size);
	if (r < 0)
		return r;
	message->data = bytes;
	r = put(job, message,
		reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE ||
			reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR);
	if (r < 0)
		return r;
	TAKE(bytes);
	TAKE(message);
	uv_async_send(&job->api->wake);
	return 0;
}

static bool on_cancelled(void *data)
{
	struct job *job = data;
	bool cancelled;

	uv_mutex_lock(&job->lock);
	cancelled = job->cancelled;
	uv_mutex_unlock(&job->lock);
	return cancelled;
}

/* CLOCK_BOOTTIME continues while the host sleeps, ours does not. */
static int64_t suspended_ns(void)
{
	return (int64_t)(clock_ns(CLOCK_BOOTTIME) - uv_hrtime());
}

static void on_work(uv_work_t *work)
{
	struct job *job = work->data;
	struct api *api = job->api;
	struct query_job query = {
		.request = job->request,
		.database = api->database,
		.boot_id = api->boot_id,
		.now_ns = uv_hrtime(),
		.suspended_ns = suspended_ns(),
		.watched = job->watched[0] ? job->watched : NULL,
		.send = on_send,
		.cancelled = on_cancelled,
		.data = job,
	};

	lock_if_held(job);
	query.held = job->held;
	query_run(&query);
	lock_held(job, false);
}

static void flush(struct job *job)
{
	struct message *message;
	struct list list;

	list_init(&list);
	uv_mutex_lock(&job->lock);
	list_append_all(&list, &job->outbox);
	uv_mutex_unlock(&job->lock);
	while ((message = list_first(&list, struct message, link))) {
		list_remove(&message->link);
		if (job->client) {
			job->writes++;
			client_write(job->client, job, message->data, message->size);
		} else {
			free(message->data);
		}
		free(message);
	}
}

void jobs_flush(struct api *api)
{
	struct job *job;

	list_for_each(job, &api->running, link)
		flush(job);
}

static void end(struct job *job)
{
	if (!job->client)
		return;
	if (!job->ended && job->cancelled)
		client_error(job->client, job->request->id, TRACESMITH__V1__ERROR__CODE__CANCELLED,
			     "The request was cancelled");
	else if (!job->ended)
		client_fail(job->client, job->request->id, REASON(NO_MEMORY), NULL);
}

static void on_worked(uv_work_t *work, int status)
{
	struct job *job = work->data;
	struct api *api = job->api;

	flush(job);
	end(job);
	list_remove(&job->link);
	api->running_count--;
	if (job->client)
		job_detach(job);
	job->running = false;
	job->done = true;
	free_if_done(job);
	jobs_start(api);
	api_close_rest(api);
}

static uint32_t running_of(const struct api *api, uid_t uid)
{
	const struct job *job;
	uint32_t count = 0;

	list_for_each(job, &api->running, link)
		count += job->uid == uid;
	return count;
}

static bool may_run(const struct job *job)
{
	return job->client->running_count < LIMIT_QUERIES_PER_CLIENT &&
	       running_of(job->api, job->uid) < LIMIT_QUERIES_PER_UID;
}

static void on_recheck(uv_timer_t *timer)
{
	jobs_start(timer->data);
}

/* The requested data may still be on its way to the database. */
static bool is_visible(struct job *job)
{
	const uint64_t wait_ns = LIMIT_QUERY_WAIT_MS * NS_PER_MS;
	const uint64_t read_ns = LIMIT_QUERY_READ_MS * NS_PER_MS;
	uint64_t now_ns = uv_hrtime();
	struct api *api = job->api;
	enum api_visible visible;

	if (!api->callbacks.make_visible || now_ns - job->waits_ns >= wait_ns)
		return true;
	visible = api->callbacks.make_visible(api->data, job->asked_ns);
	if (visible == API_VISIBLE)
		return true;
	if (visible == API_READING && now_ns - job->asked_ns < read_ns)
		job->waits_ns = now_ns;
	if (!uv_is_active((uv_handle_t *)&api->recheck))
		uv_timer_start(&api->recheck, on_recheck, RECHECK_MS, 0);
	return false;
}

void jobs_start(struct api *api)
{
	struct job *job;

	if (api->closed)
		return;
	list_for_each(job, &api->waiting, link) {
		if (api->running_count >= LIMIT_QUERIES)
			break;
		if (!may_run(job) || !is_visible(job))
			continue;
		list_remove(&job->link);
		api->waiting_count--;
		list_append(&api->running, &job->link);
		api->running_count++;
		job->client->running_count++;
		job->running = true;
		if (api->callbacks.watched)
			api->callbacks.watched(api->data, job->watched, sizeof(job->watched));
		uv_queue_work(api->loop, &job->work, on_work, on_worked);
	}
}

int job_add(struct client *client, Tracesmith__V1__Request *request)
{
	struct api *api = client->api;
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return -ENOMEM;
	if (uv_mutex_init(&job->lock) < 0 || uv_cond_init(&job->moved) < 0) {
		free(job);
		return -ENOMEM;
	}
	list_init(&job->outbox);
	job->api = api;
	job->client = client;
	job->uid = client->uid;
	job->asked_ns = job->waits_ns = uv_hrtime();
	job->request = request;
	job->work.data = job;
	list_append(&client->jobs, &job->client_link);
	client->job_count++;
	list_append(&api->waiting, &job->link);
	api->waiting_count++;
	jobs_start(api);
	return 0;
}
