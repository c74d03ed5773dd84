/* Threads: signals are for the thread that starts them, and only one that asks goes first. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/store/thread.h"

static void *own_mask(void *data)
{
	pthread_sigmask(SIG_SETMASK, NULL, data);
	return data;
}

static void a_thread_takes_no_signals(void **state)
{
	sigset_t mask, before, after;
	pthread_t thread;
	void *returned;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(thread_start(&thread, own_mask, &mask), 0);
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	assert_int_equal(pthread_join(thread, &returned), 0);
	assert_ptr_equal(returned, &mask);
	assert_true(sigismember(&mask, SIGTERM) && sigismember(&mask, SIGINT));
	assert_true(sigismember(&mask, SIGHUP) && sigismember(&mask, SIGCHLD));
	assert_int_equal(sigismember(&after, SIGTERM), sigismember(&before, SIGTERM));
}

static int own_nice(void)
{
	return getpriority(PRIO_PROCESS, (id_t)gettid());
}

static void *nice_of_a_thread(void *data)
{
	*(int *)data = own_nice();
	return NULL;
}

static void *hurry(void *data)
{
	int *nice = data;
	pthread_t thread;

	thread_hurry();
	nice[0] = own_nice();
	if (thread_start(&thread, nice_of_a_thread, &nice[1]) == 0)
		pthread_join(thread, NULL);
	return NULL;
}

static void a_thread_that_hurries_goes_before_those_that_it_starts(void **state)
{
	int before = own_nice(), nice[2] = { 99, 99 };
	pthread_t thread;

	assert_int_equal(thread_start(&thread, hurry, nice), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(own_nice(), before);
	if (nice[0] != THREAD_HURRY_NICE) { /* not allowed: nothing has changed */
		assert_int_equal(nice[0], before);
		skip();
	}
	assert_int_equal(nice[1], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_takes_no_signals),
		cmocka_unit_test(a_thread_that_hurries_goes_before_those_that_it_starts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
