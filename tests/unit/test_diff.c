/* Diff: two hand-made recordings, and which differences count as worse. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/diff/diff.h"
#include "client/diff/show.h"
#include "core/base/array.h"
#include "core/store/query/table.h"

#define FIVE_PERCENT 50000

/* With parts that are about alike. */
static void tell_run(struct diff *diff, int side, uint32_t run, enum diff_section section,
		     const char *name, const struct diff_side *value)
{
	assert_int_equal(diff_add(diff, side, run, section, name, value), 0);
	for (uint64_t i = 0; i < DIFF_BLOCKS && value->count >= DIFF_BLOCKS; i++) {
		struct diff_block block = {
			.count = value->count / DIFF_BLOCKS,
			.total = value->total / DIFF_BLOCKS + i % 3,
			.bytes = value->bytes / DIFF_BLOCKS,
		};

		assert_int_equal(diff_add_block(diff, side, run, section, name, &block), 0);
	}
}

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

	tell_run(diff, side, 0, section, name, &value);
}

static void tell_total(struct diff *diff, int side, enum diff_section section, const char *name,
		       uint64_t total)
{
	struct diff_side value = { .count = 1, .total = total };

	assert_int_equal(diff_add(diff, side, 0, section, name, &value), 0);
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
		tell_total(&diff, side, DIFF_WALL, "makespan", 200000);
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

/* Of wall time one recording each says nothing, whatever it is. */
static void test_what_was_measured_once_is_not_decided(void **state)
{
	struct diff diff = { 0 };

	tell(&diff, 0, DIFF_KERNELS, "gemm", 100, 1000, 20);
	tell(&diff, 1, DIFF_KERNELS, "gemm", 100, 1000, 20);
	tell_total(&diff, 0, DIFF_WALL, "slower", 1000000);
	tell_total(&diff, 1, DIFF_WALL, "slower", 1470000);
	tell_total(&diff, 0, DIFF_WALL, "same", 1000000);
	tell_total(&diff, 1, DIFF_WALL, "same", 1040000);
	tell_total(&diff, 0, DIFF_MEMORY, "peak", 1000000);
	tell_total(&diff, 1, DIFF_MEMORY, "peak", 1060000);
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	assert_int_equal(verdict_of(&diff, DIFF_WALL, "slower"), DIFF_OPEN);
	assert_true(diff_may_be_worse(row_of(&diff, DIFF_WALL, "slower"), 0.05));
	assert_int_equal(verdict_of(&diff, DIFF_WALL, "same"), DIFF_SAME);
	assert_int_equal(verdict_of(&diff, DIFF_MEMORY, "peak"), DIFF_WORSE);
	diff_done(&diff);
}

/* Parts that vary by a tenth, in one recording each. */
static void test_parts_of_a_recording_make_an_interval(void **state)
{
	static const struct diff_side value[2] = { { .count = 100, .total = 100000 },
						   { .count = 100, .total = 108000 } };
	struct diff diff = { 0 };
	const struct diff_row *row;

	for (int side = 0; side < 2; side++) {
		assert_int_equal(diff_add(&diff, side, 0, DIFF_KERNELS, "k", &value[side]), 0);
		for (uint64_t i = 0; i < DIFF_BLOCKS; i++) {
			struct diff_block block = { 10, value[side].total / 10 - 900 + 200 * i, 0 };

			assert_int_equal(diff_add_block(&diff, side, 0, DIFF_KERNELS, "k", &block),
					 0);
		}
	}
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	row = row_of(&diff, DIFF_KERNELS, "k");
	assert_true(fabs(row->change - 0.08) < 1e-9);
	assert_true(row->low < 0.05 && row->low > 0);
	assert_true(row->high > 0.09 && row->high < 0.2);
	assert_int_equal(row->verdict, DIFF_OPEN);
	assert_int_equal(verdict_of(&diff, DIFF_TIME, "all kernels"), DIFF_OPEN);
	diff_done(&diff);
}

/* A number that is as likely to be `times` too large as too small, at most; mostly less. */
static double noise(double times)
{
	double sum = 0;

	for (int i = 0; i < 3; i++)
		sum += (double)rand() / RAND_MAX - 0.5;
	return pow(times, sum / 1.5);
}

#define KERNELS 10

/* Runs of one program, whose GPU times differ a little and whose wall time differs a lot. */
static void tell_noisy(struct diff *diff, int side, uint32_t run, double differ, double slower)
{
	struct diff_side wall = { .count = 1, .total = (uint64_t)(1e9 * noise(1.9)) };
	double clock = noise(differ); /* of the whole run */
	char name[16];

	for (int i = 0; i < KERNELS; i++) {
		uint64_t mean =
			(uint64_t)(1000 * (i + 1) * clock * noise(1.005) * (i == 3 ? slower : 1));
		struct diff_side value = {
			.count = 1000,
			.total = 1000 * mean,
			.p25 = mean - mean / 100,
			.p50 = mean,
			.p75 = mean + mean / 100,
		};

		snprintf(name, sizeof(name), "k%d", i);
		tell_run(diff, side, run, DIFF_KERNELS, name, &value);
	}
	assert_int_equal(diff_add(diff, side, run, DIFF_WALL, "wall", &wall), 0);
}

static uint32_t count_worse(uint32_t runs, double differ, double slower, enum diff_verdict *ret)
{
	struct diff diff = { .runs = { runs, runs } };
	uint32_t worse = 0;

	for (int side = 0; side < 2; side++)
		for (uint32_t run = 0; run < runs; run++)
			tell_noisy(&diff, side, run, differ, side == 1 ? slower : 1);
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	for (size_t i = 0; i < diff.count; i++)
		worse += diff.row[i].verdict == DIFF_WORSE;
	*ret = verdict_of(&diff, DIFF_KERNELS, "k3");
	diff_done(&diff);
	return worse;
}

/* What differs from run to run a recording does not know of itself: it is less than the share here.
 * Of three it may be more. */
static void test_runs_of_the_same_never_fail(void **state)
{
	enum diff_verdict verdict;

	srand(1);
	for (int trial = 0; trial < 1000; trial++) {
		assert_int_equal(count_worse(1, 1.015, 1, &verdict), 0);
		assert_int_equal(count_worse(3, 1.07, 1, &verdict), 0);
	}
}

/* Of five of each an interval of wall time is told, too: it is wrong in one of 252 at most. */
static void test_wall_time_is_hardly_ever_wrong(void **state)
{
	enum diff_verdict verdict;
	uint32_t worse = 0;

	srand(2);
	for (int trial = 0; trial < 1000; trial++)
		worse += count_worse(5, 1.07, 1, &verdict);
	assert_in_range(worse, 0, 10);
}

static void test_what_got_slower_by_a_fifth_is_found(void **state)
{
	enum diff_verdict verdict;

	srand(3);
	for (int trial = 0; trial < 200; trial++) {
		count_worse(3, 1.03, 1.2, &verdict);
		assert_int_equal(verdict, DIFF_WORSE);
	}
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
	tell_total(&diff, 0, DIFF_WALL, "all", 1000);
	tell_total(&diff, 1, DIFF_WALL, "all", 3600);
	tell_total(&diff, 0, DIFF_MEMORY, "peak", 1000);
	tell_total(&diff, 1, DIFF_MEMORY, "peak", 2000);
	assert_int_equal(diff_add(&diff, 0, 0, DIFF_TRANSFERS, "HtoD", &copy), 0);
	copy = (struct diff_side){ .count = 30, .total = 6000, .bytes = 60000 };
	assert_int_equal(diff_add(&diff, 1, 0, DIFF_TRANSFERS, "HtoD", &copy), 0);
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	assert_false(diff.alike);
	assert_true(diff.ratio == 3);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "gemm"), DIFF_SAME);
	assert_int_equal(verdict_of(&diff, DIFF_KERNELS, "slower"), DIFF_WORSE);
	assert_true(row_of(&diff, DIFF_KERNELS, "slower")->difference == 6000);
	assert_true(row_of(&diff, DIFF_TRANSFERS, "HtoD")->difference == 0);
	assert_true(row_of(&diff, DIFF_WALL, "all")->difference == 600);
	assert_int_equal(verdict_of(&diff, DIFF_WALL, "all"), DIFF_NONE);
	assert_int_equal(verdict_of(&diff, DIFF_MEMORY, "peak"), DIFF_NONE);
	assert_false(diff_is_part(&diff, 0, 0));
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
	assert_false(diff_is_part(&diff, 0, 0));
	assert_true(diff_is_part(&diff, 1, 0));
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

/* Those of both sides, as other answers say it. */
static void test_losses_are_said_in_words(void **state)
{
	char *path[] = { "a.sbt", "b.sbt" }, text[8192] = "";
	const struct diff_paths sides[2] = { { path, 1 }, { path + 1, 1 } };
	const struct options options = { .given = OPTION(JSON) };
	const struct diff_side two = { .count = 1, .total = 2, .bytes = 1500000000 };
	int shown = dup(STDOUT_FILENO);
	struct diff diff = { 0 };
	FILE *file = tmpfile();

	assert_int_equal(diff_add(&diff, 0, 0, DIFF_LOST, "gap", &two), 0);
	assert_int_equal(diff_add(&diff, 1, 0, DIFF_LOST, "gap", &two), 0);
	assert_int_equal(diff_add(&diff, 1, 0, DIFF_LOST, "windows", &two), 0);
	assert_int_equal(diff_add(&diff, 1, 0, DIFF_LOST, "ring-full", &two), 0);
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	fflush(stdout);
	dup2(fileno(file), STDOUT_FILENO);
	assert_int_equal(diff_show(&options, &diff, sides), 0);
	fflush(stdout);
	dup2(shown, STDOUT_FILENO);
	close(shown);
	rewind(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	assert_non_null(strstr(text, "not watched for 3.00 s (probes were not attached yet)"));
	assert_non_null(strstr(text, "sampled: frequent calls were not seen all the time"));
	assert_non_null(strstr(text, "lost: 2 events (ring-full)"));
	assert_null(strstr(text, "a_bytes\":1500000000"));
	diff_done(&diff);
}

/* The largest numbers, the longest name, and nothing at all. */
static void test_any_numbers_are_taken(void **state)
{
	char *path[] = { "a.sbt", "b\033.sbt" };
	const struct diff_paths sides[2] = { { path, 1 }, { path + 1, 1 } };
	struct options options = { .given = OPTION(CSV) };
	struct diff_side most = { UINT64_MAX, UINT64_MAX, UINT64_MAX,
				  UINT64_MAX, UINT64_MAX, UINT64_MAX };
	struct diff diff = { 0 };
	int quiet, shown = dup(STDOUT_FILENO);
	char name[5000];

	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	assert_int_equal(diff_end(&diff, FIVE_PERCENT), 0);
	for (int i = 0; i < DIFF_SECTION_COUNT; i++) {
		assert_int_equal(diff_add(&diff, i & 1, 0, i, name, &most), 0);
		assert_int_equal(diff_add(&diff, 0, 0, i, "", &most), 0);
		assert_int_equal(diff_add(&diff, 1, 0, i, "", &(struct diff_side){ 0 }), 0);
		assert_int_equal(diff_add(&diff, 1, 0, i, "x", &(struct diff_side){ .count = 1 }),
				 0);
		assert_int_equal(diff_add(&diff, 0, 0, i, "x", &(struct diff_side){ .count = 1 }),
				 0);
	}
	assert_int_equal(diff_end(&diff, 1), 0);
	quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
	fflush(stdout);
	dup2(quiet, STDOUT_FILENO);
	assert_int_equal(diff_show(&options, &diff, sides), 0);
	options.given = OPTION(JSON);
	assert_int_equal(diff_show(&options, &diff, sides), 0);
	options.given = 0;
	assert_int_equal(diff_show(&options, &diff, sides), 0);
	fflush(stdout);
	dup2(shown, STDOUT_FILENO);
	close(shown);
	close(quiet);
	diff_done(&diff);
}

static void test_queries_make_as_many_blocks(void **state)
{
	static const char *const names[] = { "diff-kernel-blocks", "diff-transfer-blocks" };
	char ntile[16];

	snprintf(ntile, sizeof(ntile), "ntile(%d)", DIFF_BLOCKS);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		assert_non_null(strstr(query_find(names[i])->sql, ntile));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sum_finds_quartiles),
		cmocka_unit_test(test_the_same_is_the_same),
		cmocka_unit_test(test_what_got_slower_is_first_and_worse),
		cmocka_unit_test(test_what_is_not_sure_does_not_count),
		cmocka_unit_test(test_what_was_measured_once_is_not_decided),
		cmocka_unit_test(test_parts_of_a_recording_make_an_interval),
		cmocka_unit_test(test_queries_make_as_many_blocks),
		cmocka_unit_test(test_runs_of_the_same_never_fail),
		cmocka_unit_test(test_wall_time_is_hardly_ever_wrong),
		cmocka_unit_test(test_what_got_slower_by_a_fifth_is_found),
		cmocka_unit_test(test_recordings_of_different_length_are_compared_by_call),
		cmocka_unit_test(test_a_part_or_nothing_is_no_measure),
		cmocka_unit_test(test_one_kernel_more_often_is_the_same_length),
		cmocka_unit_test(test_any_numbers_are_taken),
		cmocka_unit_test(test_losses_are_said_in_words),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
