/* test_between: what a program does between windows, by the time that passes and by the calls that
 * are always seen. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/price/between.h"

#define MS 1e6

static struct sight sight(double hits, double colds, double ms)
{
	return (struct sight){ .hits = hits, .colds = colds, .ns = ms * MS };
}

/* A gap of that long, and the window after it; what of it was guessed in all. */
static struct guess gap(struct between *between, struct sight passed, struct sight window)
{
	struct sight first = passed, rest;
	struct guess before = between_halve(between, &first), after;

	rest = sight(0, passed.colds - first.colds, (passed.ns - first.ns) / MS);
	after = between_end(between, &rest, &window);
	after.hits += before.hits;
	after.error2 += before.error2 + after.before2;
	return after;
}

static struct between steady(void)
{
	struct between between = { 0 };
	struct sight window = sight(5000, 100, 250);

	between_see(&between, &window);
	for (int i = 0; i < 6; i++)
		gap(&between, sight(0, 200, 500), window);
	return between;
}

static void assert_about(double value, double about)
{
	assert_true(fabs(value - about) < 0.02 * about);
}

static void a_steady_program_is_known_well(void **state)
{
	struct between between = steady();
	struct guess guess = gap(&between, sight(0, 400, 1000), sight(5000, 100, 250));

	assert_about(guess.hits, 20000);
	assert_true(sqrt(guess.error2) < 0.02 * guess.hits);
}

/* Steps that take five times as long have as many launches. */
static void launches_for_each_wait_are_believed_over_time(void **state)
{
	struct between between = steady();
	struct guess guess;

	gap(&between, sight(0, 40, 500), sight(1000, 20, 250));
	guess = gap(&between, sight(0, 40, 500), sight(1000, 20, 250));
	assert_about(guess.hits, 2000);
	assert_true(guess.by_time < 0.05);
}

static void in_a_pause_nothing_is_guessed(void **state)
{
	struct between between = steady();

	gap(&between, sight(0, 20, 500), sight(0, 0, 250));
	gap(&between, sight(0, 0, 500), sight(0, 0, 250));
	assert_true(gap(&between, sight(0, 0, 5000), sight(5000, 100, 250)).hits < 1500);
}

/* It launches evenly, and waits as it likes. */
static void waits_that_tell_nothing_have_no_weight(void **state)
{
	struct between between = { 0 };
	struct sight seen = sight(5000, 100, 250);
	struct guess guess = { 0 };

	between_see(&between, &seen);
	for (int i = 0; i < 6; i++)
		guess = gap(&between, sight(0, i % 2 ? 1000 : 20, 500),
			    sight(5000, i % 3 ? 10 : 300, 250));
	assert_about(guess.hits, 10000);
	assert_true(guess.by_time > 0.95);
}

static void a_change_in_between_goes_half_unseen(void **state)
{
	struct between between = steady();

	assert_about(gap(&between, sight(0, 200, 500), sight(10000, 100, 250)).hits, 15000);
}

/* Where both ways part. */
static void a_change_widens_what_is_said(void **state)
{
	struct between alike = steady(), changed = steady();
	struct sight passed = sight(0, 400, 1000), fewer = sight(0, 40, 1000);

	assert_true(between_pass(&changed, &fewer).error2 >
		    10 * between_pass(&alike, &passed).error2);
}

static void what_has_no_end_is_less_sure(void **state)
{
	struct between open = steady(), closed = steady();
	struct sight passed = sight(0, 400, 1000);
	double error2 = between_pass(&open, &passed).error2;

	assert_true(error2 > gap(&closed, passed, sight(5000, 100, 250)).error2);
	/* What was told before the window is told once. */
	passed = sight(0, 0, 0);
	assert_true(gap(&open, passed, sight(5000, 100, 250)).hits < 100);
}

static void before_any_window_it_is_not_known(void **state)
{
	struct between between = { 0 };
	struct sight seen = sight(5000, 100, 250), passed = sight(0, 400, 1000);
	struct guess guess;

	between_see(&between, &seen);
	guess = between_pass(&between, &passed);
	assert_about(guess.hits, 20000);
	assert_true(sqrt(guess.error2) > 0.5 * guess.hits);
}

/* As when a price is asked for at once. */
static void the_first_window_stands_for_all_before_it(void **state)
{
	struct between between = { 0 };
	struct guess guess = gap(&between, sight(0, 400, 1000), sight(5000, 100, 250));

	assert_about(guess.hits, 20000);
	assert_true(sqrt(guess.error2) > 0.5 * guess.hits);
}

/* `tsctl top` asks each second, and others ask, too. */
static void to_be_asked_changes_nothing(void **state)
{
	struct between once = steady(), often = steady();
	struct sight window = sight(3000, 100, 250), all = sight(0, 400, 1000);
	struct guess told = between_pass(&once, &all), each = { 0 }, part;

	for (int i = 0; i < 100; i++) {
		all = sight(0, 4, 10);
		part = between_pass(&often, &all);
		each.hits += part.hits;
		each.error2 += part.error2;
	}
	assert_about(each.hits, told.hits);
	assert_about(each.error2, told.error2);
	/* And in the end it is as if nobody had asked. */
	all = sight(0, 0, 0);
	part = between_end(&often, &all, &window);
	each.hits += part.hits;
	each.error2 += part.error2 + part.before2;
	often = steady();
	told = gap(&often, sight(0, 400, 1000), window);
	assert_about(each.hits, told.hits);
	assert_about(each.error2, told.error2);
}

/* The program ended then. */
static void a_window_that_was_cut_off_tells_little(void **state)
{
	struct between between = steady();
	struct guess guess = gap(&between, sight(0, 400, 1000), sight(0, 0, 1));

	assert_about(guess.hits, 20000);
}

static void what_was_seen_when_it_was_watched_whole_holds(void **state)
{
	struct between between = steady();
	struct sight seen = sight(500, 10, 250), passed = sight(0, 40, 1000);

	between_see(&between, &seen);
	assert_about(between_pass(&between, &passed).hits, 2000);
}

/* As of a watch that follows another one. */
static void a_gap_that_was_left_open_is_none_of_the_next(void **state)
{
	struct between between = steady();
	struct sight passed = sight(0, 24000, 60000);
	struct guess guess;

	between_pass(&between, &passed);
	between_close(&between);
	guess = gap(&between, sight(0, 400, 1000), sight(50000, 1000, 250));
	assert_true(guess.hits < 200001);
	assert_true(guess.before2 > 0);
}

/* A minute at its pace, and then it makes none. */
static void what_was_guessed_too_high_is_taken_back(void **state)
{
	struct between between = steady();
	struct sight passed = sight(0, 0, 60000), none = sight(0, 0, 250);
	double told = between_pass(&between, &passed).hits;
	struct guess guess;

	passed = sight(0, 0, 0);
	guess = between_end(&between, &passed, &none);
	assert_true(told > 0 && guess.hits < 0);
	between = steady();
	passed = sight(0, 0, 60000);
	assert_about(told + guess.hits, between_end(&between, &passed, &none).hits);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_steady_program_is_known_well),
		cmocka_unit_test(launches_for_each_wait_are_believed_over_time),
		cmocka_unit_test(in_a_pause_nothing_is_guessed),
		cmocka_unit_test(waits_that_tell_nothing_have_no_weight),
		cmocka_unit_test(a_change_in_between_goes_half_unseen),
		cmocka_unit_test(a_change_widens_what_is_said),
		cmocka_unit_test(what_has_no_end_is_less_sure),
		cmocka_unit_test(before_any_window_it_is_not_known),
		cmocka_unit_test(the_first_window_stands_for_all_before_it),
		cmocka_unit_test(to_be_asked_changes_nothing),
		cmocka_unit_test(a_window_that_was_cut_off_tells_little),
		cmocka_unit_test(what_was_seen_when_it_was_watched_whole_holds),
		cmocka_unit_test(a_gap_that_was_left_open_is_none_of_the_next),
		cmocka_unit_test(what_was_guessed_too_high_is_taken_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
