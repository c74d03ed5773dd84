/* Threads: signals are for the thread that starts them. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thread_takes_no_signals),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
