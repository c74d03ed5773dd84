/* Where the library maps its memory for light mode: near the driver, in the first place that is
 * free; once, where a policy forbids to make code. Each story is a process of its own. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "inject/light.h"

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#endif
#define REFUSE_EXEC_GAIN 1
#define DRIVER		 0x300000000000ull /* nothing else is near */
#define NEAR		 (1ull << 30)
#define NOT_HERE	 3 /* this kernel lacks what the story needs */

static unsigned int maps, protects; /* calls since the last look */
static unsigned int taken;	    /* places that are, of the next */
static int forbidden;		    /* what making code fails with, as by SELinux; 0: it does not */

/* In place of the C library's (see CMakeLists.txt). */
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset);
int __wrap_mprotect(void *at, size_t size, int protection);

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
	maps += at != NULL;
	if (at && taken) {
		taken--;
		errno = EEXIST;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, at, size, protection, flags, fd, offset);
}

int __wrap_mprotect(void *at, size_t size, int protection)
{
	protects++;
	if (forbidden && protection & PROT_EXEC) {
		errno = forbidden;
		return -1;
	}
	return (int)syscall(SYS_mprotect, at, size, protection);
}

static void map_driver(void)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/tmp/test_light_region.%d", getpid());
	if (mkdir(path, 0700) < 0)
		abort();
	strcat(path, "/libcuda.so.1");
	fd = open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0700);
	if (fd < 0 || ftruncate(fd, 4096) < 0)
		abort();
	if (mmap((void *)DRIVER, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, fd, 0) ==
	    MAP_FAILED)
		abort();
	unlink(path);
	*strrchr(path, '/') = '\0';
	rmdir(path);
}

/* In a child: 0 if the story is right. */
static int story(int (*run)(struct ts_light *told))
{
	struct ts_light told;
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		map_driver();
		maps = protects = 0;
		_exit(run(&told));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int is_near(const struct ts_light *told)
{
	return told->region && told->region - (DRIVER - NEAR) < 2 * NEAR && !told->text[0] ? 0 : 1;
}

static int first(struct ts_light *told)
{
	return !light_start(true, told) || maps != 1 || protects != 1 || is_near(told);
}

static int further(struct ts_light *told)
{
	taken = 1500;
	return !light_start(true, told) || maps != 1501 || protects != 1 || is_near(told);
}

static int refused(struct ts_light *told)
{
	return !light_start(true, told) || maps != 1 || protects != 1 || told->region ||
	       !strstr(told->text, "a policy forbids to make some");
}

static int refused_by_selinux(struct ts_light *told)
{
	forbidden = EACCES;
	return refused(told);
}

static int refused_by_the_process(struct ts_light *told)
{
	if (prctl(PR_SET_MDWE, REFUSE_EXEC_GAIN, 0, 0, 0) < 0)
		return NOT_HERE;
	return refused(told);
}

static void first_place_that_is_free_is_taken(void **state)
{
	assert_int_equal(story(first), 0);
	assert_int_equal(story(further), 0);
}

static void where_code_is_forbidden_one_place_is_tried(void **state)
{
	int r = story(refused_by_the_process);

	assert_int_equal(story(refused_by_selinux), 0);
	if (r == NOT_HERE)
		print_message("before Linux 6.3 no process can forbid it itself\n");
	else
		assert_int_equal(r, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(first_place_that_is_free_is_taken),
		cmocka_unit_test(where_code_is_forbidden_one_place_is_tried),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
