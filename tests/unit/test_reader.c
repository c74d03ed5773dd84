/* test_reader: what is kept of a process from one stack request to the next. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/stack/reader.h"

static struct readers readers;

static int clear(void **state)
{
	readers_tick(&readers, UINT64_MAX);
	return 0;
}

static struct reader *used_reader(uint32_t pid)
{
	struct reader *reader = readers_take(&readers, pid);

	assert_non_null(reader);
	assert_int_equal(reader_check(reader), 0);
	assert_null(reader->native);
	assert_int_equal(native_new(pid, NULL, &reader->native), 0);
	return reader;
}

static void is_kept_for_the_same_process(void **state)
{
	struct reader *reader = used_reader((uint32_t)getpid()), *other;

	/* Each request has one of its own. */
	other = readers_take(&readers, (uint32_t)getpid());
	assert_ptr_not_equal(other, reader);
	reader_free(other);
	readers_put(&readers, reader, 1);
	assert_ptr_equal(readers_take(&readers, (uint32_t)getpid()), reader);
	assert_int_equal(reader_check(reader), 0);
	assert_non_null(reader->native);
	readers_put(&readers, reader, 1);
}

static void the_oldest_goes_for_a_new_one(void **state)
{
	struct reader *first = used_reader((uint32_t)getpid());

	readers_put(&readers, first, 10);
	for (uint32_t i = 0; i < LIMIT_STACK_KEPT; i++)
		readers_put(&readers, readers_take(&readers, UINT32_MAX - i), 11 + i);
	for (uint32_t i = 0; i < LIMIT_STACK_KEPT; i++)
		assert_int_not_equal(readers.kept[i]->pid, (uint32_t)getpid());
}

static void nothing_is_kept_for_long(void **state)
{
	readers_put(&readers, used_reader((uint32_t)getpid()), 1);
	readers_tick(&readers, 1 + LIMIT_STACK_KEEP_NS);
	assert_non_null(readers.kept[0]);
	readers_tick(&readers, 2 + LIMIT_STACK_KEEP_NS);
	assert_null(readers.kept[0]);
}

static void another_program_has_other_names(void **state)
{
	char ready[2] = "";
	int to[2], from[2];
	struct reader *reader;
	pid_t child;

	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(to[0], STDIN_FILENO);
		dup2(from[1], STDOUT_FILENO);
		execl("/bin/sh", "sh", "-c", "echo 1; read x; exec cat", NULL);
		_exit(127);
	}
	assert_int_equal(read(from[0], ready, 2), 2);
	reader = used_reader((uint32_t)child);
	assert_int_equal(reader_check(reader), 0);
	assert_non_null(reader->native);
	/* cat copies once it runs. */
	assert_int_equal(write(to[1], "\n2\n", 3), 3);
	assert_int_equal(read(from[0], ready, 2), 2);
	assert_int_equal(ready[0], '2');
	assert_int_equal(reader_check(reader), 0);
	assert_null(reader->native);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_int_equal(reader_check(reader), -ESRCH);
	reader_free(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(is_kept_for_the_same_process, clear),
		cmocka_unit_test_teardown(the_oldest_goes_for_a_new_one, clear),
		cmocka_unit_test_teardown(nothing_is_kept_for_long, clear),
		cmocka_unit_test_teardown(another_program_has_other_names, clear),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
