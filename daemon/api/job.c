/* Job: a request that is answered from the store, with a thread of the uv pool. Its worker answers
 * what is quick, and starts a process for the rest, whose replies it passes on. It puts framed
 * replies in the outbox and the loop takes them out; `pending` counts what the reader has not taken
 * yet, in the outbox and in libuv, and the worker waits while it is above LIMIT_CLIENT_QUEUE. A job
 * is waiting, running, or done with writes in progress, and freed after the last of them. */
#include <errno.h>
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/store/query/query.h"
#include "daemon/api/child.h"
#include "daemon/api/internal.h"
#include "daemon/helper/spawn.h"
#include "daemon/limits.h"
#include "daemon/query/helper.h"

#define RECHECK_MS 2 /* how long until it is asked again */

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
	uint64_t older_ns;	     /* how old its data was when it was last asked */
	char watched[QUERY_WATCHED]; /* the only traced processes, "": all */
	uint32_t unlooked;
	uint32_t writes;
	bool running, done;
	bool own;     /* sees only his own processes */
	bool quick;   /* answered by the daemon itself, and never waits for its reader */
	bool prompt;  /* of these, what does not wait for its data either */
	bool held;    /* asks what is held in memory */
	bool stalled; /* cancelled, since others wait and its client does not read */

	/* Of the loop and the worker, under the lock. */
	uv_mutex_t lock;
	uv_cond_t moved;
	struct list outbox; /* struct message */
	size_t pending;
	uint64_t full_ns; /* since when it waits for its reader, 0: it does not */
	int pidfd;	  /* of its process, -1: none */
	bool cancelled;
	bool ended; /* the last reply is in the outbox or was */
	/* Why it is not, and the reason's argument; 0: it was cancelled. */
	Tracesmith__V1__Remark__Reason why;
	char text[CHILD_TEXT];
};

/* What runs at one time: in all, per user and per connection. */
static const struct slots {
	uint32_t all, user, client;
} slots[] = {
	[false] = { LIMIT_QUERIES, LIMIT_QUERIES_PER_UID, LIMIT_QUERIES_PER_CLIENT },
	[true] = { LIMIT_QUICK_QUERIES, LIMIT_QUICK_QUERIES, LIMIT_QUERIES_PER_CLIENT },
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
	if (job->pidfd >= 0)
		spawn_kill(job->pidfd);
	uv_cond_signal(&job->moved);
	uv_mutex_unlock(&job->lock);
}

static void job_detach(struct job *job)
{
	struct client *client = job->client;
	struct api *api = job->api;

	list_remove(&job->client_link);
	client->job_count--;
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

static bool has_ended(struct job *job)
{
	bool ended;

	uv_mutex_lock(&job->lock);
	ended = job->ended;
	uv_mutex_unlock(&job->lock);
	return ended;
}

/* A client that has read the last reply may use its id again, though the job is not gone yet. */
struct job *job_find(struct client *client, uint64_t id)
{
	struct job *job;

	list_for_each(job, &client->jobs, client_link)
		if (job->request->id == id && !has_ended(job))
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

static uint64_t held_since(const struct job *job)
{
	const struct api_callbacks *call = &job->api->callbacks;

	return call->held_since ? call->held_since(job->api->data) : 0;
}

/* Once it is locked, holding neither starts nor ends. */
static void lock_if_held(struct job *job)
{
	job->held = held_since(job);
	if (!job->held)
		return;
	lock_held(job, true);
	if (held_since(job))
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
	job->full_ns = uv_hrtime();
	while (job->pending > LIMIT_CLIENT_QUEUE && !job->cancelled)
		uv_cond_wait(&job->moved, &job->lock);
	job->full_ns = 0;
	uv_mutex_unlock(&job->lock);
	lock_held(job, true);
}

static int put(struct job *job, struct message *message, bool last)
{
	int r = 0;

	if (!job->quick && is_full(job))
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

/* Takes the frame over. */
static int put_frame(struct job *job, uint8_t *frame, size_t size, bool last)
{
	_cleanup_(freep) uint8_t *bytes = frame;
	_cleanup_(freep) struct message *message = calloc(1, sizeof(*message));
	int r;

	if (!message)
		return -ENOMEM;
	message->data = bytes;
	message->size = size;
	r = put(job, message, last);
	if (r < 0)
		return r;
	TAKE(bytes);
	TAKE(message);
	uv_async_send(&job->api->wake);
	return 0;
}

/* On the worker. */
static int on_send(void *data, const Tracesmith__V1__Reply *reply)
{
	uint8_t *bytes;
	size_t size;
	int r = ts_frame_pack(&reply->base, TS_FRAME_REPLY_MAX, &bytes, &size);

	if (r < 0)
		return r;
	return put_frame(data, bytes, size,
			 reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE ||
				 reply->body_case == TRACESMITH__V1__REPLY__BODY_ERROR);
}

/* The same of a process's reply. */
static int on_pass(void *data, uint8_t *frame, size_t size, bool last)
{
	return put_frame(data, frame, size, last);
}

static void on_running(void *data, int pidfd)
{
	struct job *job = data;

	uv_mutex_lock(&job->lock);
	job->pidfd = pidfd;
	if (job->cancelled && pidfd >= 0)
		spawn_kill(pidfd);
	uv_mutex_unlock(&job->lock);
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

static void run_apart(struct job *job, const struct query_job *query)
{
	const struct child child = {
		.zygote = job->api->zygote,
		.role = job->api->query_role,
		.query = *query,
		.pass = on_pass,
		.running = on_running,
		.data = job,
	};

	job->why = child_run(&child, job->text);
}

/* A user's statement runs in no thread of ours, so what is held is hidden from it. */
static bool is_apart(const struct job *job)
{
	return job->api->zygote >= 0 &&
	       job->request->body_case == TRACESMITH__V1__REQUEST__BODY_SQL;
}

static void tell_held(const struct job *job, struct query_job *query)
{
	uint64_t since_ns = held_since(job);
	uint64_t older_ns = since_ns && since_ns < query->now_ns ? query->now_ns - since_ns : 0;

	if (older_ns > query->older_ns)
		query->older_ns = older_ns;
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
		.older_ns = job->older_ns,
		.own = job->own,
		.owner = job->uid,
		.watched = job->watched[0] ? job->watched : NULL,
		.unlooked = job->unlooked,
		.send = on_send,
		.cancelled = on_cancelled,
		.data = job,
	};

	if (is_apart(job))
		tell_held(job, &query);
	else
		lock_if_held(job);
	query.held = job->held;
	if (api->zygote >= 0 && !job->quick && !job->held)
		run_apart(job, &query);
	else
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

/* For lack of memory, it could not even say so. */
static void fail(struct job *job)
{
	static struct log_limit limit;
	Tracesmith__V1__Remark__Reason why = job->why ? job->why : REASON(NO_MEMORY);

	if (why == REASON(QUERY_ENDED)) {
		job->api->died++;
		job->api->died_ms = uv_now(job->api->loop);
	}
	if (why == REASON(QUERY_ENDED) && log_allowed(&limit, 5))
		log_warning("The process that answered a query of uid %u %s", job->uid, job->text);
	client_fail(job->client, job->request->id, why, job->text[0] ? job->text : NULL, NULL);
}

static void end(struct job *job)
{
	if (!job->client || job->ended)
		return;
	if (job->stalled)
		client_fail(job->client, job->request->id, REASON(QUERY_UNREAD),
			    REMARK_NUMBER(LIMIT_QUERY_UNREAD_MS / 1000), NULL);
	else if (job->cancelled)
		client_error(job->client, job->request->id, TRACESMITH__V1__ERROR__CODE__CANCELLED,
			     "The request was cancelled");
	else
		fail(job);
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

/* Of the same kind. */
static struct slots running_beside(const struct job *job)
{
	struct slots count = { 0 };
	const struct job *other;

	list_for_each(other, &job->api->running, link) {
		if (other->quick != job->quick)
			continue;
		count.all++;
		count.user += other->uid == job->uid;
		count.client += other->client == job->client;
	}
	return count;
}

static void on_recheck(uv_timer_t *timer)
{
	jobs_start(timer->data);
}

/* The requested data may still be on its way to the database. */
static bool is_visible(struct job *job)
{
	const uint64_t wait_ns =
		(job->prompt ? LIMIT_PROMPT_WAIT_MS : LIMIT_QUERY_WAIT_MS) * NS_PER_MS;
	struct api *api = job->api;
	const uint64_t read_ns = job->prompt ? 0 : api->read_ms * (uint64_t)NS_PER_MS;
	uint64_t now_ns = uv_hrtime(), up_to_ns = 0;
	enum api_visible visible;

	if (!api->callbacks.make_visible)
		return true;
	visible = api->callbacks.make_visible(api->data, job->asked_ns, &up_to_ns);
	job->older_ns = 0;
	if (visible == API_VISIBLE)
		return true;
	/* Another commit may have been written since it was asked, without all of this; a prompt
	 * answer needs no more. */
	job->older_ns = up_to_ns < job->asked_ns ? job->asked_ns - up_to_ns : !job->prompt;
	if (visible != API_WAITING && now_ns - job->asked_ns < read_ns)
		job->waits_ns = now_ns;
	if (now_ns - job->waits_ns >= wait_ns)
		return true;
	if (!uv_is_active((uv_handle_t *)&api->recheck))
		uv_timer_start(&api->recheck, on_recheck, RECHECK_MS, 0);
	return false;
}

static void start(struct job *job)
{
	struct api *api = job->api;

	list_remove(&job->link);
	api->waiting_count--;
	list_append(&api->running, &job->link);
	api->running_count++;
	job->running = true;
	if (api->callbacks.watched)
		api->callbacks.watched(api->data, job->watched, sizeof(job->watched));
	if (api->callbacks.unlooked)
		job->unlooked = api->callbacks.unlooked(api->data);
	uv_queue_work(api->loop, &job->work, on_work, on_worked);
}

/* Whether it may run beside these of its kind. */
static bool has_place(const struct job *job, struct slots count)
{
	const struct slots *bound = &slots[job->quick];

	return count.all < bound->all && count.user < bound->user && count.client < bound->client;
}

/* The oldest one of the user who has least running; NULL: none may run now. */
static struct job *find_next(struct api *api)
{
	struct job *job, *best = NULL;
	uint32_t least = UINT32_MAX;

	list_for_each(job, &api->waiting, link) {
		struct slots count = running_beside(job);

		if (count.user >= least || !has_place(job, count) || !is_visible(job))
			continue;
		best = job;
		least = count.user;
	}
	return best;
}

void jobs_start(struct api *api)
{
	struct job *job;

	if (api->closed)
		return;
	while (api->running_count < LIMIT_QUERIES + LIMIT_QUICK_QUERIES && (job = find_next(api)))
		start(job);
}

/* Since when it waits for its reader, who takes nothing. */
static bool is_stalled(struct job *job, uint64_t now_ns)
{
	bool stalled;

	uv_mutex_lock(&job->lock);
	stalled = job->full_ns && now_ns - job->full_ns > LIMIT_QUERY_UNREAD_MS * NS_PER_MS;
	uv_mutex_unlock(&job->lock);
	return stalled;
}

void jobs_evict(struct api *api)
{
	uint64_t now_ns = uv_hrtime();
	uint32_t wanted = 0;
	struct job *job;

	list_for_each(job, &api->waiting, link)
		wanted += !job->quick && !has_place(job, running_beside(job));
	list_for_each(job, &api->running, link) {
		if (!wanted || !is_stalled(job, now_ns))
			continue;
		job->stalled = true;
		job_cancel(job);
		wanted--;
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
	job->own = client_sees_own(client);
	job->asked_ns = job->waits_ns = uv_hrtime();
	job->request = request;
	job->quick = query_is_quick(request);
	job->prompt = query_is_prompt(request);
	job->pidfd = -1;
	job->work.data = job;
	list_append(&client->jobs, &job->client_link);
	client->job_count++;
	list_append(&api->waiting, &job->link);
	api->waiting_count++;
	jobs_start(api);
	return 0;
}
