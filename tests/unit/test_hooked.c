/* test_hooked: who has changed code where a probe would go is found, and nothing else is told. */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/cleanup.h"
#include "daemon/broker/broker.h"
#include "daemon/probe/hooked.h"

#define PAGE	4096
#define SIZE	(3 * PAGE)
#define PLACE	(PAGE + 100) /* of the code in the file */
#define CODE	"\x55\x48\x89\xe5"
#define BYTES	4
#define LOOKS	100
#define THREADS 3

static struct broker *broker;
static struct hooked *hooked;
static int file = -1;

static struct hooked_code code_at(uint64_t offset, const void *byte)
{
	struct hooked_code code = { .offset = offset, .size = BYTES };

	memcpy(code.byte, byte, BYTES);
	return code;
}

/* A process that has changed `size` bytes of its mapping and waits; `ret_at`: where it maps. */
struct change {
	int protection; /* of the mapping in the end */
	int flags;
	off_t at;
	const void *bytes;
	size_t size;
};

static void map_and_wait(const struct change *change, int told)
{
	char *mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, change->flags,
			    change->flags & MAP_ANONYMOUS ? -1 : file, 0);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memcpy(mapped + change->at, change->bytes, change->size);
	mprotect(mapped, SIZE, change->protection);
	if (write(told, &mapped, sizeof(mapped)) != sizeof(mapped))
		_exit(1);
	for (;;)
		pause();
}

static pid_t start(const struct change *change, uint64_t *ret_at)
{
	int told[2];
	pid_t pid;

	assert_int_equal(pipe(told), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		map_and_wait(change, told[1]);
	close(told[1]);
	assert_int_equal(read(told[0], ret_at, sizeof(*ret_at)), sizeof(*ret_at));
	close(told[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int look(uint32_t pid, uint32_t *ret_pid)
{
	const struct hooked_code code[] = { code_at(100, "\0\0\0\0"), code_at(PLACE, CODE) };

	return hooked_look(hooked, file, code, 2, pid, ret_pid);
}

static void changed_code_is_found(void **state)
{
	static const struct {
		struct change change;
		bool found;
	} rows[] = {
		{ { PROT_READ | PROT_EXEC, MAP_PRIVATE, PLACE, "\xe9\1\2\3\4", 5 }, true },
		{ { PROT_READ | PROT_EXEC, MAP_PRIVATE, PLACE + 3, "\xe6", 1 }, true },
		{ { PROT_READ | PROT_EXEC, MAP_PRIVATE, 100, "\xe9", 1 }, true },
		/* A breakpoint, the same bytes, and others beside them. */
		{ { PROT_READ | PROT_EXEC, MAP_PRIVATE, PLACE, "\xcc", 1 }, false },
		{ { PROT_READ | PROT_EXEC, MAP_PRIVATE, PLACE, CODE, BYTES }, false },
		{ { PROT_READ | PROT_EXEC, MAP_PRIVATE, PLACE + BYTES, "\xe9", 1 }, false },
		{ { PROT_READ | PROT_EXEC, MAP_PRIVATE, PLACE - 1, "\xe9", 1 }, false },
		/* Nothing runs there. */
		{ { PROT_READ | PROT_WRITE, MAP_PRIVATE, PLACE, "\xe9", 1 }, false },
		{ { PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, PLACE, "\xe9", 1 }, false },
		/* It cannot be told. */
		{ { PROT_EXEC, MAP_PRIVATE, PLACE, "\xe9", 1 }, true },
	};

	if (!hooked)
		skip();
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t at;
		pid_t pid = start(&rows[i].change, &at);
		uint32_t found = 99;

		assert_int_equal(look(0, &found), rows[i].found ? -ETXTBSY : 0);
		assert_int_equal(found, rows[i].found ? (uint32_t)pid : 0);
		assert_int_equal(look((uint32_t)pid, &found), rows[i].found ? -ETXTBSY : 0);
		assert_int_equal(look((uint32_t)getppid(), &found), 0);
		end(pid);
		assert_int_equal(look(0, &found), 0);
	}
}

static void one_of_many_is_found(void **state)
{
	static const struct change same = { PROT_READ | PROT_EXEC, MAP_PRIVATE, PLACE, CODE,
					    BYTES },
				   other = { PROT_READ | PROT_EXEC, MAP_PRIVATE, PLACE, "\xe9", 1 };
	pid_t pid[40], middle = 0;
	uint32_t found;
	uint64_t at;

	if (!hooked)
		skip();
	for (int i = 0; i < 40; i++)
		pid[i] = start(&same, &at);
	assert_int_equal(look(0, &found), 0);
	for (int i = 0; i < 40; i += 13) {
		end(pid[i]);
		pid[i] = start(&other, &at);
		middle = pid[i];
		assert_int_equal(look((uint32_t)middle, &found), -ETXTBSY);
		assert_int_equal(found, middle);
		assert_int_equal(look((uint32_t)pid[i + 1 < 40 ? i + 1 : i - 1], &found), 0);
	}
	assert_int_equal(look(0, &found), -ETXTBSY);
	for (int i = 0; i < 40; i++)
		end(pid[i]);
	assert_int_equal(look(0, &found), 0);
}

/* Takes its process's lock: that of the test now and then, until `stop`, any other all the time. */
static void *map_often(void *stop)
{
	while (!stop || !atomic_load((atomic_bool *)stop)) {
		munmap(mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0),
		       64 * PAGE);
		if (stop)
			usleep(100);
	}
	return NULL;
}

static pid_t start_mapping_often(const struct change *change)
{
	pthread_t thread[THREADS];
	int told[2];
	uint64_t at;
	pid_t pid;

	assert_int_equal(pipe(told), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		for (size_t i = 0; i < THREADS; i++)
			pthread_create(&thread[i], NULL, map_often, NULL);
		map_and_wait(change, told[1]);
	}
	close(told[1]);
	assert_int_equal(read(told[0], &at, sizeof(at)), sizeof(at));
	close(told[0]);
	return pid;
}

/* Neither theirs nor our own, for which the kernel does not wait. */
static void a_lock_that_is_taken_often_is_no_hook(void **state)
{
	static const struct change same = { PROT_READ | PROT_EXEC, MAP_PRIVATE, PLACE, CODE,
					    BYTES },
				   other = { PROT_READ | PROT_EXEC, MAP_PRIVATE, PLACE, "\xe9", 1 };
	atomic_bool stop = false;
	uint32_t found;
	pthread_t own;
	pid_t pid[3];

	if (!hooked)
		skip();
	for (size_t i = 0; i < 3; i++)
		pid[i] = start_mapping_often(&same);
	assert_int_equal(pthread_create(&own, NULL, map_often, &stop), 0);
	for (int i = 0; i < LOOKS; i++) {
		int r = look(0, &found);

		if (r != 0)
			fail_msg("look %d: %d, process %u", i, r, found);
	}
	end(pid[1]);
	pid[1] = start_mapping_often(&other);
	for (int i = 0; i < LOOKS; i++) {
		assert_int_equal(look(0, &found), -ETXTBSY);
		assert_int_equal(found, pid[1]);
	}
	atomic_store(&stop, true);
	pthread_join(own, NULL);
	for (size_t i = 0; i < 3; i++)
		end(pid[i]);
}

/* What the daemon never asks. */
static ssize_t forge(int fd[3], uint64_t address, const struct hooked_range *range,
		     const struct hooked_code *code)
{
	const uint32_t reader = (uint32_t)syscall(SYS_gettid);
	const struct hooked_look asked = {
		.address = address,
		.range = (uint64_t)(uintptr_t)range,
		.code = (uint64_t)(uintptr_t)code,
		.ranges = 1,
		.codes = 1,
	};
	_cleanup_(closep) int iterator = bpf_iter_create(fd[2]);
	uint32_t said[4];

	assert_true(iterator >= 0);
	assert_int_equal(bpf_map_update_elem(fd[1], &reader, &asked, BPF_ANY), 0);
	return read(iterator, said, sizeof(said));
}

/* Whoever has taken the daemon over learns by it what code is in the file that he has, and nothing
 * of memory. */
static void memory_is_not_to_be_guessed(void **state)
{
	static const struct change secret = { PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
					      0, "key", 4 },
				   data = { PROT_READ | PROT_WRITE, MAP_PRIVATE, 0, "key", 4 },
				   text = { PROT_READ | PROT_EXEC, MAP_PRIVATE, 0, "key", 4 };
	static const struct {
		const struct change *change;
		ssize_t wrong; /* what a wrong guess is answered */
	} rows[] = { { &secret, 0 }, { &data, 0 }, { &text, sizeof(struct hooked_found) } };
	void *own = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, file, 0);
	void *nothing = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fd[3];

	if (!hooked)
		skip();
	assert_int_equal(broker_hooked(broker, fd), 0);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct hooked_code right = code_at(0, "key"), wrong = code_at(0, "kex");
		struct hooked_range range = { 0 };
		uint64_t at;

		range.pid = (uint32_t)start(rows[i].change, &at);
		range.start = at;
		assert_int_equal(forge(fd, (uint64_t)(uintptr_t)own, &range, &right), 0);
		assert_int_equal(forge(fd, (uint64_t)(uintptr_t)own, &range, &wrong),
				 rows[i].wrong);
		/* By memory of no file he has no file: all is answered alike. */
		assert_int_equal(forge(fd, (uint64_t)(uintptr_t)nothing, &range, &right),
				 forge(fd, (uint64_t)(uintptr_t)nothing, &range, &wrong));
		end((pid_t)range.pid);
	}
	for (int i = 0; i < 3; i++)
		close(fd[i]);
	munmap(own, PAGE);
	munmap(nothing, PAGE);
}

static int set_up(void **state)
{
	static const struct broker_config config = { .calibrated = 64 };
	char path[] = "/tmp/test_hooked_XXXXXX";

	file = mkstemp(path);
	unlink(path);
	if (file < 0 || ftruncate(file, SIZE) < 0 || pwrite(file, CODE, BYTES, PLACE) != BYTES ||
	    broker_start(&config, &broker) < 0)
		return -1;
	hooked = hooked_new(broker);
	return 0;
}

static int tear_down(void **state)
{
	hooked_free(hooked);
	broker_free(broker);
	close(file);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(changed_code_is_found),
		cmocka_unit_test(one_of_many_is_found),
		cmocka_unit_test(a_lock_that_is_taken_often_is_no_hook),
		cmocka_unit_test(memory_is_not_to_be_guessed),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
