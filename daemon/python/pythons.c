/* Pythons: jobs for one thread. A job belongs to the thread from when it takes it off the queue
 * until it is back in `done`; its stack is always the loop's, which gives it up when it is late. */
#include "daemon/python/pythons.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/time.h"
#include "core/store/thread.h"
#include "daemon/limits.h"
#include "daemon/proc/procfs.h"
#include "daemon/python/place.h"
#include "daemon/python/python.h"

#define LATE_CHECK_MS 100
#define LOOK_MS	      100 /* between the first two looks at a process */

enum job_kind { JOB_LOOK, JOB_NAME, JOB_FORGET };

struct job {
	struct list link; /* waiting, under way or done */
	enum job_kind kind;
	uint32_t pid;
	void *stack; /* the loop's alone; NULL: answered, or none */
	uint64_t asked_ns;
	uint64_t number; /* LOOK: the process's, as the loop knows it */
	/* LOOK: the answer. */
	int result;
	uint32_t version;
	struct probe_python place;
	/* NAME */
	uint64_t gone;
	uint32_t count;
	struct ts_python_frame frame[TS_STACK_PYTHON_MAX];
	struct pythons_name name[TS_STACK_PYTHON_MAX];
};

/* A process, as the loop knows it. */
struct known {
	uint64_t number;
	uint64_t next_ns; /* when to look again, 0: not again */
	uint32_t looks;
	bool busy;
};

/* And as the thread does. */
struct opened {
	uint32_t pid;
	uint64_t used;
	struct python *python; /* NULL: free */
};

struct pythons {
	uv_loop_t *loop;
	uv_async_t async;
	uv_timer_t late;
	pthread_t thread;
	struct pythons_callbacks callbacks;
	void (*closed)(void *data);
	void *data;
	int handles;
	struct map known; /* struct known by pid */
	uint64_t numbers, asked, answered;
	uint32_t waiting; /* jobs that are not back */
	struct pythons_stats stats;

	uv_mutex_t lock; /* of what follows */
	uv_cond_t wake;
	struct list queue, done;
	struct job *running;
	bool closing, ended;

	struct opened opened[LIMIT_PYTHONS]; /* the thread's, like the next */
	uint64_t uses;
};

static struct job *job_free(struct job *job)
{
	for (uint32_t i = 0; job && i < job->count; i++) {
		free(job->name[i].function);
		free(job->name[i].file);
	}
	free(job);
	return NULL;
}

/* The thread's side. */

static void opened_close(struct opened *opened)
{
	python_free(opened->python);
	*opened = (struct opened){ 0 };
}

static struct opened *opened_get(struct pythons *pythons, uint32_t pid)
{
	for (size_t i = 0; i < ARRAY_SIZE(pythons->opened); i++) {
		struct opened *opened = &pythons->opened[i];

		if (!opened->python || opened->pid != pid)
			continue;
		opened->used = ++pythons->uses;
		return opened;
	}
	return NULL;
}

/* In the place of the one that was not used for longest. */
static void opened_put(struct pythons *pythons, uint32_t pid, struct python *python)
{
	struct opened *oldest = &pythons->opened[0];

	for (size_t i = 0; i < ARRAY_SIZE(pythons->opened); i++)
		if (pythons->opened[i].used < oldest->used)
			oldest = &pythons->opened[i];
	opened_close(oldest);
	*oldest = (struct opened){ .pid = pid, .used = ++pythons->uses, .python = python };
}

static void forget(struct pythons *pythons, uint32_t pid)
{
	struct opened *opened = opened_get(pythons, pid);

	if (opened)
		opened_close(opened);
}

static void look(struct pythons *pythons, struct job *job)
{
	_cleanup_(python_freep) struct python *python = NULL;
	uint64_t before, after;
	struct peek peek;

	peek_open(&peek, job->pid);
	job->result = procfs_started_ticks(job->pid, &before);
	if (job->result == 0)
		job->result = python_open(job->pid, &python, &job->version);
	if (job->result == 0)
		job->result = place_find(python_found(python), &peek, &job->place);
	if (job->result == 0)
		job->result = procfs_started_ticks(job->pid, &after);
	if (job->result == 0 && after != before)
		job->result = -ESRCH;
	if (job->result < 0)
		return;
	job->place.started_ticks = before;
	forget(pythons, job->pid);
	opened_put(pythons, job->pid, TAKE(python));
}

static void name_frame(struct python *python, const struct ts_python_frame *frame,
		       struct pythons_name *name)
{
	struct python_frame found;
	int r = python_name(python, frame, &found);

	name->hidden = r == 1;
	if (r != 0)
		return;
	name->function = strdup(found.code->function);
	name->file = strdup(found.code->file);
	name->line = found.line > 0 ? (uint32_t)found.line : 0;
}

static void name_all(struct pythons *pythons, struct job *job)
{
	struct opened *opened = opened_get(pythons, job->pid);
	struct python *python = opened ? opened->python : NULL;
	uint32_t version;

	if (!python && python_open(job->pid, &python, &version) == 0)
		opened_put(pythons, job->pid, python);
	if (python)
		python_renew(python);
	for (uint32_t i = 0; i < job->count; i++) {
		if (python)
			name_frame(python, &job->frame[i], &job->name[i]);
		job->gone += !job->name[i].hidden && !job->name[i].function;
	}
}

static void job_run(struct pythons *pythons, struct job *job)
{
	switch (job->kind) {
	case JOB_LOOK:
		look(pythons, job);
		break;
	case JOB_NAME:
		name_all(pythons, job);
		break;
	case JOB_FORGET:
		forget(pythons, job->pid);
		break;
	}
}

/* The next job, NULL: none will come. */
static struct job *job_take(struct pythons *pythons)
{
	struct job *job;

	uv_mutex_lock(&pythons->lock);
	while (list_empty(&pythons->queue) && !pythons->closing)
		uv_cond_wait(&pythons->wake, &pythons->lock);
	job = pythons->closing ? NULL : list_first(&pythons->queue, struct job, link);
	if (job)
		list_remove(&job->link);
	pythons->running = job;
	pythons->ended = !job;
	uv_mutex_unlock(&pythons->lock);
	return job;
}

static void *thread_main(void *data)
{
	struct pythons *pythons = data;
	struct job *job;

	while ((job = job_take(pythons))) {
		job_run(pythons, job);
		uv_mutex_lock(&pythons->lock);
		pythons->running = NULL;
		list_append(&pythons->done, &job->link);
		uv_mutex_unlock(&pythons->lock);
		uv_async_send(&pythons->async);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pythons->opened); i++)
		opened_close(&pythons->opened[i]);
	uv_async_send(&pythons->async);
	return NULL;
}

/* The loop's side. */

static struct map_key key_of(uint32_t pid)
{
	return (struct map_key){ pid, 0 };
}

static struct job *job_new(enum job_kind kind, uint32_t pid)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	list_init(&job->link);
	job->kind = kind;
	job->pid = pid;
	job->asked_ns = uv_hrtime();
	return job;
}

static void job_add(struct pythons *pythons, struct job *job)
{
	pythons->waiting++;
	uv_mutex_lock(&pythons->lock);
	list_append(&pythons->queue, &job->link);
	uv_cond_signal(&pythons->wake);
	uv_mutex_unlock(&pythons->lock);
}

static const char *no_frames(int error)
{
	switch (error) {
	case -EOPNOTSUPP:
		return "its version is not supported";
	case -ENOTUNIQ:
		return "it is built without the GIL";
	default:
		return NULL;
	}
}

static void take_look(struct pythons *pythons, const struct job *job)
{
	struct known *known = map_get(&pythons->known, key_of(job->pid));

	if (!known || known->number != job->number)
		return;
	known->busy = false;
	if (job->result == 0) {
		known->next_ns = 0;
		pythons->stats.found++;
		pythons->callbacks.found(pythons->data, job->pid, &job->place);
	} else if (no_frames(job->result)) {
		known->next_ns = 0;
		pythons->stats.unsupported++;
		log_info("Stacks of process %u have no frames of Python: %s", job->pid,
			 no_frames(job->result));
	} else if (job->result != -EAGAIN && job->result != -ENOENT && job->result != -ESRCH) {
		pythons->stats.unreadable += known->looks == 1;
	}
}

static void answer(struct pythons *pythons, void *stack, const struct ts_python_frame *frame,
		   struct pythons_name *name, uint32_t count)
{
	pythons->answered++;
	pythons->callbacks.named(pythons->data, stack, frame, name, count);
}

static void answer_late(struct pythons *pythons, struct job *job)
{
	struct pythons_name none[TS_STACK_PYTHON_MAX] = { 0 };

	pythons->stats.late++;
	answer(pythons, TAKE(job->stack), job->frame, none, job->count);
}

static void take_done(struct pythons *pythons, struct job *job)
{
	if (job->kind == JOB_LOOK)
		take_look(pythons, job);
	if (!job->stack)
		return;
	pythons->stats.gone += job->gone;
	pythons->stats.named += job->count - job->gone;
	answer(pythons, TAKE(job->stack), job->frame, job->name, job->count);
}

/* The oldest that waits for an answer. Only the loop frees jobs, so it stays. */
static struct job *oldest(struct pythons *pythons)
{
	struct job *job, *found = NULL;

	uv_mutex_lock(&pythons->lock);
	if (pythons->running && pythons->running->stack)
		found = pythons->running;
	list_for_each(job, &pythons->queue, link)
		if (!found && job->stack)
			found = job;
	uv_mutex_unlock(&pythons->lock);
	return found;
}

static void on_late(uv_timer_t *timer)
{
	struct pythons *pythons = timer->data;
	uint64_t now_ns = uv_hrtime();
	struct job *job;

	while ((job = oldest(pythons)) && now_ns - job->asked_ns > LIMIT_PYTHON_NAME_MS * NS_PER_MS)
		answer_late(pythons, job);
	if (!job)
		uv_timer_stop(timer);
}

static void pythons_free(struct pythons *pythons)
{
	struct list *jobs[] = { &pythons->queue, &pythons->done };
	struct job *job;

	for (size_t i = 0; i < ARRAY_SIZE(jobs); i++)
		while ((job = list_first(jobs[i], struct job, link))) {
			list_remove(&job->link);
			job_free(job);
		}
	for (size_t i = 0; i < pythons->known.size; i++)
		free(pythons->known.slot[i].value);
	map_clear(&pythons->known);
	uv_cond_destroy(&pythons->wake);
	uv_mutex_destroy(&pythons->lock);
	free(pythons);
}

static void on_closed(uv_handle_t *handle)
{
	struct pythons *pythons = handle->data;
	void (*closed)(void *data) = pythons->closed;
	void *data = pythons->data;

	if (--pythons->handles > 0)
		return;
	pythons_free(pythons);
	if (closed)
		closed(data);
}

static void on_async(uv_async_t *async)
{
	struct pythons *pythons = async->data;
	struct list done;
	struct job *job;
	bool ended;

	list_init(&done);
	uv_mutex_lock(&pythons->lock);
	list_append_all(&done, &pythons->done);
	ended = pythons->ended;
	uv_mutex_unlock(&pythons->lock);
	while ((job = list_first(&done, struct job, link))) {
		list_remove(&job->link);
		pythons->waiting--;
		take_done(pythons, job);
		job_free(job);
	}
	if (!ended)
		return;
	pthread_join(pythons->thread, NULL);
	uv_close((uv_handle_t *)&pythons->async, on_closed);
	uv_close((uv_handle_t *)&pythons->late, on_closed);
}

int pythons_new(uv_loop_t *loop, const struct pythons_callbacks *callbacks, void *data,
		struct pythons **ret)
{
	struct pythons *pythons = calloc(1, sizeof(*pythons));
	int r;

	if (!pythons)
		return -ENOMEM;
	pythons->loop = loop;
	pythons->callbacks = *callbacks;
	pythons->data = data;
	pythons->async.data = pythons->late.data = pythons;
	list_init(&pythons->queue);
	list_init(&pythons->done);
	uv_mutex_init(&pythons->lock);
	uv_cond_init(&pythons->wake);
	r = uv_async_init(loop, &pythons->async, on_async);
	if (r < 0) {
		pythons_free(pythons);
		return r;
	}
	uv_timer_init(loop, &pythons->late);
	pythons->handles = 2;
	r = thread_start(&pythons->thread, thread_main, pythons);
	if (r < 0) {
		uv_close((uv_handle_t *)&pythons->async, on_closed);
		uv_close((uv_handle_t *)&pythons->late, on_closed);
		return r;
	}
	*ret = pythons;
	return 0;
}

void pythons_close(struct pythons *pythons, void (*closed)(void *data))
{
	struct job *job;

	pythons->closed = closed;
	uv_timer_stop(&pythons->late);
	while ((job = oldest(pythons)))
		answer_late(pythons, job);
	uv_mutex_lock(&pythons->lock);
	pythons->closing = true;
	uv_cond_signal(&pythons->wake);
	uv_mutex_unlock(&pythons->lock);
}

/* Twice as long each time. */
static uint64_t next_look_ns(uint32_t looks, uint64_t now_ns)
{
	return looks < LIMIT_PYTHON_LOOKS ? now_ns + (LOOK_MS * NS_PER_MS << looks) : 0;
}

static struct known *known_get(struct pythons *pythons, uint32_t pid)
{
	struct known *known = map_get(&pythons->known, key_of(pid));

	if (known || pythons->known.count >= LIMIT_PROCESSES)
		return known;
	known = calloc(1, sizeof(*known));
	if (!known || map_put(&pythons->known, key_of(pid), known) < 0) {
		free(known);
		return NULL;
	}
	known->number = ++pythons->numbers;
	known->next_ns = 1;
	return known;
}

void pythons_look(struct pythons *pythons, uint32_t pid, uint64_t now_ns)
{
	struct known *known = pythons ? known_get(pythons, pid) : NULL;
	struct job *job;

	if (!known || known->busy || !known->next_ns || now_ns < known->next_ns ||
	    pythons->waiting >= LIMIT_PYTHON_JOBS)
		return;
	job = job_new(JOB_LOOK, pid);
	if (!job)
		return;
	job->number = known->number;
	known->busy = true;
	known->next_ns = next_look_ns(known->looks++, now_ns);
	job_add(pythons, job);
}

void pythons_forget(struct pythons *pythons, uint32_t pid)
{
	struct known *known = pythons ? map_remove(&pythons->known, key_of(pid)) : NULL;
	struct job *job = known ? job_new(JOB_FORGET, pid) : NULL;

	free(known);
	if (job)
		job_add(pythons, job);
}

int pythons_ask(struct pythons *pythons, uint32_t pid, const void *frames, uint32_t count,
		void *stack)
{
	struct job *job = NULL;

	if (count > TS_STACK_PYTHON_MAX || pythons->waiting >= LIMIT_PYTHON_JOBS)
		return -EAGAIN;
	job = job_new(JOB_NAME, pid);
	if (!job)
		return -ENOMEM;
	memcpy(job->frame, frames, count * sizeof(job->frame[0]));
	job->count = count;
	job->stack = stack;
	pythons->asked++;
	job_add(pythons, job);
	if (!uv_is_active((uv_handle_t *)&pythons->late))
		uv_timer_start(&pythons->late, on_late, LATE_CHECK_MS, LATE_CHECK_MS);
	return 0;
}

uint64_t pythons_asked(const struct pythons *pythons)
{
	return pythons->asked;
}

uint64_t pythons_answered(const struct pythons *pythons)
{
	return pythons->answered;
}

void pythons_stats(const struct pythons *pythons, struct pythons_stats *ret)
{
	*ret = pythons->stats;
}
