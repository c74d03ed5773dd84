/* test_helper: tasks of helpers that answer, hang, end early, or are more than fit. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/helper/helper.h"
#include "daemon/helper/spawn.h"

#define DEADLINE_MS 60000
#define LONG_MS	    600000
#define PER_USER    2

enum { ANSWER, HANG, END, MANY, UNDO, KEEP, KINDS };

struct world {
	uv_loop_t loop;
	struct helpers *helpers;
	bool closed;
};

struct question {
	struct helper_task task;
	int done, result;
	uint32_t messages, fds;
	char answer[64];
	struct stat file;
};

static int run_echo(int socket, const void *request, size_t size, const int *fd, uint32_t fds)
{
	return helper_say(socket, request, size, fd, fds) < 0 ? -EIO : (int)getpid();
}

_Noreturn static int run_hang(int socket, const void *request, size_t size, const int *fd,
			      uint32_t fds)
{
	for (;;)
		pause();
}

_Noreturn static int run_end(int socket, const void *request, size_t size, const int *fd,
			     uint32_t fds)
{
	_exit(0);
}

static int run_many(int socket, const void *request, size_t size, const int *fd, uint32_t fds)
{
	static const char text[HELPER_MESSAGE];

	for (int i = 0; i < 100; i++)
		if (helper_say(socket, text, sizeof(text), NULL, 0) < 0)
			return -EIO;
	return 100;
}

static int run_undo(int socket, const void *request, size_t size, const int *fd, uint32_t fds)
{
	while (helper_is_wanted(socket))
		usleep(500);
	return write(fd[0], "undone", 6) == 6 ? 0 : -EIO;
}

static const struct helper_kind kinds[KINDS] = {
	[ANSWER] = { .run = run_echo, .per_user = PER_USER },
	[HANG] = { .run = run_hang, .per_user = PER_USER },
	[END] = { .run = run_end, .per_user = PER_USER, .once = true },
	[MANY] = { .run = run_many, .per_user = PER_USER, .once = true },
	[KEEP] = { .run = run_echo, .per_user = 1, .keeps = true },
	[UNDO] = { .run = run_undo, .per_user = 1, .once = true, .undoes = true },
};
static void run_reading(int socket)
{
	helper_run(socket, false);
}

static const struct spawn_role roles[] = { { "ts-test", run_reading } };
static int zygote;

static void on_message(struct helper_task *task, const void *data, size_t size, int *fd,
		       uint32_t fds)
{
	struct question *question = list_item(task, struct question, task);

	question->messages++;
	question->fds += fds;
	snprintf(question->answer, sizeof(question->answer), "%.*s", (int)size, (const char *)data);
	if (fds)
		fstat(fd[0], &question->file);
}

static void on_done(struct helper_task *task, int result)
{
	struct question *question = list_item(task, struct question, task);

	question->done++;
	question->result = result;
}

static int ask(struct world *world, struct question *question, uint32_t kind, uint32_t uid,
	       uint32_t deadline_ms)
{
	*question = (struct question){ .task = { .kind = kind,
						 .uid = uid,
						 .deadline_ms = deadline_ms,
						 .message = on_message,
						 .done = on_done } };
	return helpers_ask(world->helpers, &question->task, "hello", 5, NULL, 0);
}

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	uv_loop_init(&world->loop);
	assert_int_equal(helpers_new(&world->loop, fcntl(zygote, F_DUPFD_CLOEXEC, 3),
				     (struct helper_roles){ 0 }, &world->helpers),
			 0);
	*state = world;
	return 0;
}

static void on_closed(void *data)
{
	((struct world *)data)->closed = true;
}

static int teardown(void **state)
{
	struct world *world = *state;

	helpers_close(world->helpers, on_closed, world);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_true(world->closed);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	free(world);
	return 0;
}

#define WAIT_UNTIL(world, condition)                                                               \
	do {                                                                                       \
		uint64_t wait_end = uv_hrtime() + DEADLINE_MS * 1000000ull;                        \
		while (!(condition) && uv_hrtime() < wait_end) {                                   \
			uv_run(&(world)->loop, UV_RUN_NOWAIT);                                     \
			usleep(500);                                                               \
		}                                                                                  \
		assert_true(condition);                                                            \
	} while (0)

static uint32_t stuck(const struct world *world)
{
	struct helpers_stats stats;

	helpers_stats(world->helpers, &stats);
	return stats.stuck;
}

static void an_answer_comes_with_its_descriptors(void **state)
{
	struct world *world = *state;
	struct question question = { .task = { .kind = ANSWER,
					       .deadline_ms = LONG_MS,
					       .message = on_message,
					       .done = on_done } };
	_cleanup_(closep) int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	struct stat null;

	fstat(fd, &null);
	assert_int_equal(helpers_ask(world->helpers, &question.task, "hello", 5, &fd, 1), 0);
	assert_int_equal(question.done, 0);
	WAIT_UNTIL(world, question.done);
	assert_true(question.result > 0);
	assert_int_equal(question.messages, 1);
	assert_string_equal(question.answer, "hello");
	assert_int_equal(question.fds, 1);
	assert_int_equal(question.file.st_rdev, null.st_rdev);
}

static void an_answer_may_be_long(void **state)
{
	struct world *world = *state;
	struct question question;

	assert_int_equal(ask(world, &question, MANY, 0, LONG_MS), 0);
	WAIT_UNTIL(world, question.done);
	assert_int_equal(question.result, 100);
	assert_int_equal(question.messages, 100);
}

static int ask_undo(struct world *world, struct question *question, int fd, uint32_t deadline_ms)
{
	*question = (struct question){ .task = { .kind = UNDO,
						 .deadline_ms = deadline_ms,
						 .message = on_message,
						 .done = on_done } };
	return helpers_ask(world->helpers, &question->task, "", 0, &fd, 1);
}

/* And until it has, its user's next one waits. */
static void one_that_undoes_is_told_and_not_killed(void **state)
{
	struct world *world = *state;
	struct question late, next;
	char text[6];
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_int_equal(ask_undo(world, &late, ends[1], 100), 0);
	assert_int_equal(ask_undo(world, &next, ends[1], LONG_MS), 0);
	WAIT_UNTIL(world, late.done);
	assert_int_equal(late.result, -ETIMEDOUT);
	assert_int_equal(read(ends[0], text, sizeof(text)), sizeof(text));
	assert_memory_equal(text, "undone", sizeof(text));
	WAIT_UNTIL(world, next.task.helper && !stuck(world));
	helpers_cancel(world->helpers, &next.task);
	assert_int_equal(read(ends[0], text, sizeof(text)), sizeof(text));
	WAIT_UNTIL(world, !stuck(world));
	close(ends[0]);
	close(ends[1]);
}

static void one_helper_serves_many_tasks(void **state)
{
	struct world *world = *state;
	struct question first, second;

	assert_int_equal(ask(world, &first, ANSWER, 0, LONG_MS), 0);
	WAIT_UNTIL(world, first.done);
	assert_int_equal(ask(world, &second, ANSWER, 1, LONG_MS), 0);
	WAIT_UNTIL(world, second.done);
	assert_int_equal(first.result, second.result);
}

static int who_does(struct world *world, uint32_t kind, uint32_t uid)
{
	struct question question;

	assert_int_equal(ask(world, &question, kind, uid, LONG_MS), 0);
	WAIT_UNTIL(world, question.done);
	return question.result;
}

/* Of three helpers the one that did it before; or another one in its place, if it had nothing to do
 * for a while, on a busy machine, and was let go. */
static void expect_again(struct world *world, uint32_t kind, uint32_t uid, const int helper[3],
			 int nth)
{
	struct question question;
	struct helpers_stats stats;

	assert_int_equal(ask(world, &question, kind, uid, LONG_MS), 0);
	helpers_stats(world->helpers, &stats);
	assert_in_range(stats.running, 1, 3);
	WAIT_UNTIL(world, question.done);
	for (int i = 0; i < 3; i++)
		assert_true(i == nth || question.result != helper[i]);
}

static void what_is_kept_is_for_one_kind_and_user(void **state)
{
	struct world *world = *state;
	int helper[3];

	helper[0] = who_does(world, KEEP, 1);
	helper[1] = who_does(world, KEEP, 2);
	helper[2] = who_does(world, ANSWER, 1);
	assert_int_not_equal(helper[0], helper[1]);
	assert_int_not_equal(helper[2], helper[0]);
	assert_int_not_equal(helper[2], helper[1]);
	expect_again(world, KEEP, 1, helper, 0);
	expect_again(world, KEEP, 2, helper, 1);
	expect_again(world, ANSWER, 2, helper, 2);
}

static void a_helper_that_hangs_is_killed_and_replaced(void **state)
{
	struct world *world = *state;
	struct question hang, next;
	struct helpers_stats stats;

	assert_int_equal(ask(world, &hang, HANG, 0, 100), 0);
	WAIT_UNTIL(world, hang.done);
	assert_int_equal(hang.result, -ETIMEDOUT);
	assert_int_equal(ask(world, &next, ANSWER, 0, LONG_MS), 0);
	WAIT_UNTIL(world, next.done);
	assert_true(next.result > 0);
	WAIT_UNTIL(world, stuck(world) == 0);
	helpers_stats(world->helpers, &stats);
	assert_int_equal(stats.late, 1);
	assert_int_equal(stats.died, 0);
	assert_int_equal(hang.done, 1);
}

static void a_helper_that_ends_fails_its_task_only(void **state)
{
	struct world *world = *state;
	struct question end, next;
	struct helpers_stats stats;

	assert_int_equal(ask(world, &end, END, 0, LONG_MS), 0);
	assert_int_equal(ask(world, &next, ANSWER, 0, LONG_MS), 0);
	WAIT_UNTIL(world, end.done && next.done);
	assert_int_equal(end.result, -EPIPE);
	assert_true(next.result > 0);
	helpers_stats(world->helpers, &stats);
	assert_int_equal(stats.died, 1);
}

static void who_hangs_them_takes_places_of_his_own(void **state)
{
	struct world *world = *state;
	struct question hang[64], other, same;
	struct helpers_stats stats;

	for (size_t i = 0; i < ARRAY_SIZE(hang); i++)
		assert_int_equal(ask(world, &hang[i], HANG, 1, LONG_MS), 0);
	assert_int_equal(ask(world, &other, HANG, 2, 100), 0);
	WAIT_UNTIL(world, other.done);
	assert_int_equal(ask(world, &same, ANSWER, 1, LONG_MS), 0);
	WAIT_UNTIL(world, same.done);
	assert_true(same.result > 0);
	helpers_stats(world->helpers, &stats);
	assert_in_range(stats.running, PER_USER, PER_USER + 3);
	for (size_t i = 0; i < ARRAY_SIZE(hang); i++) {
		assert_int_equal(hang[i].done, 0);
		helpers_cancel(world->helpers, &hang[i].task);
	}
	assert_int_equal(hang[0].done, 0);
}

static void what_waits_too_long_is_late_too(void **state)
{
	struct world *world = *state;
	struct question hang[PER_USER + 3];

	for (size_t i = 0; i < ARRAY_SIZE(hang); i++)
		assert_int_equal(ask(world, &hang[i], HANG, 1, 100), 0);
	for (size_t i = 0; i < ARRAY_SIZE(hang); i++) {
		WAIT_UNTIL(world, hang[i].done);
		assert_int_equal(hang[i].result, -ETIMEDOUT);
	}
}

static void helpers_without_work_end(void **state)
{
	struct world *world = *state;
	struct question question;
	struct helpers_stats stats;

	assert_int_equal(ask(world, &question, ANSWER, 0, LONG_MS), 0);
	WAIT_UNTIL(world, question.done);
	WAIT_UNTIL(world, (helpers_stats(world->helpers, &stats), stats.running == 0));
	WAIT_UNTIL(world, kill(question.result, 0) < 0 && errno == ESRCH);
}

/* Stands for the daemon: starts a helper that hangs, and tells its pid. */
static void body_daemon(int say)
{
	struct world world = { 0 };
	struct question echo, hang;

	if (spawn_start(roles, 1, &zygote) < 0)
		_exit(1);
	uv_loop_init(&world.loop);
	helpers_new(&world.loop, zygote, (struct helper_roles){ 0 }, &world.helpers);
	ask(&world, &echo, ANSWER, 0, LONG_MS);
	while (!echo.done)
		uv_run(&world.loop, UV_RUN_ONCE);
	ask(&world, &hang, HANG, 0, LONG_MS); /* by the same one */
	if (write(say, &echo.result, sizeof(echo.result)) != sizeof(echo.result))
		_exit(1);
	for (;;)
		pause();
}

/* Somebody else may be slow to reap it. */
static bool is_over(pid_t pid)
{
	char path[64], text[256] = "", *state;
	_cleanup_(closep) int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || read(fd, text, sizeof(text) - 1) <= 0)
		return true;
	state = strrchr(text, ')');
	return state && (state[2] == 'Z' || state[2] == 'X');
}

static void helpers_end_with_the_daemon_however_it_ends(void **state)
{
	struct world *world = *state;
	int pair[2], status, helper;
	pid_t pid;

	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	pid = fork();
	if (pid == 0)
		body_daemon(pair[1]);
	assert_int_equal(read(pair[0], &helper, sizeof(helper)), sizeof(helper));
	assert_false(is_over(helper));
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	WAIT_UNTIL(world, is_over(helper));
	close(pair[0]);
	close(pair[1]);
}

#define STORY(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(an_answer_comes_with_its_descriptors),
		STORY(an_answer_may_be_long),
		STORY(one_helper_serves_many_tasks),
		STORY(what_is_kept_is_for_one_kind_and_user),
		STORY(one_that_undoes_is_told_and_not_killed),
		STORY(a_helper_that_hangs_is_killed_and_replaced),
		STORY(a_helper_that_ends_fails_its_task_only),
		STORY(who_hangs_them_takes_places_of_his_own),
		STORY(what_waits_too_long_is_late_too),
		STORY(helpers_without_work_end),
		STORY(helpers_end_with_the_daemon_however_it_ends),
	};

	helper_kinds(kinds, KINDS);
	if (spawn_start(roles, 1, &zygote) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
