/* Diff: two recordings told by hand, and what of it counts as worse. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/diff.h"
#include "client/diff_show.h"

#define FIVE_PERCENT 50000

/* Durations that are all in [mean - spread, mean + spread], its quartiles half way. */
static void tell(struct diff *diff, int side, enum diff_section section, const char *name,
		 uint64_t count, uint64_t mean, uint64_t spread)
{
	struct diff_side value = {
		.count = count,
		.total = count * mean,
		.p25 = mean - spread / 2,
		.p50 = mean,
		.p75 = mean + spread / 2,
	};

	assert_int_equal(diff_add(diff, side, section, name, &value), 0);
}

static void tell_total(struct diff *diff, int side, enum diff_section section, const char *name,
		       uint64_t total)
{
	struct diff_side value = { .count = 1, .total = total };

	assert_int_equal(diff_add(diff, side, section, name, &value), 0);
}

static const struct diff_row *row_of(const struct diff *diff, enum diff_section section,
				     const char *name)
{
	for (size_t i = 0; i < diff->count; i++)
		if (diff->row[i].section == section && strcmp(diff->row[i].name, name) == 0)
			return &diff->row[i];
	fail_msg("there is no %s", name);
	return NULL;
}

static enum diff_verdict verdict_of(const struct diff *diff, enum diff_section section,
				    const char *name)
{
	return row_of(diff, section, name)->verdict;
}

static void test_sum_finds_quartiles(void **state)
{
	static const struct diff_bucket bucket[] = {
		{ 1, 10, 10, 10 },
		{ 2, 42, 20, 22 },
		{ 1, 40, 40, 40 },
	};
	static const struct diff_bucket total = { 100, 5000, 0, 0 };
	struct diff_side sum = diff_sum(bucket, 3);

	assert_int_equal(sum.count, 4);
	assert_int_equal(sum.total, 92);
	assert_int_equal(sum.p25, 10);
	assert_int_equal(sum.p50, 20);
	assert_int_equal(sum.p75, 22);
	sum = diff_sum(bucket, 0);
	assert_int_equal(sum.count, 0);
	sum = diff_sum(&total, 1);
	assert_int_equal(sum.count, 100);
	assert_int_equal(sum.p50, 0);
}

static void test_the_same_is_the_same(void **state)
{
	struct diff diff = { 0 };

	for (int side = 0; side < 2; side++) {
		tell(&diff, side, DIFF_KERNELS, "gemm", 100, 1000, 20);
		tell_total(&diff, side, DIFF_TIME, "makespan", 200000);
		tell_total(&diff, side, DIFF_MEMORY, "device peak", 1 << 20);
	}
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	assert_true(diff.alike);
	assert_int_equal(diff.gpu[0], 100000);
	assert_int_equal(diff.count, 4);
	for (size_t i = 0; i < diff.count; i++) {
		assert_int_equal(diff.row[i].verdict, DIFF_SAME);
		assert_true(diff.row[i].difference == 0);
	}
	diff_done(&diff);
}

static void test_what_got_slower_is_first_and_worse(void **state)
{
	struct diff diff = { 0 };

	tell(&diff, 0, DIFF_KERNELS, "small", 100, 1000, 20);
	tell(&diff, 1, DIFF_KERNELS, "small", 100, 900, 20);
	tell(&diff, 0, DIFF_KERNELS, "gemm", 100, 1000, 20);
	tell(&diff, 1, DIFF_KERNELS, "gemm", 100, 1500, 20);
	tell(&diff, 1, DIFF_KERNELS, "added", 10, 1000, 20);
	tell(&diff, 0, DIFF_KERNELS, "gone", 9, 1000, 20);
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "gemm"), DIFF_WORSE);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "small"), DIFF_BETTER);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "added"), DIFF_NEW);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "gone"), DIFF_GONE);
	assert_int_equal(verdict_of(&diff, DIFF_TIME, "all kernels"), DIFF_WORSE);
	assert_string_equal(diff.row[0].name, "all kernels");
	assert_string_equal(diff.row[1].name, "gemm");
	assert_true(diff.row[1].difference == 50000);
	assert_true(fabs(diff.row[1].change - 0.5) < 1e-9);
	assert_true(isnan(row_of(&diff, DIFF_KERNELS, "added")->change));
	diff_done(&diff);
}

/* Five times 10 % are no news if they come from two durations, from one in a thousand, or from
 * kernels that take between 500 and 1500 ns. */
static void test_what_is_not_sure_does_not_count(void **state)
{
	struct diff diff = { 0 };

	tell(&diff, 0, DIFF_KERNELS, "much", 1000, 1000, 20);
	tell(&diff, 1, DIFF_KERNELS, "much", 1000, 1000, 20);
	tell(&diff, 0, DIFF_KERNELS, "light", 5, 1000, 20);
	tell(&diff, 1, DIFF_KERNELS, "light", 5, 1500, 20);
	tell(&diff, 0, DIFF_KERNELS, "few", 4, 10000, 20);
	tell(&diff, 1, DIFF_KERNELS, "few", 4, 15000, 20);
	tell(&diff, 0, DIFF_KERNELS, "noise", 100, 1000, 500);
	tell(&diff, 1, DIFF_KERNELS, "noise", 100, 1100, 500);
	tell(&diff, 0, DIFF_KERNELS, "more", 100, 1000, 500);
	tell(&diff, 1, DIFF_KERNELS, "more", 110, 1000, 500);
	tell_total(&diff, 0, DIFF_IDLE, "idle", 100000);
	tell_total(&diff, 1, DIFF_IDLE, "idle", 200000);
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "light"), DIFF_LIGHT);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "few"), DIFF_FEW);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "noise"), DIFF_NOISE);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "more"), DIFF_WORSE);
	assert_int_equal(verdict_of(&diff, DIFF_IDLE, "idle"), DIFF_NONE);
	diff_done(&diff);
}

static void test_what_was_measured_once_needs_more(void **state)
{
	struct diff diff = { 0 };

	tell_total(&diff, 0, DIFF_TIME, "all", 1000);
	tell_total(&diff, 1, DIFF_TIME, "all", 1190);
	tell_total(&diff, 0, DIFF_TIME, "twice", 1000);
	tell_total(&diff, 1, DIFF_TIME, "twice", 1210);
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	assert_int_equal(verdict_of(&diff, DIFF_TIME, "all"), DIFF_SAME);
	assert_int_equal(verdict_of(&diff, DIFF_TIME, "twice"), DIFF_WORSE);
	diff_done(&diff);
}

/* B went on three times as long, and does nothing slower but one kernel. */
static void test_recordings_of_different_length_are_compared_by_call(void **state)
{
	struct diff_side copy = { .count = 10, .total = 1000, .bytes = 10000 };
	struct diff diff = { 0 };

	tell(&diff, 0, DIFF_KERNELS, "gemm", 100, 1000, 20);
	tell(&diff, 1, DIFF_KERNELS, "gemm", 300, 1000, 20);
	tell(&diff, 0, DIFF_KERNELS, "slower", 10, 1000, 20);
	tell(&diff, 1, DIFF_KERNELS, "slower", 30, 1200, 20);
	tell_total(&diff, 0, DIFF_TIME, "all", 1000);
	tell_total(&diff, 1, DIFF_TIME, "all", 3600);
	tell_total(&diff, 0, DIFF_MEMORY, "peak", 1000);
	tell_total(&diff, 1, DIFF_MEMORY, "peak", 2000);
	assert_int_equal(diff_add(&diff, 0, DIFF_TRANSFERS, "HtoD", &copy), 0);
	copy = (struct diff_side){ .count = 30, .total = 6000, .bytes = 60000 };
	assert_int_equal(diff_add(&diff, 1, DIFF_TRANSFERS, "HtoD", &copy), 0);
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	assert_false(diff.alike);
	assert_true(diff.ratio == 3);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "gemm"), DIFF_SAME);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "slower"), DIFF_WORSE);
	assert_true(row_of(&diff, DIFF_KERNELS, "slower")->difference == 6000);
	assert_true(row_of(&diff, DIFF_TRANSFERS, "HtoD")->difference == 0);
	assert_true(row_of(&diff, DIFF_TIME, "all")->difference == 600);
	assert_int_equal(verdict_of(&diff, DIFF_TIME, "all"), DIFF_NONE);
	assert_int_equal(verdict_of(&diff, DIFF_MEMORY, "peak"), DIFF_NONE);
	assert_false(diff_is_part(&diff, 0));
	diff_done(&diff);
}

/* One that was cut off is no measure of the other, nor is one that did nothing. */
static void test_a_part_or_nothing_is_no_measure(void **state)
{
	struct diff diff = { 0 };

	tell(&diff, 0, DIFF_KERNELS, "gemm", 100, 1000, 20);
	tell_total(&diff, 0, DIFF_LOST, "gap", 3);
	tell_total(&diff, 1, DIFF_LOST, "cut-off", 1);
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	assert_false(diff.common);
	assert_int_equal(diff.gpu[1], 0);
	assert_false(diff_is_part(&diff, 0));
	assert_true(diff_is_part(&diff, 1));
	diff_done(&diff);
}

/* A kernel that was split in two does not make recordings of different length. */
static void test_one_kernel_more_often_is_the_same_length(void **state)
{
	struct diff diff = { 0 };

	tell(&diff, 0, DIFF_KERNELS, "gemm", 100, 1000, 20);
	tell(&diff, 1, DIFF_KERNELS, "gemm", 100, 1000, 20);
	tell(&diff, 0, DIFF_KERNELS, "relu", 100, 1000, 20);
	tell(&diff, 1, DIFF_KERNELS, "relu", 100, 1000, 20);
	tell(&diff, 0, DIFF_KERNELS, "add", 100, 10000, 20);
	tell(&diff, 1, DIFF_KERNELS, "add", 400, 10000, 20);
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	assert_true(diff.alike);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "add"), DIFF_WORSE);
	diff_done(&diff);
}

/* The largest numbers, the longest name, and nothing at all. */
static void test_any_numbers_are_taken(void **state)
{
	static const char *const path[2] = { "a.sbt", "b\033.sbt" };
	struct options options = { .given = OPTION_CSV };
	struct diff_side most = { UINT64_MAX, UINT64_MAX, UINT64_MAX,
				  UINT64_MAX, UINT64_MAX, UINT64_MAX };
	struct diff diff = { 0 };
	int quiet, shown = dup(STDOUT_FILENO);
	char name[5000];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	for (int i = 0; i < DIFF_SECTION_COUNT; i++) {
		assert_int_equal(diff_add(&diff, i & 1, i, name, &most), 0);
		assert_int_equal(diff_add(&diff, 0, i, "", &most), 0);
		assert_int_equal(diff_add(&diff, 1, i, "", &(struct diff_side){ 0 }), 0);
		assert_int_equal(diff_add(&diff, 1, i, "x", &(struct diff_side){ .count = 1 }), 0);
		assert_int_equal(diff_add(&diff, 0, i, "x", &(struct diff_side){ .count = 1 }), 0);
	}
	assert_int_equal(diff_end(&diff, 1), 0);
	quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
	fflush(stdout);
	dup2(quiet, STDOUT_FILENO);
	assert_int_equal(diff_show(&options, &diff, path), 0);
	options.given = OPTION_JSON;
	assert_int_equal(diff_show(&options, &diff, path), 0);
	options.given = 0;
	assert_int_equal(diff_show(&options, &diff, path), 0);
	fflush(stdout);
	dup2(shown, STDOUT_FILENO);
	close(shown);
	close(quiet);
	diff_done(&diff);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum_finds_quartiles),
		cmocka_unit_test(test_the_same_is_the_same),
		cmocka_unit_test(test_what_got_slower_is_first_and_worse),
		cmocka_unit_test(test_what_is_not_sure_does_not_count),
		cmocka_unit_test(test_what_was_measured_once_needs_more),
		cmocka_unit_test(test_recordings_of_different_length_are_compared_by_call),
		cmocka_unit_test(test_a_part_or_nothing_is_no_measure),
		cmocka_unit_test(test_one_kernel_more_often_is_the_same_length),
		cmocka_unit_test(test_any_numbers_are_taken),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
