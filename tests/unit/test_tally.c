/* test_tally: hot calls count from the start of recording until the end that it was given, and a
 * cycle has these calls and that time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/price/tally.h"

#define MS 1000000ull

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
	struct watch_cycle cycle = { .start_ns = 1000 * MS,
				     .end_ns = 2000 * MS,
				     .watched_ns = 200 * MS,
				     .hits = 20,
				     .missed = 80,
				     .missed_by = 8 };
	struct tally tally;

	tally_init(&tally);
	tally_take(&tally, 1000 * MS);
	tally_shut(&tally, 1000 * MS, 0);
	tally_open(&tally, 1300 * MS);
	for (uint64_t ms = 1300; ms < 1700; ms += 10)
		assert_true(tally_hit(&tally, ms * MS));
	tally_shut(&tally, 1700 * MS, 0);
	tally_cycle(&tally, &cycle);
	assert_int_equal(cycle.watched_ns, 400 * MS);
	assert_int_equal(cycle.hits, 40);
	assert_int_equal(cycle.missed, 60);
	assert_int_equal(cycle.missed_by, 6);
}

/* The window ends with the cycle, and what is recorded after it counts in the next one. */
static void what_comes_after_a_cycle_counts_in_the_next(void **state)
{
	struct watch_cycle first = { .start_ns = 0, .end_ns = 1000 * MS, .watched_ns = 500 * MS };
	struct watch_cycle second = { .start_ns = 1000 * MS, .end_ns = 3000 * MS, .missed = 200 };
	struct tally tally;

	tally_init(&tally);
	tally_take(&tally, 0);
	tally_shut(&tally, 0, 0);
	tally_open(&tally, 500 * MS);
	tally_shut(&tally, 1020 * MS, 0);
	tally_cycle(&tally, &first);
	assert_int_equal(first.watched_ns, 500 * MS);
	assert_true(tally_hit(&tally, 1010 * MS));
	tally_open(&tally, 2000 * MS);
	tally_shut(&tally, 2480 * MS, 0);
	tally_cycle(&tally, &second);
	assert_int_equal(second.watched_ns, 500 * MS);
	assert_int_equal(second.hits, 1);
	assert_int_equal(second.missed, 150);
}

/* Somebody asks in a window: what it saw is its own all the same, and what is left to guess of the
 * time before it corrects what was guessed. */
static void a_window_that_goes_on_keeps_its_hits(void **state)
{
	struct watch_cycle asked = { .start_ns = 0, .end_ns = 1000 * MS, .missed = 500 };
	struct watch_cycle correction = { .start_ns = 1000 * MS, .end_ns = 1000 * MS };
	struct watch_cycle window = {
		.start_ns = 1000 * MS, .end_ns = 2000 * MS, .watched_ns = 999 * MS, .missed = 80
	};
	struct tally tally;

	correction.missed = -7;
	correction.error2 = -9;
	window.error2 = 9;
	window.window = true;
	tally_init(&tally);
	tally_take(&tally, 0);
	tally_shut(&tally, 0, 0);
	tally_open(&tally, 1000 * MS);
	assert_true(tally_hit(&tally, 1400 * MS));
	tally_cycle(&tally, &asked);
	assert_int_equal(asked.hits, 0);
	assert_int_equal(asked.missed, 500);
	assert_true(tally_hit(&tally, 1500 * MS));
	tally_cycle(&tally, &correction);
	assert_int_equal(correction.missed, -7);
	assert_int_equal(correction.error2, -9);
	tally_cycle(&tally, &window);
	assert_int_equal(window.hits, 2);
	assert_int_equal(window.watched_ns, 1000 * MS);
	assert_int_equal(window.missed, 80);
	assert_int_equal(window.error2, 9);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_counts_at_first),
		cmocka_unit_test(calls_outside_are_not_let_through),
		cmocka_unit_test(calls_in_the_grace_are_let_through_and_do_not_count),
		cmocka_unit_test(a_cycle_is_told_by_what_counted),
		cmocka_unit_test(what_comes_after_a_cycle_counts_in_the_next),
		cmocka_unit_test(a_window_that_goes_on_keeps_its_hits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
