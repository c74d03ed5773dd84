/* Estimate: what samples of call stacks represent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/estimate.h"

#define STACKS 8

/* What is estimated, by stack; 0 for what has none. */
struct shares {
	struct estimate_sum sum[STACKS];
	uint64_t sampled, scaled;
};

static int take(void *data, const struct estimate_result *result)
{
	struct shares *shares = data;
	struct estimate_sum *sum = &shares->sum[result->stack];

	assert_true(result->stack < STACKS);
	sum->count += result->sum.count;
	sum->ns += result->sum.ns;
	sum->bytes += result->sum.bytes;
	shares->sampled += result->sampled;
	shares->scaled += result->scaled;
	return 0;
}

static struct shares end(struct estimate *estimate)
{
	struct shares shares = { 0 };

	assert_int_equal(estimate_end(estimate, take, &shares), 0);
	estimate_clear(estimate);
	return shares;
}

static void add(struct estimate *estimate, const struct estimate_key *key, uint64_t step,
		uint64_t stack, uint64_t count, uint64_t ns)
{
	struct estimate_part *part = estimate_part(estimate, key);
	struct estimate_sum sum = { count, ns, count };

	assert_non_null(part);
	assert_int_equal(estimate_add(estimate, part, step, stack, &sum), 0);
}

static const struct estimate_key kernel = { .what = 1, .process = 1, .thread = 1, .stream = 1 };

static void what_has_a_stack_is_as_it_was_told(void **state)
{
	struct estimate estimate = { 0 };
	struct shares shares;

	for (uint64_t i = 0; i < 100; i++)
		add(&estimate, &kernel, 0, 1 + i % 3, 1, 10 * i);
	shares = end(&estimate);
	assert_int_equal(shares.scaled, 0);
	assert_int_equal(shares.sampled, 100);
	assert_int_equal(shares.sum[1].count, 34);
	assert_int_equal(shares.sum[1].ns, 10 * 33 * 34 / 2 * 3);
	assert_int_equal(shares.sum[0].count, 0);
}

/* 3 before the first, 5 before the second, and 2 after it. */
static void a_sample_stands_for_what_came_since_the_last(void **state)
{
	struct estimate estimate = { 0 };
	struct shares shares;

	for (int i = 0; i < 12; i++)
		add(&estimate, &kernel, 0, i == 3 ? 1 : i == 9 ? 2 : 0, 1, 100);
	shares = end(&estimate);
	assert_int_equal(shares.sum[1].count, 4);
	assert_int_equal(shares.sum[2].count, 8);
	assert_int_equal(shares.sum[1].ns, 400);
	assert_int_equal(shares.sum[2].ns, 800);
	assert_int_equal(shares.sum[0].count, 0);
	assert_int_equal(shares.sampled, 2);
	assert_int_equal(shares.scaled, 10);
}

/* Two paths launch one kernel as often, the second for nine times as long. */
static void a_sample_weighs_what_it_took(void **state)
{
	struct estimate estimate = { 0 };
	struct shares shares;
	uint64_t all = 0;

	for (int i = 0; i < 10000; i++) {
		bool sampled = i % 101 == 7;

		add(&estimate, &kernel, 0, sampled ? 1 + i % 2 : 0, 1, i % 2 ? 90 : 10);
		all += i % 2 ? 90 : 10;
	}
	shares = end(&estimate);
	assert_int_equal(shares.sum[1].ns + shares.sum[2].ns, all);
	assert_int_equal(shares.sum[1].count + shares.sum[2].count, 10000);
	assert_in_range(shares.sum[2].ns, all * 88 / 100, all * 92 / 100);
}

static void what_has_no_sample_takes_those_of_other_threads_and_streams(void **state)
{
	struct estimate_key other = { .what = 1, .process = 1, .thread = 2, .stream = 3 };
	struct estimate_key foreign = { .what = 1, .process = 2, .thread = 2, .stream = 3 };
	struct estimate_key unlike = { .what = 2, .process = 1, .thread = 1, .stream = 1 };
	struct estimate estimate = { 0 };
	struct shares shares;

	add(&estimate, &kernel, 0, 1, 1, 300);
	add(&estimate, &kernel, 0, 2, 1, 100);
	add(&estimate, &other, 0, 0, 8, 4000);
	add(&estimate, &foreign, 0, 0, 1, 7);
	add(&estimate, &unlike, 0, 0, 1, 9);
	shares = end(&estimate);
	assert_int_equal(shares.sum[1].ns, 3300);
	assert_int_equal(shares.sum[2].ns, 1100);
	assert_int_equal(shares.sum[1].count, 5);
	assert_int_equal(shares.sum[0].ns, 16);
	assert_int_equal(shares.sum[0].count, 2);
}

/* Sums of seconds: in the first all is rare and sampled, in the second one in 100, in the third
 * nothing was. */
static void samples_of_a_step_stand_for_all_of_it(void **state)
{
	struct estimate estimate = { 0 };
	struct shares shares;

	add(&estimate, &kernel, 1, 1, 10, 1000);
	add(&estimate, &kernel, 2, 2, 5, 500);
	add(&estimate, &kernel, 2, 0, 990, 99000);
	add(&estimate, &kernel, 2, 3, 5, 500);
	add(&estimate, &kernel, 3, 0, 100, 10000);
	add(&estimate, &kernel, 4, 3, 1, 100);
	shares = end(&estimate);
	assert_int_equal(shares.sum[1].count, 10);
	assert_int_equal(shares.sum[2].count, 500);
	assert_int_equal(shares.sum[3].count, 601);
	assert_int_equal(shares.sum[3].ns, 60100);
}

static void what_never_has_a_stack_keeps_none(void **state)
{
	static const struct estimate_sum sum = { 3, 30, 0 };
	struct estimate estimate = { 0 };
	struct shares shares;

	add(&estimate, &kernel, 0, 1, 1, 10);
	estimate_add_unstacked(estimate_part(&estimate, &kernel), &sum);
	shares = end(&estimate);
	assert_int_equal(shares.sum[0].count, 3);
	assert_int_equal(shares.sum[1].count, 1);
	assert_int_equal(shares.scaled, 0);
}

/* Durations of 0, and sums that are beyond any: nothing is lost by rounding. */
static void nothing_gets_lost(void **state)
{
	struct estimate estimate = { 0 };
	struct shares shares;
	uint64_t ns = 0, count = 0;

	srand(7);
	for (int i = 0; i < 20000; i++) {
		struct estimate_key key = { rand() % 3, 1, 0, rand() % 2, rand() % 4 };
		uint64_t took = rand() % 3 ? 0 : (uint64_t)rand() << 8;

		add(&estimate, &key, 0, rand() % 50 ? 0 : 1 + rand() % 7, 1, took);
		ns += took;
		count++;
	}
	shares = end(&estimate);
	for (int i = 0; i < STACKS; i++) {
		ns -= shares.sum[i].ns;
		count -= shares.sum[i].count;
	}
	assert_int_equal(ns, 0);
	assert_int_equal(count, 0);
	assert_int_equal(shares.sum[0].count, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_a_stack_is_as_it_was_told),
		cmocka_unit_test(a_sample_stands_for_what_came_since_the_last),
		cmocka_unit_test(a_sample_weighs_what_it_took),
		cmocka_unit_test(what_has_no_sample_takes_those_of_other_threads_and_streams),
		cmocka_unit_test(samples_of_a_step_stand_for_all_of_it),
		cmocka_unit_test(what_never_has_a_stack_keeps_none),
		cmocka_unit_test(nothing_gets_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
