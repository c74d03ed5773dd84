/* test_broker: what the broker does when it is asked for what the daemon never would: nothing. And
 * what it does if asked properly. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "daemon/broker/broker.h"
#include "daemon/helper/spawn.h"
#include "daemon/library/library.h"

#define DEADLINE_MS   60000
#define RING_BYTES    (1 << 20)

#define SITES	      3
#define SAMPLERS_MOST 256
#define FIRST_TASK    3 /* after ".", ".." and the main thread's */
#define HELD_MAX      (BROKER_LINKERS + 4)

struct sites {
	struct broker_request request;
	struct broker_site site[SITES];
};

static struct sites good_link(void)
{
	const uint16_t function = library_cuda.function[0].number;

	return (struct sites){
		.request = { .kind = BROKER_LINK,
			     .pid = 7,
			     .group = 1,
			     .copy = 63,
			     .value = PROBE_EPOCH_MAX,
			     .sites = 3 },
		.site = { { 16, function, 0, 0, 0 },
			  { 32, function, TS_EVENT_PER_THREAD, 0, 0 },
			  { 48, function, 0, 0, 0 } },
	};
}

static int check(const struct sites *message, uint32_t files)
{
	size_t sites = message->request.sites < 3 ? message->request.sites : 3;

	return broker_check(message, sizeof(message->request) + sites * sizeof(message->site[0]),
			    files);
}

#define BROKEN(change, files)                                                                      \
	do {                                                                                       \
		struct sites message = good_link();                                                \
		change;                                                                            \
		assert_int_equal(check(&message, files), -EBADMSG);                                \
	} while (0)

static void test_requests_are_checked(void **state)
{
	struct sites good = good_link();

	assert_int_equal(check(&good, 1), 0);
	good.request.pid = 0;
	assert_int_equal(check(&good, 1), 0);
	BROKEN(message.request.kind = BROKER_KINDS, 1);
	BROKEN(message.request.kind = BROKER_STUB, 1);
	BROKEN(message.request.pid = 1u << 31, 1);
	BROKEN(message.request.group = PROBE_GROUPS, 1);
	BROKEN(message.request.copy = PROBE_COPIES_MAX, 1);
	BROKEN(message.request.value++, 1);
	BROKEN(message.request.way = PROBE_WAYS, 1);
	BROKEN(message.request.sites = 0, 1);
	BROKEN(message.request.sites = 4, 1);
	BROKEN(message.request.sites = UINT32_MAX, 1);
	BROKEN(message.site[0].offset = 0, 1);
	BROKEN(message.site[1].offset = 16, 1);
	BROKEN(message.site[2].offset = 1ull << 63, 1);
	BROKEN(message.site[1].function = PROBE_FUNCTIONS_MAX, 1);
	BROKEN(message.site[1].function = PROBE_CALIBRATION, 1);
	BROKEN(message.site[1].flags = 1 << 15, 1);
	BROKEN(message.site[1].zero = 1, 1);
	BROKEN(message.site[1].semaphore = 64, 1); /* which functions have none of */
	BROKEN((void)message, 0);
	BROKEN((void)message, 2);
	assert_int_equal(broker_check(&good, sizeof(good) - 1, 1), -EBADMSG);
	assert_int_equal(broker_check(&good, sizeof(good.request) - 1, 1), -EBADMSG);
	assert_int_equal(broker_check("", 0, 0), -EBADMSG);
}

static void test_a_count_is_of_one_process(void **state)
{
	const struct broker_request good = {
		.kind = BROKER_FREED, .pid = 7, .value = 64, .copy = PROBE_FREED_MAX - 1
	};
	struct broker_request request = good;

	assert_int_equal(broker_check(&request, sizeof(request), 1), 0);
	assert_int_equal(broker_check(&request, sizeof(request), 0), -EBADMSG);
	request.pid = 0;
	assert_int_equal(broker_check(&request, sizeof(request), 1), -EBADMSG);
	request = good;
	request.copy++;
	assert_int_equal(broker_check(&request, sizeof(request), 1), -EBADMSG);
	request = good;
	request.value = 1ull << 63;
	assert_int_equal(broker_check(&request, sizeof(request), 1), -EBADMSG);
}

/* A place that a library's code names has a number where a function has flags, and a semaphore. */
static void test_places_of_notes_are_checked(void **state)
{
	struct sites good = good_link();

	for (int i = 0; i < 3; i++)
		good.site[i].function = library_torch_cuda.function[0].number;
	good.site[1].flags = PROBE_NOTES_MAX - 1;
	good.site[1].semaphore = 64;
	assert_int_equal(check(&good, 1), 0);
	good.site[1].semaphore = 1ull << 63;
	assert_int_equal(check(&good, 1), -EBADMSG);
	good.site[1].semaphore = 0;
	assert_int_equal(check(&good, 1), 0);
	good.site[1].flags = PROBE_NOTES_MAX;
	assert_int_equal(check(&good, 1), -EBADMSG);
}

static void test_epochs_wrap_around(void **state)
{
	assert_true(probe_epoch_is_newer(1, 0));
	assert_false(probe_epoch_is_newer(0, 1));
	assert_false(probe_epoch_is_newer(7, 7));
	assert_int_equal(probe_epoch_after(PROBE_EPOCH_MAX), 0);
	assert_true(probe_epoch_is_newer(0, PROBE_EPOCH_MAX));
	assert_false(probe_epoch_is_newer(PROBE_EPOCH_MAX, 0));
	assert_int_equal(PROBE_EPOCH_OF(PROBE_COOKIE(1, 2) | PROBE_COOKIE_EPOCH(PROBE_EPOCH_MAX)),
			 PROBE_EPOCH_MAX);
}

static void test_rings_have_a_size(void **state)
{
	struct sites load = { .request = { .kind = BROKER_LOAD, .value = RING_BYTES } };

	assert_int_equal(check(&load, 0), 0);
	load.request.value = RING_BYTES + 4096;
	assert_int_equal(check(&load, 0), -EBADMSG);
	load.request.value = 1ull << 40;
	assert_int_equal(check(&load, 0), -EBADMSG);
	load.request.value = 0;
	assert_int_equal(check(&load, 0), -EBADMSG);
}

/* The only child of this process. */
static pid_t child_pid(void)
{
	char path[64];
	int pid = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	file = fopen(path, "re");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d", &pid), 1);
	fclose(file);
	return pid;
}

static bool has_ended(const struct broker *broker, int timeout_ms)
{
	struct pollfd life = { .fd = broker_life(broker), .events = POLLIN };

	return poll(&life, 1, timeout_ms) > 0;
}

static struct broker *begin(void)
{
	static const struct broker_config config = { .calibrated = 64 };
	struct broker *broker;

	assert_int_equal(broker_start(&config, &broker), 0);
	return broker;
}

static void end(struct broker *broker)
{
	pid_t pid = child_pid();

	broker_free(broker);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static int ask_link(struct broker *broker, int file, const struct sites *wanted,
		    struct broker_links *ret)
{
	return broker_link(broker, file, &wanted->request, wanted->site, ret);
}

/* A file of that name, which has room for the sites. */
static int make_file(const char *name, char path[64])
{
	char folder[] = "/tmp/test_broker_XXXXXX";
	int fd;

	assert_non_null(mkdtemp(folder));
	snprintf(path, 64, "%s/%s", folder, name);
	fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0700);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 4096), 0);
	return fd;
}

static void remove_file(char path[64])
{
	assert_int_equal(unlink(path), 0);
	*strrchr(path, '/') = '\0';
	assert_int_equal(rmdir(path), 0);
}

static void test_nothing_comes_before_the_programs(void **state)
{
	struct broker *broker = begin();
	struct sites wanted = good_link();
	struct broker_links links;
	char path[64];
	_cleanup_(closep) int file = make_file("libcuda.so.1", path);

	assert_int_equal(ask_link(broker, file, &wanted, &links), -EPERM);
	assert_int_equal(broker_calibrate(broker, (uint32_t)getpid()), -EPERM);
	assert_int_equal(broker_stub(broker, file, 0, (uint32_t)getpid()), -EPERM);
	assert_int_equal(broker_freed(broker, file, 0, (uint32_t)getpid(), 0), -EPERM);
	wanted.request.group = PROBE_GROUPS;
	assert_int_equal(ask_link(broker, file, &wanted, &links), -EPERM);
	assert_false(has_ended(broker, 0));
	remove_file(path);
	end(broker);
}

static void test_its_end_is_noticed(void **state)
{
	struct broker *broker = begin();
	pid_t pid = child_pid();

	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(has_ended(broker, DEADLINE_MS));
	assert_int_equal(broker_calibrate(broker, (uint32_t)getpid()), -EPIPE);
	broker_free(broker);
}

/* What it must not be asked for: also by who can load BPF programs. */
static void refuses_other_files(struct broker *broker)
{
	struct sites wanted = good_link();
	struct broker_links links;
	char path[64];
	_cleanup_(closep) int other = make_file("libother.so.1", path);
	_cleanup_(closep) int memory = memfd_create("libcuda.so.1", MFD_CLOEXEC);
	_cleanup_(closep) int null = open("/dev/null", O_RDONLY | O_CLOEXEC);

	wanted.request.pid = 0;
	assert_int_equal(ftruncate(memory, 4096), 0);
	assert_int_equal(ask_link(broker, other, &wanted, &links), -EPERM);
	assert_int_equal(ask_link(broker, memory, &wanted, &links), -EPERM);
	assert_int_equal(ask_link(broker, null, &wanted, &links), -EPERM);
	remove_file(path);
}

static void release(struct broker_links *links)
{
	assert_true(links->count >= 1);
	while (links->count)
		close(links->fd[--links->count]);
	free(links->fd);
}

/* Also when it has lost its name, which the kernel forgets with the mount that has it. */
static void links_what_is_a_library(struct broker *broker)
{
	struct sites wanted = good_link();
	struct broker_links links;
	char path[64], other[80];
	_cleanup_(closep) int file = make_file("libcuda.so.1", path);

	wanted.request.pid = 0;
	wanted.request.group = library_is_hot(&library_cuda.function[0]) ? PROBE_HOT : PROBE_COLD;
	assert_int_equal(ask_link(broker, file, &wanted, &links), 0);
	release(&links);
	snprintf(other, sizeof(other), "%.*s/nameless", (int)(strrchr(path, '/') - path), path);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(ask_link(broker, file, &wanted, &links), 0);
	release(&links);
	assert_int_equal(rename(other, path), 0);
	wanted.site[2].offset = 1 << 20;
	assert_int_equal(ask_link(broker, file, &wanted, &links), -EPERM);
	remove_file(path);
}

/* In a mount namespace of its own, until the other end of the socket is closed. */
_Noreturn static void hold_mount(const char *from, const char *to, int socket)
{
	char byte = 0;

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount(from, to, NULL, MS_BIND, NULL) < 0 || write(socket, &byte, 1) != 1)
		_exit(1);
	_exit(read(socket, &byte, 1) != 0);
}

/* `path`, as a container had it that is gone; -1: there can be none here. */
static int open_of_container(const char *path, const char *place)
{
	char inside[128], byte;
	int pair[2], fd = -1;
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(pair[0]);
		hold_mount(path, place, pair[1]);
	}
	close(pair[1]);
	if (read(pair[0], &byte, 1) == 1) {
		snprintf(inside, sizeof(inside), "/proc/%d/root%s", (int)pid, place);
		fd = open(inside, O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
	}
	close(pair[0]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	return fd;
}

/* Nobody knows what it was called; but who maps it still has its name. */
static void says_which_file_has_lost_its_name(struct broker *broker)
{
	struct sites wanted = good_link();
	struct broker_links links;
	char path[64], place[64];
	_cleanup_(closep) int file = make_file("libcuda.so.1", path);
	_cleanup_(closep) int other = make_file("libcuda.so.2", place), nameless = -1;

	assert_true(other >= 0);
	nameless = open_of_container(path, place);
	wanted.request.pid = 0;
	wanted.request.group = library_is_hot(&library_cuda.function[0]) ? PROBE_HOT : PROBE_COLD;
	if (nameless >= 0) {
		assert_int_equal(ask_link(broker, nameless, &wanted, &links), -ESTALE);
		assert_int_equal(ask_link(broker, file, &wanted, &links), 0);
		release(&links);
		assert_int_equal(ask_link(broker, nameless, &wanted, &links), 0);
		release(&links);
	}
	remove_file(path);
	remove_file(place);
}

static void counts_what_pythons_free(struct broker *broker)
{
	const uint32_t pid = (uint32_t)getpid();
	char path[64], other[64];
	_cleanup_(closep) int file = make_file("python3.11", path), strange = -1, link = -1;

	strange = make_file("perl5.36", other);
	link = broker_freed(broker, file, 64, pid, PROBE_FREED_MAX - 1);
	assert_true(link >= 0);
	assert_int_equal(broker_freed(broker, file, 4096, pid, 0), -EPERM);
	assert_int_equal(broker_freed(broker, strange, 64, pid, 0), -EPERM);
	remove_file(path);
	remove_file(other);
}

static void test_programs_go_where_they_belong(void **state)
{
	struct broker *broker = begin();
	struct broker_programs programs;
	int map[BROKER_MAPS], r = broker_load(broker, PROBE_WAY_AUTO, RING_BYTES, &programs, map);

	if (r < 0) {
		end(broker);
		skip();
	}
	assert_true(programs.thread_size > 0 && programs.thread_depth < programs.thread_size);
	assert_int_equal(broker_load(broker, PROBE_WAY_AUTO, RING_BYTES, &programs, map), -EPERM);
	refuses_other_files(broker);
	links_what_is_a_library(broker);
	says_which_file_has_lost_its_name(broker);
	if (programs.single) {
		_cleanup_(closep) int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

		assert_int_equal(broker_stub(broker, own, 0, (uint32_t)getpid()), -EPERM);
		counts_what_pythons_free(broker);
	}
	for (size_t i = 0; i < BROKER_MAPS; i++)
		close(map[i]);
	end(broker);
}

/* A helper has the channel: what others may ask for, it may not. */
static void test_a_sampler_only_samples(void **state)
{
	struct broker *broker = begin();
	const struct broker_request mapped = { .kind = BROKER_MAPPED };
	struct broker_answer answer = { 0 };
	int sampler = broker_sampler(broker), fd[SPAWN_FDS];
	uint32_t fds;

	assert_true(sampler >= 0);
	fd[0] = broker_sample(sampler, (uint32_t)getpid());
	if (fd[0] >= 0)
		close(fd[0]);
	else /* a host without perf events */
		assert_int_not_equal(fd[0], -EPERM);
	assert_int_equal(spawn_send(sampler, &mapped, sizeof(mapped), NULL, 0), sizeof(mapped));
	assert_int_equal(spawn_receive(sampler, &answer, sizeof(answer), 0, fd, &fds),
			 sizeof(answer));
	assert_int_equal(answer.result, -EPERM);
	assert_int_equal(fds, 0);
	close(sampler);
	end(broker);
}

/* The broker keeps a thread for each, and no more than it has room for. */
static void test_samplers_are_bounded(void **state)
{
	struct broker *broker = begin();
	int sampler[SAMPLERS_MOST], r = 0;
	uint32_t count = 0;

	for (; r >= 0 && count < SAMPLERS_MOST; count += r >= 0)
		r = sampler[count] = broker_sampler(broker);
	assert_int_equal(r, -EBUSY);
	while (count)
		close(sampler[--count]);
	/* Those have ended, once their threads have seen it. */
	for (uint32_t i = 0; i < DEADLINE_MS && r == -EBUSY; i++) {
		r = broker_sampler(broker);
		poll(NULL, 0, r == -EBUSY);
	}
	assert_true(r >= 0);
	close(r);
	end(broker);
}

struct asker {
	pthread_t thread;
	struct broker *broker;
	atomic_bool answered;
};

static void *ask_for_stub(void *data)
{
	struct asker *asker = data;

	broker_stub(asker->broker, STDIN_FILENO, 0, 1);
	asker->answered = true;
	return NULL;
}

static void ask_for_another(struct broker *broker)
{
	int fd = broker_mapped(broker, 0);

	if (fd >= 0)
		close(fd);
}

/* Its main thread starts all others, and then reads until the daemon ends. */
static bool is_idle(long number)
{
	return number == SYS_read || number == SYS_recvmsg || number == SYS_nanosleep ||
	       number == SYS_clock_nanosleep;
}

/* Stopped anywhere else, it may hold a lock that all others need. */
static void wait_idle(pid_t broker, pid_t thread)
{
	long number = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)broker, (int)thread);
	for (uint32_t i = 0; i < DEADLINE_MS && !is_idle(number); i++) {
		FILE *file = fopen(path, "re");

		assert_non_null(file);
		if (fscanf(file, "%ld", &number) != 1) /* "running" */
			number = -1;
		fclose(file);
		poll(NULL, 0, !is_idle(number));
	}
	assert_true(is_idle(number));
}

/* Those of its threads that have the first channels: all but the main one and those that were
 * started last. A sanitizer may have one, too. The kernel lists them as they were started; their
 * numbers may have started over in between. How many, or 0: not allowed. */
static uint32_t hold_linkers(pid_t broker, pid_t held[HELD_MAX])
{
	struct dirent **entry;
	uint32_t held_count = 0;
	char path[32];
	int count;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)broker);
	count = scandir(path, &entry, NULL, NULL);
	assert_in_range(count - FIRST_TASK - BROKER_OTHERS, BROKER_LINKERS, HELD_MAX);
	for (int i = FIRST_TASK; i < count - BROKER_OTHERS; i++)
		held[held_count++] = atoi(entry[i]->d_name);
	while (count)
		free(entry[--count]);
	free(entry);
	for (uint32_t i = 0; i < held_count; i++)
		wait_idle(broker, held[i]);
	for (uint32_t i = 0; i < held_count; i++)
		if (ptrace(PTRACE_SEIZE, held[i], NULL, NULL) < 0 ||
		    ptrace(PTRACE_INTERRUPT, held[i], NULL, NULL) < 0 ||
		    waitpid(held[i], NULL, __WALL) != held[i])
			return 0;
	return held_count;
}

/* The kernel may take long for them. */
static void test_who_asks_for_links_holds_up_nobody_else(void **state)
{
	struct asker asker[2 * BROKER_LINKERS] = { 0 };
	struct broker *broker = begin();
	pid_t held[HELD_MAX];
	uint32_t held_count;

	wait_idle(child_pid(), child_pid());
	held_count = hold_linkers(child_pid(), held);
	if (!held_count) {
		end(broker);
		skip();
	}
	for (size_t i = 0; i < ARRAY_SIZE(asker); i++) {
		asker[i].broker = broker;
		assert_int_equal(pthread_create(&asker[i].thread, NULL, ask_for_stub, &asker[i]),
				 0);
	}
	/* With a channel each, some of them would be answered. */
	for (int i = 0; i < 100; i++) {
		ask_for_another(broker);
		poll(NULL, 0, 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(asker); i++)
		assert_false(asker[i].answered);
	for (size_t i = 0; i < held_count; i++)
		assert_int_equal(ptrace(PTRACE_DETACH, held[i], NULL, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(asker); i++)
		pthread_join(asker[i].thread, NULL);
	end(broker);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_requests_are_checked),
		cmocka_unit_test(test_a_count_is_of_one_process),
		cmocka_unit_test(test_places_of_notes_are_checked),
		cmocka_unit_test(test_epochs_wrap_around),
		cmocka_unit_test(test_rings_have_a_size),
		cmocka_unit_test(test_nothing_comes_before_the_programs),
		cmocka_unit_test(test_its_end_is_noticed),
		cmocka_unit_test(test_a_sampler_only_samples),
		cmocka_unit_test(test_samplers_are_bounded),
		cmocka_unit_test(test_who_asks_for_links_holds_up_nobody_else),
		cmocka_unit_test(test_programs_go_where_they_belong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
