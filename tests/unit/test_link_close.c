/* Link close: the library's loader closes it while its thread runs. The program goes on, is
 * recorded all the same, and the library is gone when its thread is. */
#include <pthread.h>
#include <sched.h>

#include "tests/unit/link_fixture.h"

#ifdef __SANITIZE_THREAD__ /* which takes a minute for as many as the others */
#define CLOSES 100
#else
#define CLOSES 500
#endif

static bool is_loaded(void)
{
	void *handle = dlopen(INJECT_DOUBLE, RTLD_NOW | RTLD_NOLOAD);

	if (handle)
		dlclose(handle);
	return handle;
}

static void what_is_closed_at_once_records_until_it_is_detached(void **state)
{
	struct server *server = *state;
	struct loaded loaded = load();

	initialize(server, &loaded);
	dlclose(loaded.handle);
	for (uint64_t i = 0; i < 100; i++)
		assert_int_equal(put(&loaded, i), 0);
	server_wait(server, server->records == 100);
	server_wait(server, now(&loaded.its.counts->ticks) >= 2);
	detach(server);
	assert_true(server->state.unloadable);
	assert_false(is_loaded());
}

static void two_hundred_injectors_that_close_it_leave_nothing(void **state)
{
	struct server *server = *state;
	int tasks = 0, descriptors = 0;
	long mappings __attribute__((unused)) = 0;

	for (int i = 0; i < 200; i++) {
		struct loaded loaded = load();

		attach(server, &loaded);
		dlclose(loaded.handle);
		assert_int_equal(put(&loaded, (uint64_t)i), 0);
		detach(server);
		assert_false(is_loaded());
		if (i == 20) {
			tasks = count_entries("/proc/self/task");
			descriptors = count_entries("/proc/self/fd");
			mappings = count_mappings();
		}
	}
	assert_int_equal(server->records, 200);
	server_wait(server, count_entries("/proc/self/fd") <= descriptors);
	assert_int_equal(count_entries("/proc/self/task"), tasks);
#ifndef __SANITIZE_THREAD__
	assert_true(count_mappings() <= mappings + 20); /* of 180 times */
#endif
}

/* Its thread may be anywhere between its first instruction and its last. */
static void it_is_closed_wherever_its_thread_is(void **state)
{
	struct server *server = *state;

	server->refuse = "No.";
	setenv(TS_ENV_INJECT_SOCKET, "/nowhere/at/all", 1);
	for (int i = 0; i < CLOSES; i++) {
		struct loaded loaded = load();
		struct ts_attach how = { .size = sizeof(how) };
		int pair[2];

		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
		how.socket = pair[1];
		assert_int_equal(loaded.attach(&how), 0);
		if (i % 2)
			dlclose(loaded.handle);
		assert_int_equal(inject_adopt(server->inject, pair[0], (uint32_t)getpid()), 0);
		server_wait(server, server->hellos == (uint64_t)i + 1);
		for (int yields = 0; yields < i % 50; yields++)
			sched_yield();
		if (i % 2 == 0)
			dlclose(loaded.handle);
		server_wait(server, !has_thread());
		assert_false(is_loaded());
	}
}

/* What still refers to it would call where nothing is. */
static void what_something_clings_to_stays_though_it_is_closed(void **state)
{
	struct server *server = *state;
	struct loaded loaded = load();

	attach(server, &loaded);
	__atomic_store_n(&loaded.its.counts->clings, 1, __ATOMIC_SEQ_CST);
	dlclose(loaded.handle);
	detach(server);
	assert_false(server->state.unloadable);
	assert_int_equal(put(&loaded, 0), -ENOTCONN);
	/* And goes when that is over. */
	loaded = load();
	attach(server, &loaded);
	__atomic_store_n(&loaded.its.counts->clings, 0, __ATOMIC_SEQ_CST);
	dlclose(loaded.handle);
	detach(server);
	assert_true(server->state.unloadable);
	assert_false(is_loaded());
}

static void a_child_that_closes_it_too_forks_and_ends_well(void **state)
{
	struct server *server = *state;
	struct loaded loaded = load();

	initialize(server, &loaded);
	dlclose(loaded.handle);
	for (int i = 0; i < 50; i++) {
		pid_t child = fork();
		int status;

		assert_true(child >= 0);
		if (child == 0) {
			void *handle = dlopen(INJECT_DOUBLE, RTLD_NOW | RTLD_NOLOAD);
			bool ok = handle && dlclose(handle) == 0 && put(&loaded, 0) == -ENOTCONN &&
				  loaded.initialize() == 1;

			_exit(ok ? 0 : 1);
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		assert_int_equal(put(&loaded, (uint64_t)i), 0);
	}
	server_wait(server, server->records == 50);
	detach(server);
	assert_false(is_loaded());
}

static void *hand_over(void *data)
{
	const struct loaded *loaded = data;

	for (;;)
		put(loaded, 0);
	return NULL;
}

/* As a program does that is started with it: records flow, then it exits, and its last one comes.
 */
static void a_program_without_it_exits_as_ever(void **state)
{
	struct server *server = *state;

	/* On a busy machine some end before the daemon has answered, which they wait for a moment.
	 */
	for (uint64_t i = 1; i <= 20 || !server->records; i++) {
		int status;
		pid_t child = fork();

		assert_true(child >= 0);
		if (child == 0) {
			struct loaded loaded = load();
			pthread_t thread;

			setenv(TS_ENV_INJECT_SOCKET, server->path, 1);
			loaded.initialize();
			dlclose(loaded.handle);
			if (i % 2)
				pthread_create(&thread, NULL, hand_over, &loaded);
			usleep((useconds_t)(i * 500)); /* anywhere */
			exit(3);
		}
		server_wait(server, waitpid(child, &status, WNOHANG) == child);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
		server_wait(server, server->gone == server->hellos);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, server_setup, server_teardown)
		TEST(a_program_without_it_exits_as_ever), /* first, for the thread sanitizer */
		TEST(what_is_closed_at_once_records_until_it_is_detached),
		TEST(two_hundred_injectors_that_close_it_leave_nothing),
		TEST(it_is_closed_wherever_its_thread_is),
		TEST(what_something_clings_to_stays_though_it_is_closed),
		TEST(a_child_that_closes_it_too_forks_and_ends_well),
	};
	int r = cmocka_run_group_tests(tests, NULL, NULL);

#ifdef __SANITIZE_THREAD__ /* calls what the library had registered though it is unloaded */
	fflush(NULL);
	_exit(r);
#endif
	return r;
}
