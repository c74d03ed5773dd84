/* test_tally: hot calls count from the start of recording until the end that it was given, and a
 * cycle has these calls and that time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/price/tally.h"

static void everything_counts_at_first(void **state)
{
	struct tally tally;

	tally_init(&tally);
	assert_true(tally_is_open(&tally));
	assert_true(tally_hit(&tally, 0));
	assert_true(tally_hit(&tally, UINT64_MAX - 1));
	assert_int_equal(tally_take(&tally, 10), 2);
	assert_int_equal(tally_take(&tally, 10), 0);
}

static void calls_outside_are_not_let_through(void **state)
{
	struct tally tally;

	tally_init(&tally);
	tally_shut(&tally, 100, 0);
	assert_false(tally_is_open(&tally));
	assert_true(tally_hit(&tally, 99));
	assert_false(tally_hit(&tally, 100));
	tally_open(&tally, 200);
	assert_false(tally_hit(&tally, 199));
	assert_true(tally_hit(&tally, 200));
	assert_int_equal(tally_take(&tally, 300), 2);
}

/* Recording ends a little later than it was told to, and its last records want their calls. */
static void calls_in_the_grace_are_let_through_and_do_not_count(void **state)
{
	struct tally tally;

	tally_init(&tally);
	tally_shut(&tally, 100, 5);
	assert_true(tally_hit(&tally, 104));
	assert_false(tally_hit(&tally, 105));
	assert_int_equal(tally_take(&tally, 200), 0);
}

/* It opens before the watch sees it and shuts after: so much less was missed. */
static void a_cycle_is_told_by_what_counted(void **state)
{
	struct watch_cycle cycle = { .start_ns = 1000,
				     .end_ns = 2000,
				     .watched_ns = 200,
				     .hits = 20,
				     .missed = 80,
				     .missed_by = 8 };
	struct tally tally;

	tally_init(&tally);
	tally_take(&tally, 1000);
	tally_shut(&tally, 1000, 0);
	tally_open(&tally, 1300);
	for (uint64_t ns = 1300; ns < 1700; ns += 10)
		assert_true(tally_hit(&tally, ns));
	tally_shut(&tally, 1700, 0);
	tally_cycle(&tally, &cycle);
	assert_int_equal(cycle.watched_ns, 400);
	assert_int_equal(cycle.hits, 40);
	assert_int_equal(cycle.missed, 60);
	assert_int_equal(cycle.missed_by, 6);
}

/* The window ends with the cycle, and what is recorded after it counts in the next one. */
static void what_comes_after_a_cycle_counts_in_the_next(void **state)
{
	struct watch_cycle first = { .start_ns = 0, .end_ns = 1000, .watched_ns = 500 };
	struct watch_cycle second = { .start_ns = 1000, .end_ns = 3000, .missed = 200 };
	struct tally tally;

	tally_init(&tally);
	tally_take(&tally, 0);
	tally_shut(&tally, 0, 0);
	tally_open(&tally, 500);
	tally_shut(&tally, 1020, 0);
	tally_cycle(&tally, &first);
	assert_int_equal(first.watched_ns, 500);
	assert_true(tally_hit(&tally, 1010));
	tally_open(&tally, 2000);
	tally_shut(&tally, 2480, 0);
	tally_cycle(&tally, &second);
	assert_int_equal(second.watched_ns, 500);
	assert_int_equal(second.hits, 1);
	assert_int_equal(second.missed, 150);
}

/* Asked a moment before the window, and that opened a little late: little is left to guess of. */
static void what_was_told_before_is_not_told_again(void **state)
{
	struct watch_cycle correction = { .start_ns = 1000, .end_ns = 1000, .error2 = -7 };
	struct watch_cycle cycle = {
		.start_ns = 1000, .end_ns = 2000, .watched_ns = 999, .hits = 20, .missed = 80
	};
	struct tally tally;

	tally_init(&tally);
	tally_take(&tally, 0);
	tally_shut(&tally, 0, 0);
	tally_open(&tally, 1300);
	assert_true(tally_hit(&tally, 1400));
	tally_cycle(&tally, &correction);
	assert_int_equal(correction.error2, -7);
	assert_int_equal(correction.hits, 0);
	tally_cycle(&tally, &cycle);
	assert_int_equal(cycle.hits, 1);
	assert_int_equal(cycle.missed, 160);
	cycle = (struct watch_cycle){
		.start_ns = 2000, .end_ns = 3000, .watched_ns = 1000, .missed = 5, .error2 = 9
	};
	tally_cycle(&tally, &cycle);
	assert_int_equal(cycle.missed, 5);
	assert_int_equal(cycle.error2, 9);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_counts_at_first),
		cmocka_unit_test(calls_outside_are_not_let_through),
		cmocka_unit_test(calls_in_the_grace_are_let_through_and_do_not_count),
		cmocka_unit_test(a_cycle_is_told_by_what_counted),
		cmocka_unit_test(what_comes_after_a_cycle_counts_in_the_next),
		cmocka_unit_test(what_was_told_before_is_not_told_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
