/* Which user answers for a process, in user namespaces and outside. */
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "daemon/proc/owner.h"

#define SOMEBODY 54321 /* whom only root can become */
#define A_UID	 100007

struct child {
	pid_t pid;
	int hear;
	char said;
};

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return written;
}

/* Whoever makes a namespace has ids in the one around it. */
static bool enter_namespace(void)
{
	char uids[32], gids[32];

	snprintf(uids, sizeof(uids), "0 %u 1", geteuid());
	snprintf(gids, sizeof(gids), "0 %u 1", getegid());
	return unshare(CLONE_NEWUSER) == 0 && write_file("/proc/self/setgroups", "deny") &&
	       write_file("/proc/self/uid_map", uids) && write_file("/proc/self/gid_map", gids);
}

/* A child in so many user namespaces, one in the other; it says whether it could make them. */
static struct child child_start(uid_t uid, int namespaces)
{
	struct child child;
	int pipes[2];

	assert_int_equal(pipe(pipes), 0);
	child.pid = fork();
	if (child.pid == 0) {
		char said = 'y';

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (geteuid() != uid && setresuid(uid, uid, uid) < 0)
			said = 'n';
		prctl(PR_SET_DUMPABLE, 1); /* else its files in /proc are root's */
		for (int i = 0; i < namespaces && said == 'y'; i++)
			said = enter_namespace() ? 'y' : 'n';
		if (write(pipes[1], &said, 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &child.said, 1), 1);
	close(pipes[0]);
	close(pipes[1]);
	return child;
}

static void child_end(const struct child *child)
{
	kill(child->pid, SIGKILL);
	waitpid(child->pid, NULL, 0);
}

static void outside_of_namespaces_it_is_the_uid(void **state)
{
	struct child child = child_start(geteuid(), 0);

	assert_int_equal(owner_of((uint32_t)child.pid, A_UID), A_UID);
	assert_int_equal(owner_of_process((uint32_t)child.pid), geteuid());
	child_end(&child);
	assert_int_equal(owner_of((uint32_t)child.pid, A_UID), A_UID);
}

static void in_namespaces_it_is_who_made_the_outermost(void **state)
{
	uid_t uid = geteuid() ? geteuid() : SOMEBODY;

	for (int namespaces = 1; namespaces < 4; namespaces++) {
		struct child child = child_start(uid, namespaces);

		if (child.said == 'y')
			assert_int_equal(owner_of((uint32_t)child.pid, A_UID), uid);
		child_end(&child);
		if (child.said != 'y')
			skip();
	}
}

static void a_namespace_of_root_makes_nobody_root(void **state)
{
	struct child child;

	if (geteuid())
		skip();
	child = child_start(0, 1);
	if (child.said == 'y')
		assert_int_equal(owner_of((uint32_t)child.pid, A_UID), A_UID);
	child_end(&child);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outside_of_namespaces_it_is_the_uid),
		cmocka_unit_test(in_namespaces_it_is_who_made_the_outermost),
		cmocka_unit_test(a_namespace_of_root_makes_nobody_root),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
