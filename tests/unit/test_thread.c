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

struct hurried {
	void (*hurry)(void);
	int nice[2]; /* its own, and that of a thread it started */
};

static void *run_hurried(void *data)
{
	struct hurried *hurried = data;
	int *nice = hurried->nice;
	pthread_t thread;

	hurried->hurry();
	nice[0] = own_nice();
	if (thread_start(&thread, nice_of_a_thread, &nice[1]) == 0)
		pthread_join(thread, NULL);
	return NULL;
}

/* What a thread that it starts is then. */
static int nice_behind(void (*hurry)(void))
{
	struct hurried hurried = { hurry, { 99, 99 } };
	int before = own_nice();
	pthread_t thread;

	assert_int_equal(thread_start(&thread, run_hurried, &hurried), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(own_nice(), before);
	if (hurried.nice[0] != THREAD_HURRY_NICE) { /* not allowed: nothing has changed */
		assert_int_equal(hurried.nice[0], before);
		skip();
	}
	return hurried.nice[1];
}

static void a_thread_that_hurries_goes_before_those_that_it_starts(void **state)
{
	assert_int_equal(nice_behind(thread_hurry), 0);
}

static void or_they_hurry_with_it(void **state)
{
	assert_int_equal(nice_behind(thread_hurry_with_others), THREAD_HURRY_NICE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_takes_no_signals),
		cmocka_unit_test(a_thread_that_hurries_goes_before_those_that_it_starts),
		cmocka_unit_test(or_they_hurry_with_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
