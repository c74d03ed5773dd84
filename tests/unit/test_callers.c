/* test_callers: a process that waits for a processor has less of the time than a clock says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/base/time.h"
#include "core/price/callers.h"

static const double close_to = 1e-6;

/* What each thread has run and waited in all, by its number; 0: gone. */
struct times {
	uint64_t ran_ns[100], waited_ns[100];
	bool gone[100];
};

static bool get(void *data, uint32_t tid, uint64_t *ret_ran_ns, uint64_t *ret_waited_ns)
{
	const struct times *times = data;

	*ret_ran_ns = times->ran_ns[tid];
	*ret_waited_ns = times->waited_ns[tid];
	return !times->gone[tid];
}

static void pass(struct times *times, uint32_t tid, double ran, double waited)
{
	times->ran_ns[tid] += (uint64_t)(ran * NS_PER_S);
	times->waited_ns[tid] += (uint64_t)(waited * NS_PER_S);
}

/* A turn of a second, of threads that each make `calls`. */
static double turn(struct callers *callers, struct times *times, uint32_t threads, uint32_t calls)
{
	for (uint32_t tid = 1; tid <= threads; tid++)
		for (uint32_t i = 0; i < calls; i++)
			callers_call(callers, tid);
	return callers_turn(callers, callers->since_ns + NS_PER_S, get, times);
}

static void who_always_runs_or_sleeps_had_all_of_it(void **state)
{
	struct callers callers = { 0 };
	struct times times = { 0 };

	assert_float_equal(turn(&callers, &times, 1, 10), 0, 0);
	pass(&times, 1, 1, 0);
	assert_float_equal(turn(&callers, &times, 1, 10), 1, close_to);
	pass(&times, 1, 0.2, 0);
	assert_float_equal(turn(&callers, &times, 1, 10), 1, close_to);
}

static void a_wait_is_taken_off(void **state)
{
	struct callers callers = { 0 };
	struct times times = { 0 };

	pass(&times, 1, 77, 33);
	turn(&callers, &times, 1, 10);
	pass(&times, 1, 0.25, 0.75);
	assert_float_equal(turn(&callers, &times, 1, 10), 0.25, close_to);
	pass(&times, 1, 0.1, 0.1);
	assert_float_equal(turn(&callers, &times, 1, 10), 0.9, close_to);
}

static void threads_that_take_turns_wait_one_after_the_other(void **state)
{
	struct callers callers = { 0 };
	struct times times = { 0 };

	turn(&callers, &times, 2, 10);
	pass(&times, 1, 0.25, 0.25);
	pass(&times, 2, 0.25, 0.25);
	assert_float_equal(turn(&callers, &times, 2, 10), 0.5, close_to);
}

static void threads_that_wait_at_the_same_time_had_what_they_ran(void **state)
{
	struct callers callers = { 0 };
	struct times times = { 0 };

	turn(&callers, &times, 8, 10);
	for (uint32_t tid = 1; tid <= 8; tid++)
		pass(&times, tid, 0.25, 0.75);
	assert_float_equal(turn(&callers, &times, 8, 10), 1, close_to);
	for (uint32_t tid = 1; tid <= 8; tid++)
		pass(&times, tid, 0.05, 0.95);
	assert_float_equal(turn(&callers, &times, 8, 10), 0.4, close_to);
}

static void who_makes_few_of_the_calls_does_not_count(void **state)
{
	struct callers callers = { 0 };
	struct times times = { 0 };

	turn(&callers, &times, 2, 1);
	for (int i = 0; i < 100; i++)
		callers_call(&callers, 1);
	pass(&times, 1, 0.5, 0.5);
	pass(&times, 2, 1, 0);
	assert_float_equal(turn(&callers, &times, 2, 1), 0.5, close_to);
}

/* Nor a thread that is new, or whose number is another one's now. */
static void those_whose_calls_count_are_counted(void **state)
{
	struct callers callers = { 0 };
	struct times times = { 0 };

	assert_int_equal(callers_count(&callers), 0);
	for (int i = 0; i < 100; i++)
		callers_call(&callers, 1 + i % 3);
	callers_call(&callers, 4);
	assert_int_equal(callers_count(&callers), 3);
	callers_turn(&callers, NS_PER_S, get, &times);
	assert_int_equal(callers_count(&callers), 0);
}

static void what_nobody_knows_changes_nothing(void **state)
{
	struct callers callers = { 0 };
	struct times times = { 0 };

	times.gone[1] = true;
	turn(&callers, &times, 1, 10);
	assert_float_equal(turn(&callers, &times, 1, 10), 1, close_to);
	times.gone[1] = false;
	pass(&times, 1, 500, 500);
	assert_float_equal(turn(&callers, &times, 1, 10), 1, close_to);
	times.ran_ns[1] = times.waited_ns[1] = 0;
	assert_float_equal(turn(&callers, &times, 1, 10), 1, close_to);
	pass(&times, 1, 0.5, 0.5);
	assert_float_equal(turn(&callers, &times, 1, 10), 0.5, close_to);
}

static void a_turn_without_calls_goes_on(void **state)
{
	struct callers callers = { 0 };
	struct times times = { 0 };

	turn(&callers, &times, 1, 10);
	pass(&times, 1, 0.5, 0.5);
	assert_float_equal(turn(&callers, &times, 1, 0), 0, 0);
	assert_float_equal(turn(&callers, &times, 1, 10), 0.5, close_to);
}

static void the_latest_threads_are_known(void **state)
{
	struct callers callers = { 0 };

	for (uint32_t tid = 1; tid <= CALLERS_MAX + 1; tid++)
		callers_call(&callers, tid);
	assert_false(callers_have(&callers, 1));
	assert_true(callers_have(&callers, 2));
	assert_true(callers_have(&callers, CALLERS_MAX + 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_always_runs_or_sleeps_had_all_of_it),
		cmocka_unit_test(a_wait_is_taken_off),
		cmocka_unit_test(threads_that_take_turns_wait_one_after_the_other),
		cmocka_unit_test(threads_that_wait_at_the_same_time_had_what_they_ran),
		cmocka_unit_test(who_makes_few_of_the_calls_does_not_count),
		cmocka_unit_test(those_whose_calls_count_are_counted),
		cmocka_unit_test(what_nobody_knows_changes_nothing),
		cmocka_unit_test(a_turn_without_calls_goes_on),
		cmocka_unit_test(the_latest_threads_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
