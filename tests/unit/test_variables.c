/* What of a process's environment says what it is part of. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/proc/procfs.h"
#include "daemon/proc/variables.h"

static void expect(const char *environment, size_t size, const char *chosen)
{
	char text[PROCFS_VARIABLES_SIZE];

	memset(text, 'x', sizeof(text));
	variables_choose(environment, size, text, sizeof(text));
	assert_string_equal(text, chosen);
}

/* With a NUL behind each, as /proc has them. */
#define CHOSEN(environment, chosen) expect(environment, sizeof(environment), chosen)

static void only_some_variables_are_kept(void **state)
{
	CHOSEN("HOME=/root\0RANK=3\0AWS_SECRET=x\0WORLD_SIZE=8", "RANK=3\nWORLD_SIZE=8\n");
	CHOSEN("RANK=", "RANK=\n");
	CHOSEN("XRANK=1\0RANKS=2\0RANK\0=3\0RAN=4", "RANK\n");
	/* One would be two, and the other is cut off. */
	CHOSEN("POD_NAME=a\nRANK=7\0LOCAL_RANK=1", "LOCAL_RANK=1\n");
	expect("RANK=3\0WORLD_SIZE=8", strlen("RANK=3") + 1 + strlen("WORLD_SIZE=8"), "RANK=3\n");
	expect("", 0, "");
}

static void what_has_no_room_is_left_out(void **state)
{
	static char environment[3000] = "POD_NAME=";
	size_t size;

	memset(environment + strlen(environment), 'y', 2000);
	size = strlen(environment) + 1;
	memcpy(environment + size, "RANK=5", sizeof("RANK=5"));
	expect(environment, size + sizeof("RANK=5"), "RANK=5\n");
}

static void those_of_a_process_are_read(void **state)
{
	static const char *const environment[] = { "RANK=11", "PATH=/bin", "SLURM_JOB_ID=4", NULL };
	struct procfs_process found;
	int ready[2], hold[2];
	char byte;
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(hold), 0);
	pid = fork();
	if (pid == 0) {
		dup2(hold[0], 0);
		dup2(ready[1], 1);
		close(hold[1]);
		execle("/bin/sh", "sh", "-c", "echo; read line", NULL, environment);
		_exit(1);
	}
	close(hold[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	assert_int_equal(procfs_read((uint32_t)pid, &found), 0);
	assert_string_equal(found.variables, "RANK=11\nSLURM_JOB_ID=4\n");
	close(hold[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_some_variables_are_kept),
		cmocka_unit_test(what_has_no_room_is_left_out),
		cmocka_unit_test(those_of_a_process_are_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
