/* Link: the library's thread against the real other side, in one process: it comes, stays, comes
 * again and goes without a trace, and the program never notices. */
#include <pthread.h>
#include <sys/prctl.h>

#include "tests/unit/link_fixture.h"

#define STUCK_NS 400000000 /* a little less than a slot is waited for */

static void a_program_that_was_started_with_it_is_recorded_until_detached(void **state)
{
	const struct ts_settings changed = { .records = 9 };
	struct server *server = *state;
	struct loaded loaded = load();

	setenv(TS_ENV_RECORDS, "3", 1);
	setenv(TS_ENV_BUDGET, "30000", 1);
	setenv(TS_ENV_STACKS, "-1", 1); /* no number */
	server->settings.records = 7;
	assert_int_equal(put(&loaded, 0), -ENOTCONN);
	initialize(server, &loaded);
	assert_int_equal(server->hello.how, TS_HELLO_RUN);
	assert_int_equal(server->hello.wanted.records, 3);
	assert_int_equal(server->hello.wanted.budget_ppm, 30000);
	assert_int_equal(server->hello.wanted.stacks, 0);
	assert_string_equal(server->hello.version, TS_VERSION);
	assert_int_equal(now(&loaded.its.counts->records), 7);
	assert_int_equal(loaded.initialize(), 1); /* a second time changes nothing */
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(put(&loaded, i), 0);
	server_wait(server, server->records == 100);
	assert_true(server->in_order);
	assert_int_equal(loaded.its.put("", 0), -EINVAL);
	inject_settings(server->inject, (uint32_t)getpid(), &changed);
	server_wait(server, now(&loaded.its.counts->settings) == 1);
	assert_int_equal(now(&loaded.its.counts->records), 9);
	server_wait(server, now(&loaded.its.counts->ticks) >= 2);
	detach(server);
	assert_true(server->state.unloadable);
	assert_int_equal(now(&loaded.its.counts->stops), 1);
	assert_int_equal(put(&loaded, 0), -ENOTCONN);
	unload(&loaded);
}

static void it_attaches_again_after_a_detach_without_being_unloaded(void **state)
{
	struct ts_attach twice = { .size = sizeof(twice), .socket = 0 };
	struct server *server = *state;
	struct loaded loaded = load();

	for (uint32_t i = 1; i <= 3; i++) {
		attach(server, &loaded);
		assert_int_equal(server->hello.how, TS_HELLO_ATTACH);
		assert_int_equal(server->hello.wanted.records, 5);
		assert_int_equal(loaded.attach(&twice), -EALREADY);
		assert_int_equal(now(&loaded.its.counts->starts), i);
		__atomic_store_n(&loaded.its.counts->clings, i == 2, __ATOMIC_SEQ_CST);
		detach(server);
		assert_int_equal(server->state.unloadable, i != 2);
		assert_string_equal(server->state.text, i == 2 ? "it clings" : "");
	}
	twice.socket = -1;
	assert_int_equal(loaded.attach(&twice), -EINVAL);
	unload(&loaded);
}

static void two_hundred_times_leave_no_thread_descriptor_or_mapping(void **state)
{
	struct server *server = *state;
	int tasks = 0, descriptors = 0;
	long mappings __attribute__((unused)) = 0;

	for (int i = 0; i < 200; i++) {
		struct loaded loaded = load();

		attach(server, &loaded);
		assert_int_equal(put(&loaded, (uint64_t)i), 0);
		detach(server);
		unload(&loaded);
		if (i == 20) { /* by now libc has what it keeps: stacks, arenas */
			tasks = count_entries("/proc/self/task");
			descriptors = count_entries("/proc/self/fd");
			mappings = count_mappings();
		}
	}
	assert_int_equal(server->records, 200);
	server_wait(server, count_entries("/proc/self/fd") <= descriptors);
	assert_int_equal(count_entries("/proc/self/task"), tasks);
#ifndef __SANITIZE_THREAD__ /* which maps more and more of its own */
	assert_true(count_mappings() <= mappings + 2);
#endif
}

static void a_daemon_that_goes_and_comes_is_met_again(void **state)
{
	struct server *server = *state;
	struct loaded loaded = load();

	initialize(server, &loaded);
	for (uint32_t i = 1; i <= 3; i++) {
		server_stop(server);
		server_wait(server, now(&loaded.its.counts->suspends) == i);
		server_wait(server, put(&loaded, 0) == -ENOTCONN);
		server_start(server);
		server_wait(server, now(&loaded.its.counts->starts) == i + 1);
		assert_int_equal(put(&loaded, 0), 0);
	}
	assert_int_equal(now(&loaded.its.counts->stops), 0);
	detach(server);
	unload(&loaded);
}

static void a_socket_handed_in_while_there_is_no_daemon_is_taken_at_once(void **state)
{
	struct server *server = *state;
	struct loaded loaded = load();

	setenv(TS_ENV_INJECT_SOCKET, "/nowhere/at/all", 1);
	attach(server, &loaded);
	server_stop(server);
	server_wait(server, now(&loaded.its.counts->suspends) == 1);
	server_start(server);
	server_wait(server, put(&loaded, 0) == -ENOTCONN);
	attach(server, &loaded);
	detach(server);
	unload(&loaded);
}

static void a_refusal_is_the_end_until_somebody_attaches(void **state)
{
	struct server *server = *state;
	struct loaded loaded = load();

	server->refuse = "No.";
	setenv(TS_ENV_INJECT_SOCKET, server->path, 1);
	assert_int_equal(loaded.initialize(), 1);
	server_wait(server, server->hellos == 1 && !has_thread());
	assert_int_equal(now(&loaded.its.counts->starts), 0);
	assert_int_equal(now(&loaded.its.counts->stops), 0);
	server->refuse = NULL;
	attach(server, &loaded);
	assert_int_equal(now(&loaded.its.counts->starts), 1);
	detach(server);
	unload(&loaded);
}

static void its_thread_takes_no_signal_and_the_caller_keeps_errno_and_mask(void **state)
{
	struct server *server = *state;
	struct loaded loaded = load();
	unsigned long long blocked = 0;
	char status[4096], *line;
	sigset_t before, after;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	errno = 4711;
	initialize(server, &loaded);
	errno = 4711;
	put(&loaded, 0);
	assert_int_equal(errno, 4711);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_memory_equal(&before, &after, sizeof(uint64_t)); /* what the kernel fills */
	assert_true(our_thread("status", status, sizeof(status)));
	line = strstr(status, "SigBlk:");
	assert_non_null(line);
	blocked = strtoull(line + strlen("SigBlk:"), NULL, 16);
	/* All but the two that cannot be and the two that libc needs. */
	assert_true((blocked | 1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1) | 3ull << 31) ==
		    ~0ull);
	detach(server);
	unload(&loaded);
}

static void the_child_of_a_fork_hands_nothing_over_and_holds_nothing(void **state)
{
	struct ts_attach how = { .size = sizeof(how), .socket = 0 };
	struct server *server = *state;
	struct loaded loaded = load();
	int status, descriptors = count_entries("/proc/self/fd");
	pid_t child;

	initialize(server, &loaded);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		bool ok = put(&loaded, 0) == -ENOTCONN && now(&loaded.its.counts->forks) == 1 &&
			  loaded.attach(&how) == -ECHILD && loaded.initialize() == 1;

		loaded.its.lost(TS_LOST_RING, 5);
		/* The rest is of our side, which is in this process too: connection, pidfd and
		 * eventfd. */
		ok = ok && count_entries("/proc/self/fd") == descriptors + 3;
		dlclose(loaded.handle);
		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_int_equal(put(&loaded, 0), 0);
	server_wait(server, server->records == 1);
	assert_int_equal(server->no_room, 0);
	detach(server);
	unload(&loaded);
}

static void what_is_finished_at_exit_is_handed_over_once(void **state)
{
	struct server *server = *state;
	int status;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		struct loaded loaded = load();

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		setenv(TS_ENV_INJECT_SOCKET, server->path, 1);
		loaded.initialize();
		while (now(&loaded.its.counts->ticks) == 0)
			usleep(1000);
		loaded.its.lost(TS_LOST_UNKNOWN, 3);
		exit(3);
	}
	server_wait(server, server->gone == 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(WEXITSTATUS(status), 3);
	assert_int_equal(server->records, 2); /* with the loss, which a tick may have told first */
	assert_int_equal(server->told[TS_LOST_UNKNOWN], 3);
}

static void losses_are_told_by_reason_as_soon_as_there_is_a_daemon(void **state)
{
	struct server *server = *state;
	struct loaded loaded = load();
	uint64_t told;

	loaded.its.lost(TS_LOST_CUPTI, 2);
	initialize(server, &loaded);
	loaded.its.lost(TS_LOST_CUPTI, 40);
	server_wait(server, server->told[TS_LOST_CUPTI] == 42);
	told = server->records; /* one record, or two with a tick in between */
	assert_in_range(told, 1, 2);
	loaded.its.lost(TS_LOST_RING, 6);
	assert_int_equal(put(&loaded, 1), 0);
	server_wait(server, server->no_room == 6 && server->records > told);
	assert_int_equal(server->records, told + 1);
	detach(server);
	unload(&loaded);
}

/* A daemon whose memory could be cut off under the program. */
static void a_ring_that_could_shrink_is_not_taken(void **state)
{
	struct server *server = *state;
	struct loaded loaded = load();
	struct ts_attach how = { .size = sizeof(how) };
	struct ts_welcome welcome = { .message = TS_MESSAGE_WELCOME,
				      .protocol = TS_HELLO_PROTOCOL,
				      .slots = SLOTS };
	_Alignas(8) char control[CMSG_SPACE(2 * sizeof(int))] = { 0 };
	struct iovec part = { &welcome, sizeof(welcome) };
	struct msghdr header = { .msg_iov = &part,
				 .msg_iovlen = 1,
				 .msg_control = control,
				 .msg_controllen = sizeof(control) };
	struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
	struct ts_hello hello;
	int pair[2], fd[2];

	setenv(TS_ENV_INJECT_SOCKET, "/nowhere/at/all", 1);
	fd[0] = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fd[1] = dup(fd[0]);
	assert_int_equal(ftruncate(fd[0], (off_t)ts_ring_bytes(SLOTS)), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	rights->cmsg_level = SOL_SOCKET;
	rights->cmsg_type = SCM_RIGHTS;
	rights->cmsg_len = CMSG_LEN(sizeof(fd));
	memcpy(CMSG_DATA(rights), fd, sizeof(fd));
	how.socket = pair[1];
	assert_int_equal(loaded.attach(&how), 0);
	assert_int_equal(recv(pair[0], &hello, sizeof(hello), 0), sizeof(hello));
	assert_int_equal(sendmsg(pair[0], &header, 0), sizeof(welcome));
	assert_int_equal(recv(pair[0], &hello, sizeof(hello), 0), 0); /* it hangs up */
	assert_int_equal(now(&loaded.its.counts->starts), 0);
	close(pair[0]);
	close(fd[0]);
	close(fd[1]);
	attach(server, &loaded);
	detach(server);
	unload(&loaded);
}

struct hammer {
	struct loaded loaded;
	uint64_t done, longest_ns;
	int stop;
	pthread_t thread;
};

static void *hammer(void *data)
{
	struct hammer *hammer = data;

	while (!__atomic_load_n(&hammer->stop, __ATOMIC_RELAXED)) {
		uint64_t start_ns = uv_hrtime(), took_ns;
		int r = put(&hammer->loaded, 0);

		took_ns = uv_hrtime() - start_ns;
		if (took_ns > hammer->longest_ns)
			hammer->longest_ns = took_ns;
		if (r == -ENOSPC)
			hammer->loaded.its.lost(TS_LOST_RING, 1);
		if (r == 0 || r == -ENOSPC)
			hammer->done++;
	}
	return NULL;
}

static void threads_that_never_stop_handing_over_survive_attach_and_detach(void **state)
{
	struct server *server = *state;
	struct hammer hammers[3];
	struct loaded loaded = load();
	uint64_t done = 0, longest_ns = 0;
	bool stranded = false;

	for (int i = 0; i < 3; i++) {
		hammers[i] = (struct hammer){ .loaded = loaded };
		pthread_create(&hammers[i].thread, NULL, hammer, &hammers[i]);
	}
	for (int i = 0; i < 20; i++) {
		uint64_t before = server->records;

		attach(server, &loaded);
		server_wait(server, server->records > before + 100);
		detach(server);
		stranded |= !server->state.unloadable;
	}
	for (int i = 0; i < 3; i++) {
		__atomic_store_n(&hammers[i].stop, 1, __ATOMIC_RELAXED);
		pthread_join(hammers[i].thread, NULL);
		done += hammers[i].done;
		if (hammers[i].longest_ns > longest_ns)
			longest_ns = hammers[i].longest_ns;
	}
	/* What was lost was reported, except the last losses, which the ring could not report. */
	assert_true(server->records <= done + 20);
	/* A slot is given up only if its thread got no processor for a while. */
	if (server->stuck)
		assert_in_range(longest_ns, STUCK_NS, UINT64_MAX);
	/* With too few of those one thread or another may always be inside; that is told. */
	if (!stranded)
		unload(&loaded);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, server_setup, server_teardown)
		TEST(a_program_that_was_started_with_it_is_recorded_until_detached),
		TEST(it_attaches_again_after_a_detach_without_being_unloaded),
		TEST(two_hundred_times_leave_no_thread_descriptor_or_mapping),
		TEST(a_daemon_that_goes_and_comes_is_met_again),
		TEST(a_socket_handed_in_while_there_is_no_daemon_is_taken_at_once),
		TEST(a_refusal_is_the_end_until_somebody_attaches),
		TEST(its_thread_takes_no_signal_and_the_caller_keeps_errno_and_mask),
		TEST(the_child_of_a_fork_hands_nothing_over_and_holds_nothing),
		TEST(what_is_finished_at_exit_is_handed_over_once),
		TEST(losses_are_told_by_reason_as_soon_as_there_is_a_daemon),
		TEST(a_ring_that_could_shrink_is_not_taken),
		TEST(threads_that_never_stop_handing_over_survive_attach_and_detach),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

#ifdef __SANITIZE_THREAD__ /* calls what the library had registered though it is unloaded */
	fflush(NULL);
	_exit(r);
#endif
	return r;
}
