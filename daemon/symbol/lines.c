/* Lines: one job of a user at a time, and users take turns, so that somebody whose files keep a
 * helper busy until its deadline keeps waiting only himself. */
#include "daemon/symbol/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/list.h"
#include "core/base/patience.h"
#include "core/base/quota.h"
#include "core/model/frame.h"
#include "daemon/limits.h"
#include "daemon/symbol/lines_helper.h"
#include "daemon/symbol/places.h"

/* Someone with jobs, waiting or being done. */
struct lines_user {
	struct list link;
	uint32_t uid;
	struct list waiting;
	struct lines *lines;

	/* What is being done. */
	struct symbol_job *job; /* NULL: nothing */
	struct helper_task task;
	struct cache_key file;
	struct lines_order order;
	uint32_t asked;
};

struct lines {
	struct helpers *helpers;
	uint32_t kind;
	void (*done)(void *data, const struct symbol_job *job);
	void *data;
	struct list users; /* the next one first */
	struct quota jobs;
	uint32_t running;
	struct places places;
};

static void on_answer(struct helper_task *task, const void *data, size_t size, int *fd,
		      uint32_t fds);
static void on_answered(struct helper_task *task, int result);

/* Frame 0 is the function that was called, which nobody asks for the line of. */
static struct symbol_frame *first_unknown(struct lines *lines, struct symbol_job *job)
{
	struct symbol_frame *unknown = NULL;

	for (uint32_t i = 1; i < job->count; i++) {
		struct symbol_frame *frame = &job->frame[i];

		frame->places = NULL;
		if (frame->kind != FRAME_NATIVE || !frame->keyed)
			continue;
		frame->places = places_get(&lines->places, &frame->key);
		if (!frame->places && !unknown)
			unknown = frame;
	}
	return unknown;
}

static uint32_t count_lined(const struct symbol_job *job)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < job->count; i++)
		count += job->frame[i].places && job->frame[i].places->count;
	return count;
}

bool lines_fill(struct lines *lines, struct symbol_job *job)
{
	return !first_unknown(lines, job);
}

static struct lines_user *user_of(struct lines *lines, uint32_t uid)
{
	struct lines_user *user;

	list_for_each(user, &lines->users, link)
		if (user->uid == uid)
			return user;
	user = calloc(1, sizeof(*user));
	if (!user)
		return NULL;
	user->uid = uid;
	user->lines = lines;
	user->task = (struct helper_task){ .kind = lines->kind,
					   .uid = uid,
					   .deadline_ms = (uint32_t)patience_ms(LIMIT_LINES_MS),
					   .message = on_answer,
					   .done = on_answered };
	list_init(&user->waiting);
	list_append(&lines->users, &user->link);
	return user;
}

static void free_job(struct lines *lines, struct symbol_job *job)
{
	quota_give(&lines->jobs, job->user, 1);
	symbol_job_free(job);
}

static struct lines_user *next_user(struct lines *lines)
{
	struct lines_user *user;

	list_for_each(user, &lines->users, link)
		if (!user->job && !list_empty(&user->waiting))
			return user;
	return NULL;
}

static void finish(struct lines_user *user)
{
	struct symbol_job *job = TAKE(user->job);
	struct lines *lines = user->lines;

	lines->running--;
	first_unknown(lines, job);
	/* By what was found for this job, or for others while it waited. */
	if (count_lined(job) > job->lined)
		lines->done(lines->data, job);
	free_job(lines, job);
	if (list_empty(&user->waiting)) {
		list_remove(&user->link);
		free(user);
	}
}

static bool of_file(const struct cache_key *file, const struct symbol_frame *frame)
{
	struct cache_key key = frame->key;

	key.offset = file->offset;
	return frame->keyed && memcmp(&key, file, sizeof(key)) == 0;
}

static int ask(struct lines_user *user, const struct symbol_frame *first)
{
	const struct symbol_job *job = user->job;
	struct lines_order *order = &user->order;

	memset(order, 0, sizeof(*order));
	order->pid = job->pid;
	strncpy(order->path, first->file->path, sizeof(order->path) - 1);
	user->file = first->key;
	for (uint32_t i = 1; i < job->count && order->count < LINES_OFFSETS_MAX; i++)
		if (!job->frame[i].places && of_file(&user->file, &job->frame[i]))
			order->offset[order->count++] = job->frame[i].key.offset;
	return helpers_ask(user->lines->helpers, &user->task, order, sizeof(*order),
			   &first->file->fd, 1);
}

/* Each turn ends with one file less, unless what is known was too much and is forgotten. */
static void advance(struct lines_user *user)
{
	const struct symbol_frame *unknown = first_unknown(user->lines, user->job);

	if (!unknown || user->asked++ > user->job->count || ask(user, unknown) < 0)
		finish(user);
}

static void start(struct lines *lines)
{
	struct lines_user *user;

	while (lines->running < LIMIT_LINES_HELPERS && (user = next_user(lines))) {
		user->job = list_first(&user->waiting, struct symbol_job, link);
		user->asked = 0;
		list_remove(&user->job->link);
		list_remove(&user->link);
		list_append(&lines->users, &user->link);
		lines->running++;
		advance(user);
	}
}

static void on_answer(struct helper_task *task, const void *data, size_t size, int *fd,
		      uint32_t fds)
{
	struct lines_user *user = list_item(task, struct lines_user, task);
	const size_t head = offsetof(struct lines_answer, text);
	const struct lines_answer *answer = data;

	if (size < head || answer->index >= user->order.count)
		return;
	user->file.offset = user->order.offset[answer->index];
	places_read(&user->lines->places, &user->file, answer->count, answer->text, size - head);
}

/* What a helper gave up on, or died of, is not tried again. */
static void on_answered(struct helper_task *task, int result)
{
	struct lines_user *user = list_item(task, struct lines_user, task);
	struct lines *lines = user->lines;

	if (result == -ENOENT || result == -EFBIG || result == -EPIPE || result == -ETIMEDOUT)
		places_put_no_file(&lines->places, &user->file);
	for (uint32_t i = 0; i < user->order.count && result == 0; i++) {
		user->file.offset = user->order.offset[i];
		if (!places_get(&lines->places, &user->file))
			places_put_none(&lines->places, &user->file);
	}
	if (result == 0 || result == -ENOENT || result == -EFBIG)
		advance(user);
	else
		finish(user);
	start(lines);
}

int lines_new(struct helpers *helpers, uint32_t kind,
	      void (*done)(void *data, const struct symbol_job *job), void *data,
	      struct lines **ret)
{
	struct lines *lines = calloc(1, sizeof(*lines));

	if (!lines)
		return -ENOMEM;
	lines->helpers = helpers;
	lines->kind = kind;
	lines->done = done;
	lines->data = data;
	lines->jobs.total = LIMIT_LINES_JOBS;
	list_init(&lines->users);
	*ret = lines;
	return 0;
}

struct lines *lines_free(struct lines *lines)
{
	struct lines_user *user;
	struct symbol_job *job;

	while (lines && (user = list_first(&lines->users, struct lines_user, link))) {
		list_remove(&user->link);
		if (user->job)
			helpers_cancel(lines->helpers, &user->task);
		symbol_job_free(user->job);
		while ((job = list_first(&user->waiting, struct symbol_job, link))) {
			list_remove(&job->link);
			symbol_job_free(job);
		}
		free(user);
	}
	if (lines) {
		quota_release(&lines->jobs);
		places_clear(&lines->places);
	}
	free(lines);
	return NULL;
}

int lines_add(struct lines *lines, struct symbol_job *job)
{
	struct lines_user *user;

	places_bound(&lines->places);
	user = quota_take(&lines->jobs, job->user, 1) ? user_of(lines, job->user) : NULL;
	if (!user) {
		symbol_job_free(job);
		return -EBUSY;
	}
	first_unknown(lines, job);
	job->lined = count_lined(job);
	list_append(&user->waiting, &job->link);
	start(lines);
	return 0;
}

bool lines_busy(const struct lines *lines)
{
	return lines->jobs.used > 0;
}
