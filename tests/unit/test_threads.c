/* The threads of a process in a PID namespace of its own: asked for by the numbers that it knows,
 * whether the kernel translates them or all must be read. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/exact/threads.h"

#define THREADS 150 /* several slices */

struct world {
	pid_t pid;
	struct threads threads;
};

static void *stay(void *data)
{
	for (;;)
		pause();
	return NULL;
}

/* It has number 1 there, the others the next ones. */
static void inside(int up)
{
	pthread_t thread;

	for (int i = 1; i < THREADS; i++)
		if (pthread_create(&thread, NULL, stay, NULL) != 0)
			_exit(1);
	if (write(up, "", 1) != 1)
		_exit(1);
	stay(NULL);
}

static int begin(void **state)
{
	static struct world world;
	int up[2];
	char byte;

	if (pipe(up) < 0)
		return -1;
	world = (struct world){ .pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL,
						      NULL, NULL) };
	if (world.pid == 0)
		inside(up[1]);
	close(up[1]);
	*state = &world;
	return read(up[0], &byte, 1) == 1 && close(up[0]) == 0 ? 0 : -1;
}

static int end(void **state)
{
	struct world *world = *state;

	kill(world->pid, SIGKILL);
	waitpid(world->pid, NULL, 0);
	threads_clear(&world->threads);
	return 0;
}

/* By what the kernel says of it elsewhere. */
static void assert_is(const struct world *world, uint32_t theirs, uint32_t ours)
{
	char path[64], line[256];
	uint32_t first, last = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%u/status", world->pid, ours);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, "NSpid: %u %u", &first, &last) == 2)
			break;
	fclose(file);
	assert_int_equal(last, theirs);
}

static void test_each_is_found(void **state)
{
	struct world *world = *state;

	for (uint32_t i = 1; i <= THREADS; i++)
		assert_is(
			world, i,
			threads_find(&world->threads, (uint32_t)world->pid, i, i * 1000000000ull));
}

/* Each slice is bounded, and all of them find all. */
static void test_a_search_finds_all(void **state)
{
	struct world *world = *state;
	uint32_t slices = 0;

	do {
		threads_search(&world->threads, (uint32_t)world->pid);
		slices++;
	} while (world->threads.at && slices < THREADS);
	assert_in_range(slices, 3, 4);
	assert_int_equal(world->threads.ours.count, THREADS);
	for (uint32_t i = 1; i <= THREADS; i++)
		assert_is(world, i, threads_find(&world->threads, (uint32_t)world->pid, i, 1));
}

static void test_what_was_learned_holds(void **state)
{
	struct world *world = *state;
	const uint32_t gone = 30000;

	/* It has ended, or is another's. */
	assert_int_equal(threads_find(&world->threads, (uint32_t)world->pid, gone, 1), gone);
	threads_learn(&world->threads, gone, 77);
	assert_int_equal(threads_find(&world->threads, (uint32_t)world->pid, gone, 1), 77);
	for (uint32_t i = 1; i < 20000; i++)
		threads_learn(&world->threads, i, i + 5);
	assert_in_range(world->threads.ours.count, 1, 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_each_is_found, begin, end),
		cmocka_unit_test_setup_teardown(test_a_search_finds_all, begin, end),
		cmocka_unit_test_setup_teardown(test_what_was_learned_holds, begin, end),
	};

	if (geteuid() != 0) {
		fprintf(stderr, "skipped: a PID namespace needs root\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
