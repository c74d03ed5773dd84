/* Helper: tasks and the processes that do them, on the loop. A task waits in the share of its kind
 * and user, or a helper has it. A helper that was killed keeps its place in the share until its
 * socket ends, which is when the process is gone. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/cleanup.h"
#include "daemon/helper/helper.h"
#include "daemon/helper/internal.h"
#include "daemon/helper/spawn.h"
#include "daemon/limits.h"

#define CHECK_MS	50
#define IDLE_MS		2000
#define KEEP_MS		10000
#define MESSAGES_A_TURN 16

struct helper_share {
	struct list link;
	uint32_t kind, uid;
	uint32_t running, waiting;
	struct list queue; /* struct helper_task */
};

struct helper {
	struct list link;
	struct helpers *helpers;
	uv_poll_t poll;
	int socket, pidfd;	    /* pidfd -1: it has not started yet */
	struct helper_task *task;   /* NULL: it waits for one, or was killed */
	struct helper_share *share; /* of its task, also after it was killed */
	uint64_t idle_ms;
	uint32_t kind, uid; /* of what it keeps */
	bool keeps;
	bool killed;
	bool undoes; /* it is told to end instead */
};

struct helpers {
	uv_loop_t *loop;
	int zygote;
	struct helper_roles roles;
	struct list helpers, shares;
	uint32_t count, waiting, tasks;
	uv_timer_t timer;
	bool closing;
	uint32_t handles;
	void (*closed)(void *data);
	void *data;
	struct helpers_stats stats;
	_Alignas(struct helper_head) char message[sizeof(struct helper_head) + HELPER_MESSAGE];
	_Alignas(struct helper_head) char request[sizeof(struct helper_head) + HELPER_MESSAGE];
};

static void helpers_advance(struct helpers *helpers);

static void share_free_if_done(struct helper_share *share)
{
	if (share->running || share->waiting)
		return;
	list_remove(&share->link);
	free(share);
}

static struct helper_share *share_of(struct helpers *helpers, uint32_t kind, uint32_t uid)
{
	struct helper_share *share;

	list_for_each(share, &helpers->shares, link)
		if (share->kind == kind && share->uid == uid)
			return share;
	share = calloc(1, sizeof(*share));
	if (!share)
		return NULL;
	share->kind = kind;
	share->uid = uid;
	list_init(&share->queue);
	list_append(&helpers->shares, &share->link);
	return share;
}

static bool share_traces(const struct helper_share *share)
{
	return helper_kind(share->kind)->traces;
}

/* Takes it out of where it is: nobody has it any more. */
static void task_end(struct helpers *helpers, struct helper_task *task)
{
	if (!task->helper) {
		list_remove(&task->link);
		task->share->waiting--;
		helpers->waiting--;
		share_free_if_done(task->share);
	}
	while (task->fds)
		close(task->fd[--task->fds]);
	free(TAKE(task->fd));
	free(TAKE(task->request));
	task->helper = NULL;
	task->share = NULL;
	helpers->tasks--;
}

static void task_done(struct helpers *helpers, struct helper_task *task, int result)
{
	task_end(helpers, task);
	task->done(task, result);
}

static void helpers_free(struct helpers *helpers)
{
	void (*closed)(void *data) = helpers->closed;
	void *data = helpers->data;

	close(helpers->zygote);
	free(helpers);
	if (closed)
		closed(data);
}

static void helpers_handle_closed(struct helpers *helpers)
{
	if (--helpers->handles == 0)
		helpers_free(helpers);
}

static void helper_closed(uv_handle_t *handle)
{
	struct helper *helper = handle->data;
	struct helpers *helpers = helper->helpers;

	close(helper->socket);
	closep(&helper->pidfd);
	free(helper);
	helpers_handle_closed(helpers);
}

static void helper_leave_share(struct helper *helper)
{
	struct helper_share *share = TAKE(helper->share);

	if (!share)
		return;
	share->running--;
	share_free_if_done(share);
}

/* The process has ended, or ends as soon as it sees that its socket did. */
static void helper_drop(struct helper *helper)
{
	struct helpers *helpers = helper->helpers;

	helper_leave_share(helper);
	if (helper->killed)
		helpers->stats.stuck--;
	helpers->count--;
	list_remove(&helper->link);
	uv_close((uv_handle_t *)&helper->poll, helper_closed);
}

static void helper_kill(struct helper *helper)
{
	if (!helper->killed)
		helper->helpers->stats.stuck++;
	helper->killed = true;
	helper->task = NULL;
	if (helper->undoes)
		shutdown(helper->socket, SHUT_WR);
	else if (helper->pidfd >= 0)
		spawn_kill(helper->pidfd);
}

static void helper_finish(struct helper *helper, int result)
{
	struct helper_task *task = TAKE(helper->task);
	struct helpers *helpers = helper->helpers;
	bool once = helper_kind(task->kind)->once;

	helper_leave_share(helper);
	helper->idle_ms = uv_now(helpers->loop);
	if (once)
		helper_drop(helper);
	task_done(helpers, task, result);
	helpers_advance(helpers);
}

static void helper_over(struct helper *helper)
{
	struct helper_task *task = TAKE(helper->task);
	struct helpers *helpers = helper->helpers;

	if (!helper->killed && !(task && helper_kind(task->kind)->may_die)) {
		helpers->stats.died++;
		helpers->stats.died_ms = uv_now(helpers->loop);
	}
	helper_drop(helper);
	if (task)
		task_done(helpers, task, -EPIPE);
	helpers_advance(helpers);
}

/* False: no more for now, or it is gone. */
static bool helper_read(struct helper *helper)
{
	struct helpers *helpers = helper->helpers;
	const struct helper_head *head = (const struct helper_head *)helpers->message;
	int fd[SPAWN_FDS];
	uint32_t fds, i;
	ssize_t n;

	n = spawn_receive(helper->socket, helpers->message, sizeof(helpers->message), MSG_DONTWAIT,
			  fd, &fds);
	if (n == -EAGAIN)
		return false;
	if (helper->task && n >= (ssize_t)sizeof(*head) && head->more && helper->task->message)
		helper->task->message(helper->task, head + 1, (size_t)n - sizeof(*head), fd, fds);
	for (i = 0; i < fds; i++)
		closep(&fd[i]);
	if (n < (ssize_t)sizeof(*head)) {
		helper_over(helper);
		return false;
	}
	if (!helper->task || head->more)
		return true;
	helper_finish(helper, head->result);
	return false;
}

static void on_helper(uv_poll_t *poll, int status, int events)
{
	struct helper *helper = poll->data;
	int r = helper->pidfd < 0 ? spawn_take_pidfd(helper->socket, &helper->pidfd) : 0;

	if (r == -EAGAIN)
		return;
	if (r < 0) {
		helper_over(helper);
		return;
	}
	if (helper->killed && !helper->undoes)
		spawn_kill(helper->pidfd);
	for (int i = 0; i < MESSAGES_A_TURN && helper_read(helper); i++)
		;
}

static int helper_new(struct helpers *helpers, const struct helper_share *share,
		      struct helper **ret)
{
	_cleanup_(freep) struct helper *helper = calloc(1, sizeof(*helper));
	_cleanup_(closep) int socket = -1;
	int r;

	if (!helper)
		return -ENOMEM;
	r = spawn_child(helpers->zygote,
			share_traces(share) ? helpers->roles.traces : helpers->roles.reads,
			&socket);
	if (r < 0)
		return r;
	r = uv_poll_init(helpers->loop, &helper->poll, socket);
	if (r < 0)
		return r;
	helper->poll.data = helper;
	helper->helpers = helpers;
	helper->socket = TAKE_FD(socket);
	helper->pidfd = -1;
	helpers->handles++;
	helpers->count++;
	list_append(&helpers->helpers, &helper->link);
	uv_poll_start(&helper->poll, UV_READABLE, on_helper);
	*ret = TAKE(helper);
	return 0;
}

/* The one that keeps something for this share, or one that keeps nothing. Any one will do where
 * there is no room for a new one. */
static struct helper *helper_idle(struct helpers *helpers, const struct helper_share *share)
{
	struct helper *helper, *best = NULL;

	/* Each of those does one task. */
	if (share_traces(share))
		return NULL;
	list_for_each(helper, &helpers->helpers, link) {
		if (helper->task || helper->killed)
			continue;
		if (helper->keeps && helper->kind == share->kind && helper->uid == share->uid)
			return helper;
		if (!helper->keeps || (!best && helpers->count >= LIMIT_HELPERS))
			best = helper;
	}
	return best;
}

static int helper_give(struct helper *helper, struct helper_task *task)
{
	struct helpers *helpers = helper->helpers;
	struct helper_head *head = (struct helper_head *)helpers->request;
	ssize_t n;

	*head = (struct helper_head){ .kind = task->kind };
	if (task->size)
		memcpy(head + 1, task->request, task->size);
	n = spawn_send(helper->socket, head, sizeof(*head) + task->size, task->fd, task->fds);
	if (n < 0)
		return (int)n;
	list_remove(&task->link);
	task->share->waiting--;
	helpers->waiting--;
	task->share->running++;
	task->helper = helper;
	helper->task = task;
	helper->share = task->share;
	helper->undoes = helper_kind(task->kind)->undoes;
	if (helper_kind(task->kind)->keeps) {
		helper->keeps = true;
		helper->kind = task->kind;
		helper->uid = task->uid;
	}
	while (task->fds)
		close(task->fd[--task->fds]);
	free(TAKE(task->fd));
	free(TAKE(task->request));
	return 0;
}

/* The share with the fewest running: so who has many waits for who has none. */
static struct helper_share *share_next(struct helpers *helpers)
{
	struct helper_share *share, *best = NULL;

	list_for_each(share, &helpers->shares, link)
		if (share->waiting && share->running < helper_kind(share->kind)->per_user &&
		    (!best || share->running < best->running))
			best = share;
	return best;
}

static void timer_closed(uv_handle_t *handle)
{
	helpers_handle_closed(handle->data);
}

static void helpers_end(struct helpers *helpers)
{
	struct helper *helper;

	if (uv_is_closing((uv_handle_t *)&helpers->timer))
		return;
	while ((helper = list_first(&helpers->helpers, struct helper, link))) {
		helper_kill(helper);
		helper_drop(helper);
	}
	uv_close((uv_handle_t *)&helpers->timer, timer_closed);
}

/* Gives waiting tasks to helpers. What cannot be given now is tried again by the timer. */
static void helpers_advance(struct helpers *helpers)
{
	struct helper_share *share;

	while ((share = share_next(helpers))) {
		struct helper *helper = helper_idle(helpers, share);

		if (!helper && helpers->count >= LIMIT_HELPERS)
			break;
		if (!helper && helper_new(helpers, share, &helper) < 0)
			break;
		if (helper_give(helper, list_first(&share->queue, struct helper_task, link)) < 0) {
			helper_kill(helper);
			break;
		}
	}
	if (helpers->closing && !helpers->tasks)
		helpers_end(helpers);
}

/* Tasks of one kind have the same time, so the first of a share is the first to be late. */
static struct helper_task *task_late(struct helpers *helpers, uint64_t now_ms)
{
	struct helper_share *share;

	list_for_each(share, &helpers->shares, link) {
		struct helper_task *task = list_first(&share->queue, struct helper_task, link);

		if (task && task->due_ms <= now_ms)
			return task;
	}
	return NULL;
}

/* False: all are in time, and needed. */
static bool helpers_check(struct helpers *helpers, uint64_t now_ms)
{
	struct helper_task *task = task_late(helpers, now_ms);
	struct helper *helper;

	list_for_each(helper, &helpers->helpers, link) {
		if (task)
			break;
		if (helper->task && helper->task->due_ms <= now_ms) {
			task = helper->task;
			helper_kill(helper);
		} else if (!helper->task && !helper->killed &&
			   helper->idle_ms + (helper->keeps ? KEEP_MS : IDLE_MS) <= now_ms) {
			helper_drop(helper);
			return true;
		}
	}
	if (!task)
		return false;
	helpers->stats.late++;
	task_done(helpers, task, -ETIMEDOUT);
	return true;
}

static void on_check(uv_timer_t *timer)
{
	struct helpers *helpers = timer->data;

	while (helpers_check(helpers, uv_now(helpers->loop)))
		;
	helpers_advance(helpers);
	if (list_empty(&helpers->helpers) && !helpers->tasks)
		uv_timer_stop(timer);
}

static int task_copy(struct helper_task *task, const void *request, size_t size, const int *fd,
		     uint32_t fds)
{
	task->request = malloc(size + 1);
	task->fd = calloc(fds + 1, sizeof(*task->fd));
	task->size = size;
	task->fds = 0;
	if (!task->request || !task->fd)
		return -ENOMEM;
	memcpy(task->request, request, size);
	for (; task->fds < fds; task->fds++) {
		task->fd[task->fds] = fcntl(fd[task->fds], F_DUPFD_CLOEXEC, 3);
		if (task->fd[task->fds] < 0)
			return -errno;
	}
	return 0;
}

int helpers_ask(struct helpers *helpers, struct helper_task *task, const void *request, size_t size,
		const int *fd, uint32_t fds)
{
	struct helper_share *share;
	int r;

	if (helpers->closing)
		return -ECANCELED;
	if (size > HELPER_MESSAGE || fds > SPAWN_FDS)
		return -EMSGSIZE;
	share = share_of(helpers, task->kind, task->uid);
	if (!share)
		return -ENOMEM;
	if (helpers->waiting >= LIMIT_HELPER_TASKS ||
	    share->waiting >= LIMIT_HELPER_TASKS_PER_UID) {
		helpers->stats.refused++;
		share_free_if_done(share);
		return -EBUSY;
	}
	r = task_copy(task, request, size, fd, fds);
	task->share = share;
	task->helper = NULL;
	task->due_ms = uv_now(helpers->loop) + task->deadline_ms;
	list_append(&share->queue, &task->link);
	share->waiting++;
	helpers->waiting++;
	helpers->tasks++;
	if (r < 0) {
		task_end(helpers, task);
		return r;
	}
	if (!uv_is_active((uv_handle_t *)&helpers->timer))
		uv_timer_start(&helpers->timer, on_check, CHECK_MS, CHECK_MS);
	helpers_advance(helpers);
	return 0;
}

void helpers_cancel(struct helpers *helpers, struct helper_task *task)
{
	if (!task->share)
		return;
	if (task->helper)
		helper_kill(task->helper);
	task_end(helpers, task);
	helpers_advance(helpers);
}

int helpers_new(uv_loop_t *loop, int zygote, struct helper_roles roles, struct helpers **ret)
{
	struct helpers *helpers = calloc(1, sizeof(*helpers));

	if (!helpers)
		return -ENOMEM;
	helpers->loop = loop;
	helpers->zygote = zygote;
	helpers->roles = roles;
	list_init(&helpers->helpers);
	list_init(&helpers->shares);
	uv_timer_init(loop, &helpers->timer);
	helpers->timer.data = helpers;
	helpers->handles = 1;
	*ret = helpers;
	return 0;
}

void helpers_close(struct helpers *helpers, void (*closed)(void *data), void *data)
{
	helpers->closing = true;
	helpers->closed = closed;
	helpers->data = data;
	helpers_advance(helpers);
}

void helpers_stats(const struct helpers *helpers, struct helpers_stats *ret)
{
	*ret = helpers->stats;
	ret->running = helpers->count;
}
