/* Lines: one job of a user at a time, and users take turns, so that somebody whose files keep a
 * helper busy until its deadline keeps waiting only himself. A file whose look-up did not end is
 * put off, and looked at again later, some times; jobs that lack nothing else are parked meanwhile.
 */
#include "daemon/symbol/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/clock.h"
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

/* A file that was put off. */
struct late {
	uint64_t next_ns;
	uint32_t tries;
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
	uint64_t now_ns;    /* of the last tick */
	uint64_t next_ns;   /* the earliest of those put off */
	struct map late;    /* struct late, by file */
	struct list parked; /* struct symbol_job */
	struct quota parking;
	uint64_t dropped;
};

/* What a job lacks. */
struct lack {
	struct symbol_frame *unknown; /* the first one that can be asked for, or NULL */
	bool put_off;		      /* there are others */
};

static void on_answer(struct helper_task *task, const void *data, size_t size, int *fd,
		      uint32_t fds);
static void on_answered(struct helper_task *task, int result);

static struct map_key key_of_file(const struct cache_key *key)
{
	struct cache_key file = *key;

	file.offset = 0;
	return map_key_of(&file, sizeof(file), 0);
}

static bool is_put_off(const struct lines *lines, const struct cache_key *key)
{
	const struct late *late =
		lines->late.count ? map_get(&lines->late, key_of_file(key)) : NULL;

	return late && late->next_ns > lines->now_ns;
}

/* Sets the places that are known. Frame 0 is the function that was called, which nobody asks for
 * the line of. */
static struct lack look_up(struct lines *lines, struct symbol_job *job)
{
	struct lack lack = { .unknown = NULL };

	for (uint32_t i = 1; i < job->count; i++) {
		struct symbol_frame *frame = &job->frame[i];

		frame->places = NULL;
		if (frame->kind != FRAME_NATIVE || !frame->keyed)
			continue;
		frame->places = places_get(&lines->places, &frame->key);
		if (!frame->places && is_put_off(lines, &frame->key))
			lack.put_off = true;
		else if (!frame->places && !lack.unknown)
			lack.unknown = frame;
	}
	return lack;
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
	struct lack lack = look_up(lines, job);

	return !lack.unknown && !lack.put_off;
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

static void drop(struct lines *lines, struct symbol_job *job)
{
	lines->dropped++;
	symbol_job_free(job);
}

/* Its jobs give their places to others, and get one again when it is time. */
static void park(struct lines *lines, struct symbol_job *job)
{
	quota_give(&lines->jobs, job->user, 1);
	if (quota_take(&lines->parking, job->user, 1))
		list_append(&lines->parked, &job->link);
	else
		drop(lines, job);
}

static void finish(struct lines_user *user)
{
	struct symbol_job *job = TAKE(user->job);
	struct lines *lines = user->lines;
	bool put_off = look_up(lines, job).put_off;
	uint32_t lined = count_lined(job);

	lines->running--;
	/* By what was found for this job, or for others while it waited. */
	if (lined > job->lined)
		lines->done(lines->data, job);
	job->lined = lined;
	if (put_off)
		park(lines, job);
	else
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

static void put_on(struct lines *lines, const struct cache_key *file)
{
	free(map_remove(&lines->late, key_of_file(file)));
}

/* What helpers give up on, or die of, again and again has no lines. */
static void put_off(struct lines *lines, const struct cache_key *file)
{
	const struct map_key key = key_of_file(file);
	_cleanup_(freep) struct late *made = NULL;
	struct late *late = map_get(&lines->late, key);

	if (!late && lines->late.count < LIMIT_LINES_LATE)
		late = made = calloc(1, sizeof(*made));
	if (!late || ++late->tries == LIMIT_LINES_TRIES ||
	    (made && map_put(&lines->late, key, made) < 0)) {
		places_put_no_file(&lines->places, file);
		if (!made)
			put_on(lines, file);
		return;
	}
	TAKE(made);
	late->next_ns = lines->now_ns + (LIMIT_LINES_PAUSE_MS * NS_PER_MS << 2 * (late->tries - 1));
	if (late->next_ns < lines->next_ns)
		lines->next_ns = late->next_ns;
}

/* Each turn ends with one file less, unless what is known was too much and is forgotten. */
static void advance(struct lines_user *user)
{
	const struct symbol_frame *unknown;

	while ((unknown = look_up(user->lines, user->job).unknown)) {
		if (user->asked++ > user->job->count)
			break;
		if (ask(user, unknown) == 0)
			return;
		put_off(user->lines, &user->file);
	}
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

static void on_answered(struct helper_task *task, int result)
{
	struct lines_user *user = list_item(task, struct lines_user, task);
	struct lines *lines = user->lines;

	if (result == -ENOENT || result == -EFBIG)
		places_put_no_file(&lines->places, &user->file);
	else if (result < 0)
		put_off(lines, &user->file);
	if (result == 0 || result == -ENOENT || result == -EFBIG)
		put_on(lines, &user->file);
	for (uint32_t i = 0; i < user->order.count && result == 0; i++) {
		user->file.offset = user->order.offset[i];
		if (!places_get(&lines->places, &user->file))
			places_put_none(&lines->places, &user->file);
	}
	advance(user);
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
	lines->next_ns = UINT64_MAX;
	lines->parking.total = LIMIT_LINES_PARKED;
	list_init(&lines->users);
	list_init(&lines->parked);
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
	while (lines && (job = list_first(&lines->parked, struct symbol_job, link))) {
		list_remove(&job->link);
		symbol_job_free(job);
	}
	if (lines) {
		for (size_t i = 0; i < lines->late.size; i++)
			free(lines->late.slot[i].value);
		map_clear(&lines->late);
		quota_release(&lines->parking);
		quota_release(&lines->jobs);
		places_clear(&lines->places);
	}
	free(lines);
	return NULL;
}

static int add(struct lines *lines, struct symbol_job *job)
{
	struct lines_user *user;

	if (!quota_take(&lines->jobs, job->user, 1)) {
		drop(lines, job);
		return -EBUSY;
	}
	user = user_of(lines, job->user);
	if (!user) {
		quota_give(&lines->jobs, job->user, 1);
		drop(lines, job);
		return -ENOMEM;
	}
	list_append(&user->waiting, &job->link);
	return 0;
}

int lines_add(struct lines *lines, struct symbol_job *job)
{
	int r;

	places_bound(&lines->places);
	look_up(lines, job);
	job->lined = count_lined(job);
	r = add(lines, job);
	start(lines);
	return r;
}

static uint64_t find_next(const struct lines *lines)
{
	uint64_t next_ns = UINT64_MAX;

	for (size_t i = 0; i < lines->late.size; i++) {
		const struct late *late = lines->late.slot[i].value;

		if (late && late->next_ns > lines->now_ns && late->next_ns < next_ns)
			next_ns = late->next_ns;
	}
	return next_ns;
}

void lines_tick(struct lines *lines, uint64_t now_ns)
{
	struct symbol_job *job;

	lines->now_ns = now_ns;
	if (now_ns < lines->next_ns)
		return;
	lines->next_ns = find_next(lines);
	list_for_each(job, &lines->parked, link) {
		struct lack lack = look_up(lines, job);

		if (lack.put_off && !lack.unknown)
			continue;
		list_remove(&job->link);
		quota_give(&lines->parking, job->user, 1);
		add(lines, job);
	}
	start(lines);
}

uint64_t lines_dropped(const struct lines *lines)
{
	return lines->dropped;
}

bool lines_busy(const struct lines *lines)
{
	return lines->jobs.used > 0;
}
