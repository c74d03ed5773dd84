/* test_opener: what it opens for somebody without rights, what it refuses, and when it ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/helper/confine.h"
#include "daemon/proc/memory.h"
#include "daemon/proc/opener.h"
#include "daemon/proc/owner.h"
#include "daemon/proc/procfs.h"

#define WAIT_MS 60000
#define NOBODY	65534

static const char secret[] = "a secret of this process";

/* What others have, who wait until their pipe ends. */
struct other {
	pid_t pid;
	int end;
};

static void other_start(struct other *other, uid_t uid, bool guarded)
{
	int end[2], ready[2];
	char byte;

	assert_int_equal(pipe2(end, O_CLOEXEC), 0);
	assert_int_equal(pipe2(ready, O_CLOEXEC), 0);
	other->pid = fork();
	if (other->pid == 0) {
		close(end[1]);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (uid && (setgid(uid) < 0 || setuid(uid) < 0))
			_exit(1);
		prctl(PR_SET_DUMPABLE, !guarded);
		if (write(ready[1], "", 1) == 1)
			(void)!read(end[0], &byte, 1);
		_exit(0);
	}
	close(end[0]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ready[1]);
	other->end = end[1];
}

/* It says that it is ready a moment before it waits. */
static void other_wait_reading(const struct other *other)
{
	char path[64], call[8] = "";

	snprintf(path, sizeof(path), "/proc/%d/syscall", other->pid);
	for (int ms = 0; ms < WAIT_MS && strncmp(call, "0 0x", 4); ms++) {
		_cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC);

		assert_true(read(fd, call, sizeof(call) - 1) > 0);
		poll(NULL, 0, 1);
	}
	assert_memory_equal(call, "0 0x", 4);
}

static void other_end(struct other *other)
{
	kill(other->pid, SIGKILL);
	close(other->end);
	waitpid(other->pid, NULL, 0);
}

/* In a process with an opener that has no right itself: 0 is as expected, a number says what was
 * not. */
static void with_opener_of(enum opener_asker asker, int (*act)(void *data), void *data)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		/* Below the descriptors of the test nothing may be left open by mistake. */
		if (opener_start(asker, -1) < 0 || confine_rights() < 0)
			_exit(100);
		_exit(act(data));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void without_rights(int (*act)(void *data), void *data)
{
	with_opener_of(OPENER_OF_HELPER, act, data);
}

static int ask_path(const char *path)
{
	const struct opener_request request = { .kind = OPENER_PATH, .path = path };

	return opener_ask(&request, NULL);
}

static int ask_file(const char *path)
{
	struct opener_request request = { .kind = OPENER_FILE };
	_cleanup_(closep) int fd = ask_path(path);

	request.file = fd;
	return fd < 0 ? fd : opener_ask(&request, NULL);
}

static int see_others(void *data)
{
	const struct other *other = data;
	char text[sizeof(secret)], line[4096];
	uint32_t pid = (uint32_t)other->pid;
	int fd;

	snprintf(line, sizeof(line), "/proc/%u/maps", pid);
	if (open(line, O_RDONLY | O_CLOEXEC) >= 0)
		return 1;
	fd = opener_open(OPENER_MAPS, pid);
	if (read(fd, line, sizeof(line)) <= 0 || !memchr(line, '-', sizeof("0123456789abcdef")))
		return 2;
	if (memory_read(pid, (uintptr_t)secret, text, sizeof(text)) != sizeof(text) ||
	    memcmp(text, secret, sizeof(text)) != 0)
		return 3;
	if (memory_read(pid, 8, text, sizeof(text)) != -EFAULT)
		return 4;
	/* It reads from its pipe. */
	if (procfs_opened(OPENER_CALL, pid, line, sizeof(line)) <= 0 || strncmp(line, "0 0x", 4))
		return 5;
	return owner_of(pid, NOBODY) == NOBODY ? 0 : 6;
}

static void test_descriptors_for_who_has_no_rights(void **state)
{
	struct other other;

	if (geteuid())
		skip();
	other_start(&other, NOBODY, false);
	other_wait_reading(&other);
	without_rights(see_others, &other);
	other_end(&other);
}

static int see_no_secrets(void *data)
{
	const struct other *other = data;
	const uint64_t at = (uintptr_t)secret;
	char text[sizeof(secret)];

	if (memory_read((uint32_t)other[0].pid, at, text, sizeof(text)) != -EACCES)
		return 1;
	return memory_read((uint32_t)other[1].pid, at, text, sizeof(text)) != -EACCES ? 2 : 0;
}

static void test_no_memory_of_root_or_of_agents(void **state)
{
	struct other other[2];

	if (geteuid())
		skip();
	other_start(&other[0], 0, false);
	other_start(&other[1], NOBODY, true);
	without_rights(see_no_secrets, other);
	other_end(&other[0]);
	other_end(&other[1]);
}

/* A file that is named as a driver library, and mapped. */
static int see_gpu(void *data)
{
	const struct other *other = data;
	char text[sizeof(secret)];

	return memory_read((uint32_t)other->pid, (uintptr_t)secret, text, sizeof(text)) ==
			       sizeof(text)
		       ? 0
		       : 1;
}

static void test_memory_of_who_uses_a_gpu(void **state)
{
	char path[] = "/tmp/test_opener.XXXXXX", file[64];
	struct other other;
	void *mapped;
	int fd;

	if (geteuid())
		skip();
	assert_non_null(mkdtemp(path));
	snprintf(file, sizeof(file), "%s/libcuda.so.1", path);
	fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	assert_int_equal(ftruncate(fd, 4096), 0);
	mapped = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(mapped, MAP_FAILED);
	other_start(&other, 0, false);
	without_rights(see_gpu, &other);
	other_end(&other);
	munmap(mapped, 4096);
	close(fd);
	unlink(file);
	rmdir(path);
}

/* What this process maps there, a page. */
static int ask_mapped(const void *at)
{
	const struct opener_request request = { .kind = OPENER_MAPPED,
						.pid = (uint32_t)getpid(),
						.start = (uintptr_t)at,
						.end = (uintptr_t)at + 4096 };

	return opener_ask(&request, NULL);
}

static int see_programs_only(void *data)
{
	if (ask_file("/proc/self/exe") != -ELOOP)
		return 1; /* a link of its own */
	if (ask_file("/bin/sh") < 0)
		return 2;
	if (ask_file("/etc/shadow") != -EACCES)
		return 3;
	if (ask_path("/dev/null") != -EACCES || ask_path("/etc") != -EACCES)
		return 4;
	if (ask_file("/../../../../etc/../etc/shadow") != -EACCES)
		return 5;
	/* Whoever has a descriptor of it, though not for reading, needs no right to its folders. */
	if (ask_path("/etc/passwd") != -EACCES || ask_mapped(data) != -EACCES)
		return 6;
	return ask_path("/bin/sh") < 0 ? 7 : 0;
}

static void test_no_files_but_programs(void **state)
{
	int fd = open("/etc/passwd", O_RDONLY | O_CLOEXEC);
	void *mapped;

	if (geteuid())
		skip();
	mapped = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 0);
	assert_ptr_not_equal(mapped, MAP_FAILED);
	without_rights(see_programs_only, mapped);
	munmap(mapped, 4096);
	close(fd);
}

/* Of a process that a helper may see all of. */
static int see_owners_only(void *data)
{
	uint32_t pid = (uint32_t)((const struct other *)data)->pid;

	for (uint32_t kind = 0; kind < OPENER_THREADS; kind++) {
		const struct opener_request request = {
			.kind = kind, .pid = pid, .path = "/bin/sh", .file = STDIN_FILENO
		};
		char text[16];
		ssize_t r = kind < OPENER_STAT ? opener_ask(&request, NULL)
					       : opener_read(kind, pid, text, sizeof(text));

		if (r != -EACCES)
			return 1 + (int)kind;
	}
	if (owner_of(pid, NOBODY) != NOBODY)
		return 90;
	return opener_open(OPENER_THREADS, pid) < 0 ? 91 : 0;
}

static void test_the_loop_sees_nothing_of_others(void **state)
{
	struct other other;

	if (geteuid())
		skip();
	other_start(&other, NOBODY, false);
	with_opener_of(OPENER_OF_LOOP, see_owners_only, &other);
	other_end(&other);
}

/* Nothing of it is answered with a descriptor, and none of it ends the opener. */
static void test_messages_that_are_no_requests(void **state)
{
	_Alignas(8) char message[8192];
	int pair[2];
	char answer[64];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	for (size_t size = 1; size <= sizeof(message); size *= 2) {
		memset(message, 'x', sizeof(message));
		/* Kind and pid; then a path without an end. */
		memcpy(message, (uint32_t[2]){ size % 3 ? OPENER_PATH : OPENER_KINDS, 0 }, 8);
		assert_int_equal(send(pair[0], message, size, 0), size);
		assert_true(opener_serve(pair[1]));
		assert_true(recv(pair[0], answer, sizeof(answer), MSG_DONTWAIT) > 12);
		assert_true(*(int32_t *)(void *)(answer + 8) < 0);
	}
	close(pair[0]);
	assert_false(opener_serve(pair[1]));
	close(pair[1]);
}

static void test_ends_with_its_asker(void **state)
{
	struct pollfd end = { .events = POLLIN };
	int pair[2];
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		if (opener_start(OPENER_OF_HELPER, pair[1]) < 0)
			_exit(1);
		(void)!write(pair[1], "", 1);
		pause();
	}
	close(pair[1]);
	assert_int_equal(read(pair[0], &(char){ 0 }, 1), 1);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* It has the other end, too. */
	end.fd = pair[0];
	assert_int_equal(poll(&end, 1, WAIT_MS), 1);
	assert_int_equal(read(pair[0], &(char){ 0 }, 1), 0);
	close(pair[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_descriptors_for_who_has_no_rights),
		cmocka_unit_test(test_no_memory_of_root_or_of_agents),
		cmocka_unit_test(test_memory_of_who_uses_a_gpu),
		cmocka_unit_test(test_no_files_but_programs),
		cmocka_unit_test(test_the_loop_sees_nothing_of_others),
		cmocka_unit_test(test_messages_that_are_no_requests),
		cmocka_unit_test(test_ends_with_its_asker),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
