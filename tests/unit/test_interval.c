/* Interval: of the ratio of two small samples, and of the middle of one. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/interval.h"

static void assert_near(double value, double wanted)
{
	assert_true(fabs(value - wanted) < 1e-9);
}

/* Confidences of the widest interval: 1 - 2 / (orders of both samples). */
static void small_samples_are_sure_of_little(void **state)
{
	static const struct {
		size_t a, b;
		double confidence;
	} cases[] = {
		{ 1, 1, 0 },
		{ 2, 2, 1 - 2.0 / 6 },
		{ 3, 3, 1 - 2.0 / 20 },
		{ 4, 4, 1 - 2.0 / 70 },
		{ 5, 5, 1 - 2.0 / 252 },
		{ 1, 19, 1 - 2.0 / 20 },
		{ 2, 5, 1 - 2.0 / 21 },
	};
	double ones[20];

	for (size_t i = 0; i < ARRAY_SIZE(ones); i++)
		ones[i] = 1;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		assert_near(interval_ratio(ones, cases[i].a, ones, cases[i].b, 1).confidence,
			    cases[i].confidence);
}

/* By the tables of the statistic: of 10 and 10, P(U <= 23) = 0.0216 and P(U <= 24) = 0.0262. */
static void the_narrowest_that_is_sure_enough_is_given(void **state)
{
	double a[10], b[10];
	struct interval interval;

	for (int i = 0; i < 10; i++) {
		a[i] = 1;
		b[i] = 1 + i;
	}
	interval = interval_ratio(a, 10, b, 10, 0.95);
	assert_true(interval.confidence >= 0.95 && interval.confidence < 0.96);
	assert_true(fabs(interval.confidence - (1 - 2 * 0.02162)) < 1e-4);
	assert_near(interval.low, 3); /* the 24th of 100, of which there are ten of each */
	assert_near(interval.high, 8);
	assert_near(interval.ratio, 5.5);
}

static void one_far_off_does_not_move_it(void **state)
{
	static const double a[] = { 100, 101, 102, 99, 100 }, b[] = { 120, 121, 122, 119, 900 };
	struct interval interval = interval_ratio(a, 5, b, 5, 0.95);

	assert_true(interval.ratio > 1.18 && interval.ratio < 1.23);
	assert_true(interval.low > 1.15);
}

static void nothing_is_divided_by_nothing(void **state)
{
	static const double none[] = { 0, 0, 0 }, some[] = { 1, 2, 3 };

	assert_near(interval_ratio(none, 3, none, 3, 0.9).high, 1);
	assert_near(interval_ratio(some, 3, none, 3, 0.9).high, 0);
	assert_true(isinf(interval_ratio(none, 3, some, 3, 0.9).low));
}

/* As often as it says, and not much more often, the interval has the true ratio. */
static void it_covers_as_often_as_it_says(void **state)
{
	int covered = 0;

	srand(11);
	for (int trial = 0; trial < 20000; trial++) {
		double a[4], b[4];
		struct interval interval;

		for (int i = 0; i < 4; i++) {
			a[i] = 1 + (double)rand() / RAND_MAX;
			b[i] = 3 * (1 + (double)rand() / RAND_MAX);
		}
		interval = interval_ratio(a, 4, b, 4, 0.95);
		covered += interval.low <= 3 && interval.high >= 3;
	}
	assert_in_range(covered, 20000 * 0.94, 20000);
}

static void the_largest_samples_are_counted(void **state)
{
	double a[INTERVAL_SAMPLES_MAX], b[INTERVAL_SAMPLES_MAX];
	struct interval interval;

	for (int i = 0; i < INTERVAL_SAMPLES_MAX; i++)
		a[i] = b[i] = 100 + i;
	interval = interval_ratio(a, INTERVAL_SAMPLES_MAX, b, INTERVAL_SAMPLES_MAX, 0.95);
	assert_true(interval.confidence >= 0.95 && interval.confidence < 0.955);
	assert_true(interval.low < 1 && interval.high > 1);
	assert_near(interval.ratio, 1);
}

/* By the tables of the signed-rank statistic: of 10, P(T <= 8) = 0.0244 and P(T <= 10) = 0.0420. */
static void the_middle_of_one_sample_has_an_interval(void **state)
{
	double x[10];
	struct interval interval;

	for (int i = 0; i < 10; i++)
		x[i] = i - 3;
	interval = interval_middle(x, 10, 0.95);
	assert_near(interval.confidence, 1 - 2 * 25.0 / 1024);
	assert_near(interval.ratio, 1.5);
	assert_near(interval.low + interval.high, 3);
	assert_true(interval.low < 0 && interval.high > 3);
	assert_near(interval_middle(x, 10, 0.9).confidence, 1 - 2 * 43.0 / 1024);
	x[9] = 1e9;
	assert_true(interval_middle(x, 10, 0.9).ratio < 2.5);
	assert_near(interval_middle(x, 1, 0.9).low, -3);
	assert_near(interval_middle(x, 5, 1).confidence, 1 - 2.0 / 32);
}

static double uniform(void)
{
	return (double)rand() / RAND_MAX;
}

static void the_middle_is_covered_as_often_as_it_says(void **state)
{
	int covered = 0;
	double x[16];

	srand(7);
	for (int trial = 0; trial < 4000; trial++) {
		struct interval interval;

		for (size_t i = 0; i < ARRAY_SIZE(x); i++)
			x[i] = 5 + (uniform() + uniform() + uniform() - 1.5) *
					   (uniform() < 0.1 ? 20 : 1);
		interval = interval_middle(x, ARRAY_SIZE(x), 0.9);
		covered += interval.low <= 5 && interval.high >= 5;
	}
	assert_in_range(covered, 3600 - 60, 3680 + 60);
}

static void the_largest_single_sample_is_counted(void **state)
{
	double x[INTERVAL_SAMPLES_MAX];
	struct interval interval;

	for (size_t i = 0; i < ARRAY_SIZE(x); i++)
		x[i] = (double)i;
	interval = interval_middle(x, ARRAY_SIZE(x), 0.9);
	assert_true(interval.confidence >= 0.9 && interval.confidence < 0.905);
	assert_near(interval.ratio, (INTERVAL_SAMPLES_MAX - 1) / 2.0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(small_samples_are_sure_of_little),
		cmocka_unit_test(the_narrowest_that_is_sure_enough_is_given),
		cmocka_unit_test(one_far_off_does_not_move_it),
		cmocka_unit_test(nothing_is_divided_by_nothing),
		cmocka_unit_test(it_covers_as_often_as_it_says),
		cmocka_unit_test(the_largest_samples_are_counted),
		cmocka_unit_test(the_middle_of_one_sample_has_an_interval),
		cmocka_unit_test(the_middle_is_covered_as_often_as_it_says),
		cmocka_unit_test(the_largest_single_sample_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
