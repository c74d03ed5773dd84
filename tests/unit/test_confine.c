/* test_confine: helper processes: what they get of the daemon, how they end, and what they can give
 * up. */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "daemon/helper/confine.h"

#define X32 0x40000000 /* of the numbers of that ABI */

/* In a process of its own, as all of it is final; 0: as expected. */
static void in_child(int (*act)(void))
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0)
		_exit(act());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static int give_up_rights(void)
{
	char line[128];
	FILE *file;

	if (confine_rights() < 0)
		return 1;
	file = fopen("/proc/self/status", "r");
	while (file && fgets(line, sizeof(line), file))
		if (strncmp(line, "CapEff:", 7) == 0 && strtoull(line + 7, NULL, 16))
			return 2;
	return 0;
}

static int give_up_writing(void)
{
	if (confine_rights() < 0 || confine_opening() < 0)
		return 1;
	if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
		return 2;
	if (open("/dev/null", O_WRONLY | O_CLOEXEC) >= 0 || errno != EACCES)
		return 3;
	if (open("/dev/null", O_RDWR | O_CREAT | O_CLOEXEC, 0600) >= 0 || errno != EACCES)
		return 4;
	return open("/tmp", O_RDWR | O_TMPFILE, 0600) >= 0 ? 5 : 0;
}

static int give_up_calls(void)
{
	static const uint16_t calls[] = { SYS_read, SYS_getpid, SYS_exit_group };

	if (confine_rights() < 0 || confine_calls(calls, ARRAY_SIZE(calls)) < 0)
		return 1;
	if (syscall(SYS_getpid) <= 0)
		return 2;
	if (socket(AF_UNIX, SOCK_STREAM, 0) >= 0 || errno != EPERM)
		return 3;
	return fork() >= 0 ? 4 : 0;
}

static int give_up_others(void)
{
	const pid_t parent = getppid();
	struct rlimit limit;
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	if (fcntl(fd, F_SETOWN, parent) < 0 || confine_rights() < 0 || confine_to_itself() < 0)
		return 1;
	if (prlimit(0, RLIMIT_NOFILE, NULL, &limit) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
		return 2;
	if (prlimit(parent, RLIMIT_NOFILE, NULL, &limit) == 0 || errno != EPERM)
		return 3;
	if (prlimit(parent, RLIMIT_NOFILE, &limit, NULL) == 0 || errno != EPERM)
		return 4;
	if (fcntl(fd, F_SETOWN, parent) == 0 || errno != EPERM)
		return 5;
	if (fcntl(fd, F_SETOWN_EX, &(struct f_owner_ex){ F_OWNER_PID, parent }) == 0 ||
	    errno != EPERM)
		return 6;
	if (fcntl(fd, F_SETSIG, SIGKILL) == 0 || errno != EPERM)
		return 7;
	if (ioctl(fd, FIOSETOWN, &parent) == 0 || errno != EPERM)
		return 8;
	if (ioctl(fd, SIOCSPGRP, &parent) == 0 || errno != EPERM)
		return 9;
	return syscall(X32 + SYS_getpid) >= 0 || errno != EPERM ? 10 : 0;
}

static int give_up_memory(void)
{
	const struct confine_bounds bounds = {
		.memory_bytes = 64 << 20, .file_bytes = 1 << 20, .cpu_s = 10, .files = 16
	};

	if (confine_resources(&bounds) < 0)
		return 1;
	return mmap(NULL, 128 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED
		       ? 0
		       : 2;
}

static void rights_are_given_up(void **state)
{
	in_child(give_up_rights);
}

static void others_are_left_alone(void **state)
{
	in_child(give_up_others);
}

static void files_are_opened_for_reading_only(void **state)
{
	in_child(give_up_writing);
}

/* The sanitizers need both. */
static void calls_and_memory_are_given_up(void **state)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip();
#endif
	in_child(give_up_calls);
	in_child(give_up_memory);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(rights_are_given_up),
		cmocka_unit_test(others_are_left_alone),
		cmocka_unit_test(files_are_opened_for_reading_only),
		cmocka_unit_test(calls_and_memory_are_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
