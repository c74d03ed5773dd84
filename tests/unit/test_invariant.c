/* Invariant: a broken one ends a debug build; a release counts it and goes on. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/invariant.h"
#include "core/base/log.h"

static void one_that_holds_costs_nothing(void **state)
{
	uint64_t before = invariant_count();

	assert_invariant(before == 0);
	assert_int_equal(invariant_count(), before);
}

static void one_that_is_broken_is_counted_or_ends_a_debug_build(void **state)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		log_set_level(0);
		signal(SIGABRT, SIG_DFL);
		for (volatile int i = 0; i < 20; i++)
			assert_invariant(i < 0);
		_exit((int)invariant_count());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
#ifdef NDEBUG
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 20);
#else
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGABRT);
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_that_holds_costs_nothing),
		cmocka_unit_test(one_that_is_broken_is_counted_or_ends_a_debug_build),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
