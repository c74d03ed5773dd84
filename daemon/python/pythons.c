/* Pythons: a job is a helper's task, with the stack that waits for it. The jobs of one user are
 * done one after another, so that the first of them is the one that is being done. */
#include "daemon/python/pythons.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "core/base/map.h"
#include "core/base/patience.h"
#include "core/base/quota.h"
#include "core/base/time.h"
#include "daemon/limits.h"
#include "daemon/proc/owner.h"
#include "daemon/python/pythons_helper.h"

#define LOOK_MS	  100  /* between the first two looks at a process */
#define AVOID_MS  5000 /* after the first time that it was late */
#define LATES_MAX 6

struct job {
	struct helper_task task;
	struct list link;
	struct pythons *pythons;
	uint32_t pid;
	uint64_t number; /* the process's, as `known` has it; 0: it had none */
	void *stack;	 /* NULL: a look */
	/* LOOK: the answer. */
	bool found;
	struct pythons_found place;
	/* NAME */
	uint64_t asked; /* pythons->asked, with it */
	uint32_t count;
	struct ts_python_frame frame[TS_STACK_PYTHON_MAX];
	struct pythons_name name[TS_STACK_PYTHON_MAX];
};

struct known {
	uint64_t number;
	uint32_t user;
	uint64_t next_ns;  /* when to look again, 0: not again */
	uint64_t avoid_ns; /* until then it is left alone */
	uint32_t looks, lates;
	bool busy;
	bool found, trains; /* its Python, and its PyTorch */
};

struct pythons {
	struct helpers *helpers;
	uint32_t kind;
	struct pythons_callbacks callbacks;
	void *data;
	struct map known; /* struct known by pid */
	uint64_t numbers, asked;
	struct list jobs; /* as they were asked for */
	struct quota quota;
	struct pythons_stats stats;
};

static struct map_key key_of(uint32_t pid)
{
	return (struct map_key){ pid, 0 };
}

static struct known *known_of(struct pythons *pythons, const struct job *job)
{
	struct known *known = map_get(&pythons->known, key_of(job->pid));

	return known && known->number == job->number ? known : NULL;
}

/* Takes it out of where it is: nobody has it any more. */
static void job_free(struct job *job)
{
	for (uint32_t i = 0; i < job->count; i++) {
		free(job->name[i].function);
		free(job->name[i].file);
	}
	if (job->found)
		closep(&job->place.file);
	quota_give(&job->pythons->quota, job->task.uid, 1);
	list_remove(&job->link);
	free(job);
}

/* Those that wait behind it in vain were not looked at. */
static bool was_being_done(const struct pythons *pythons, const struct job *job)
{
	const struct job *other;

	list_for_each(other, &pythons->jobs, link)
		if (other->task.uid == job->task.uid)
			return other == job;
	return false;
}

/* Longer each time. */
static void avoid(struct known *known, uint64_t now_ns)
{
	known->avoid_ns = now_ns + (AVOID_MS * NS_PER_MS << known->lates);
	known->lates += known->lates < LATES_MAX;
}

static void tell_late(const struct job *job)
{
	static struct log_limit limit;

	if (log_allowed(&limit, 1))
		log_warning("Process %u lets nobody look into its memory in time: its stacks have "
			    "no names of Python for a while",
			    job->pid);
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

/* PyTorch comes without Python, or after it: its libraries are mapped one after the other, and only
 * then ready to be looked at. What is new is told. */
static void take_found(struct pythons *pythons, struct known *known, struct pythons_found *found)
{
	bool python = found->place.size, trains = found->place.autograd.module;
	bool news = python > known->found || trains > known->trains;

	pythons->stats.found += python > known->found;
	known->found |= python;
	known->trains |= trains;
	if (known->found && known->trains)
		known->next_ns = 0;
	if (news)
		pythons->callbacks.found(pythons->data, found);
}

static void take_look(struct pythons *pythons, struct known *known, struct job *job, int result)
{
	known->busy = false;
	if (result == 0 && job->found) {
		take_found(pythons, known, &job->place);
	} else if (no_frames(result)) {
		known->next_ns = 0;
		pythons->stats.unsupported++;
		log_info("Stacks of process %u have no frames of Python: %s", job->pid,
			 no_frames(result));
	} else if (result != -EAGAIN && result != -ENOENT && result != -ESRCH) {
		pythons->stats.unreadable += known->looks == 1;
	}
}

static void take_names(struct pythons *pythons, struct job *job, bool late)
{
	uint64_t gone = 0;

	for (uint32_t i = 0; i < job->count; i++)
		gone += !job->name[i].hidden && !job->name[i].function;
	pythons->stats.late += late;
	if (!late) {
		pythons->stats.gone += gone;
		pythons->stats.named += job->count - gone;
	}
	pythons->callbacks.named(pythons->data, TAKE(job->stack), job->frame, job->name,
				 job->count);
}

static void on_done(struct helper_task *task, int result)
{
	struct job *job = list_item(task, struct job, task);
	struct pythons *pythons = job->pythons;
	struct known *known = known_of(pythons, job);
	bool late = result == -ETIMEDOUT || result == -EPIPE;

	if (late && known && was_being_done(pythons, job)) {
		tell_late(job);
		avoid(known, uv_hrtime());
	}
	if (job->stack)
		take_names(pythons, job, late);
	else if (known)
		take_look(pythons, known, job, result);
	job_free(job);
}

/* The next row, with copies of its names. False: there is none, or it is none. */
static bool take_row(struct job *job, const char *data, size_t size, size_t *at)
{
	struct pythons_row row;
	struct pythons_name *name;
	const char *function, *file;
	size_t end;

	if (size - *at < sizeof(row))
		return false;
	memcpy(&row, data + *at, sizeof(row));
	function = data + *at + sizeof(row);
	end = *at + sizeof(row);
	end += strnlen(data + end, size - end) + 1;
	if (end >= size || row.index >= job->count)
		return false;
	file = data + end;
	end += strnlen(file, size - end) + 1;
	name = &job->name[row.index];
	if (end > size || name->function)
		return false;
	*at = end;
	name->hidden = row.hidden;
	name->line = row.line;
	name->function = row.hidden ? NULL : strdup(function);
	name->file = name->function ? strdup(file) : NULL;
	return true;
}

static void on_message(struct helper_task *task, const void *data, size_t size, int *fd,
		       uint32_t fds)
{
	struct job *job = list_item(task, struct job, task);
	struct pythons_place place;
	size_t at = 0;

	if (job->stack) {
		while (take_row(job, data, size, &at))
			;
	} else if (size == sizeof(place) && !job->found) {
		memcpy(&place, data, size);
		job->place = (struct pythons_found){ .pid = job->pid,
						     .user = job->task.uid,
						     .place = place.place,
						     .file = fds ? TAKE_FD(fd[0]) : -1,
						     .freeing = place.freeing };
		job->place.place.freed = 0;
		job->found = true;
	}
}

/* NULL: no memory, or the user has too many. */
static struct job *job_new(struct pythons *pythons, uint32_t pid, uint32_t user)
{
	_cleanup_(freep) struct job *job = calloc(1, sizeof(*job));

	if (!job || !quota_take(&pythons->quota, user, 1))
		return NULL;
	job->pythons = pythons;
	job->pid = pid;
	job->task =
		(struct helper_task){ .kind = pythons->kind,
				      .uid = user,
				      .deadline_ms = (uint32_t)patience_ms(LIMIT_PYTHON_NAME_MS),
				      .message = on_message,
				      .done = on_done };
	list_append(&pythons->jobs, &job->link);
	return TAKE(job);
}

/* With the job's frames. Frees it unless that works. */
static int job_ask(struct job *job, enum pythons_order_kind kind)
{
	static struct pythons_order order;
	size_t size = job->count * sizeof(order.frame[0]);
	int r;

	order.kind = kind;
	order.pid = job->pid;
	order.number = job->number;
	order.count = job->count;
	memcpy(order.frame, job->frame, size);
	r = helpers_ask(job->pythons->helpers, &job->task, &order,
			offsetof(struct pythons_order, frame) + size, NULL, 0);
	if (r < 0)
		job_free(job);
	return r;
}

int pythons_new(struct helpers *helpers, uint32_t kind, const struct pythons_callbacks *callbacks,
		void *data, struct pythons **ret)
{
	struct pythons *pythons = calloc(1, sizeof(*pythons));

	if (!pythons)
		return -ENOMEM;
	pythons->helpers = helpers;
	pythons->kind = kind;
	pythons->callbacks = *callbacks;
	pythons->data = data;
	pythons->quota.total = LIMIT_PYTHON_JOBS;
	list_init(&pythons->jobs);
	*ret = pythons;
	return 0;
}

struct pythons *pythons_free(struct pythons *pythons)
{
	struct job *job;

	while (pythons && (job = list_first(&pythons->jobs, struct job, link))) {
		helpers_cancel(pythons->helpers, &job->task);
		if (job->stack)
			take_names(pythons, job, true);
		job_free(job);
	}
	for (size_t i = 0; pythons && i < pythons->known.size; i++)
		free(pythons->known.slot[i].value);
	if (pythons) {
		map_clear(&pythons->known);
		quota_release(&pythons->quota);
	}
	free(pythons);
	return NULL;
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
	known->user = owner_of_process(pid);
	known->next_ns = 1;
	return known;
}

void pythons_look(struct pythons *pythons, uint32_t pid, uint64_t now_ns)
{
	struct known *known = pythons ? known_get(pythons, pid) : NULL;
	struct job *job;

	if (!known || known->busy || !known->next_ns || now_ns < known->next_ns ||
	    now_ns < known->avoid_ns)
		return;
	job = job_new(pythons, pid, known->user);
	if (!job)
		return;
	job->number = known->number;
	if (job_ask(job, PYTHONS_LOOK) < 0)
		return;
	known->busy = true;
	known->next_ns = next_look_ns(known->looks++, now_ns);
}

void pythons_forget(struct pythons *pythons, uint32_t pid)
{
	if (pythons)
		free(map_remove(&pythons->known, key_of(pid)));
}

int pythons_ask(struct pythons *pythons, uint32_t pid, uint32_t user, const void *frames,
		uint32_t count, void *stack)
{
	const struct known *known = map_get(&pythons->known, key_of(pid));
	struct job *job;

	if (count > TS_STACK_PYTHON_MAX || (known && uv_hrtime() < known->avoid_ns))
		return -EAGAIN;
	job = job_new(pythons, pid, known ? known->user : user);
	if (!job)
		return -EAGAIN;
	job->number = known ? known->number : 0;
	memcpy(job->frame, frames, count * sizeof(job->frame[0]));
	job->count = count;
	job->stack = stack;
	if (job_ask(job, PYTHONS_NAME) < 0)
		return -EAGAIN;
	job->asked = ++pythons->asked;
	return 0;
}

uint64_t pythons_asked(const struct pythons *pythons)
{
	return pythons->asked;
}

uint64_t pythons_answered(const struct pythons *pythons)
{
	const struct job *job;

	list_for_each(job, &pythons->jobs, link)
		if (job->stack)
			return job->asked - 1;
	return pythons->asked;
}

void pythons_stats(const struct pythons *pythons, struct pythons_stats *ret)
{
	*ret = pythons->stats;
}
