/* Options: what users type for times and numbers, and what is refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/base/argument.h"
#include "client/base/options.h"
#include "core/base/array.h"
#include "core/base/units.h"
#include "proto/event.h"
#include "proto/hello.h"

#define NS_PER_S 1000000000ll

static void test_durations_have_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {
		{ "500ms", 500000000 },
		{ "10s", 10 * NS_PER_S },
		{ "5m", 300 * NS_PER_S },
		{ "2h", 7200 * NS_PER_S },
		{ "1.5s", 1500000000 },
		{ "7", 7 * NS_PER_S },
		{ "0", 0 },
		{ "3us", 3000 },
		{ "9ns", 9 },
		{ "1d", 86400 * NS_PER_S },
		{ "2min", 120 * NS_PER_S },
		{ ".5s", 500000000 },
		{ "5 s", 5 * NS_PER_S },
	};
	static const char *const bad[] = { "",	    "s",   "-5s", "+5s",  "5x",	    "5  s",
					   "1e99s", "nan", "inf", "5ms5", "400000d" };
	uint64_t ns;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(units_parse_duration(good[i].text, &ns), 0);
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (units_parse_duration(bad[i], &ns) >= 0)
			fail_msg("'%s' was taken", bad[i]);
}

static void expect_clock(const char *text, int64_t ns)
{
	struct moment moment;

	if (moment_parse(text, &moment) != 0)
		fail_msg("'%s' was refused", text);
	assert_false(moment.ago);
	assert_int_equal(moment.ns, ns);
}

static void test_moments_are_ago_or_local_time(void **state)
{
	struct moment moment;

	/* In winter CET, in summer CEST. */
	setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3", 1);
	tzset();
	assert_int_equal(moment_parse("10s", &moment), 0);
	assert_true(moment.ago);
	assert_int_equal(moment.ns, 10 * NS_PER_S);
	assert_int_equal(moment_parse("now", &moment), 0);
	assert_true(moment.ago);
	assert_int_equal(moment.ns, 0);
	expect_clock("2024-01-31T13:00:05", 1706702405 * NS_PER_S);
	expect_clock("2024-01-31 13:00:05", 1706702405 * NS_PER_S);
	expect_clock("2024-01-31T12:00:05Z", 1706702405 * NS_PER_S);
	expect_clock("2024-01-31T13:00:05.25", 1706702405 * NS_PER_S + 250000000);
	expect_clock("2024-07-31T14:00", 1722427200 * NS_PER_S);
	expect_clock("2024-01-31", 1706655600 * NS_PER_S);
}

static void test_nonsense_is_no_moment(void **state)
{
	static const char *const bad[] = {
		"", "yesterday", "2024-13-01", "2024-01-31T25:00", "2024-01-31T13:00:05x", "-10s"
	};
	struct moment moment;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (moment_parse(bad[i], &moment) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
}

#define PARSE(options, allowed, ...)                                                               \
	options_parse(options, allowed, "query", false,                                            \
		      sizeof((char *[]){ "query", __VA_ARGS__ }) / sizeof(char *),                 \
		      (char *[]){ "query", __VA_ARGS__, NULL })

static void test_options_stand_anywhere(void **state)
{
	struct options options = { 0 };
	char *argv[] = { "query", "--json", "leaks", "-p", "12", "--min-age=5m", NULL };

	assert_int_equal(options_parse(&options, OPTION(JSON) | OPTION(PID) | OPTION(MIN_AGE),
				       "query", false, 6, argv),
			 5);
	assert_string_equal(argv[5], "leaks");
	assert_true(options.given == (OPTION(JSON) | OPTION(PID) | OPTION(MIN_AGE)));
	assert_int_equal(options.pid, 12);
	assert_int_equal(options.min_age_ns, 300 * NS_PER_S);
}

static void test_bad_values_are_refused(void **state)
{
	const option_set all = ~(option_set)0;
	struct options options = { 0 };

	assert_int_equal(PARSE(&options, all, "--pid", "0"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--pid", "12x"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--pid", "-1"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--limit", "99999999999999999999"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--limit"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--nonsense"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "-Z"), -EINVAL);
	assert_int_equal(PARSE(&options, OPTION(JSON), "--pid", "1"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--socket", ""), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--json", "--csv"), -EINVAL);
}

static uint32_t records_of(const char *text)
{
	uint32_t records = 0;

	if (records_parse(text, &records) < 0)
		return 0;
	return records;
}

static void test_records_are_named_or_change_the_default(void **state)
{
	assert_int_equal(records_of("kernels"), TS_RECORD_KERNELS);
	assert_int_equal(records_of("kernels,copies"), TS_RECORD_KERNELS | TS_RECORD_COPIES);
	assert_int_equal(records_of("+syncs"), TS_RECORDS_DEFAULT | TS_RECORD_SYNCS);
	assert_int_equal(records_of("-nvtx,+syncs"),
			 (TS_RECORDS_DEFAULT & ~TS_RECORD_RANGES) | TS_RECORD_SYNCS);
	assert_int_equal(records_of("all,-memory"), TS_RECORDS_ALL & ~TS_RECORD_MEMORY);
	assert_int_equal(records_of("default"), TS_RECORDS_DEFAULT);
	assert_int_equal(records_of(""), 0);
	assert_int_equal(records_of("kernel"), 0);
	assert_int_equal(records_of("kernels,"), 0);
	assert_int_equal(records_of(",kernels"), 0);
	assert_int_equal(records_of("kernels,-kernels"), 0);
	assert_int_equal(records_of("-all"), 0);
	assert_int_equal(records_of("--syncs"), 0);
}

static void test_records_are_told_as_they_are_named(void **state)
{
	char text[RECORDS_TEXT_MAX];

	records_text(TS_RECORD_KERNELS | TS_RECORD_RANGES, text);
	assert_string_equal(text, "kernels, nvtx");
	records_text(0, text);
	assert_string_equal(text, "");
	records_text(UINT32_MAX, text);
	assert_true(strlen(text) < RECORDS_TEXT_MAX - 1);
	assert_string_equal(stacks_text(TS_STACKS_SAMPLED), "sampled");
	assert_string_equal(stacks_text(77), "unknown");
}

static void test_shares_are_percent(void **state)
{
	static const char *const bad[] = { "",	   "3",	   "%",	   "0%",  "101%", "-1%",
					   "nan%", "0x3%", "1e1%", "3%%", "3 %",  "0.00001%" };
	uint32_t ppm;

	assert_int_equal(share_parse("3%", &ppm), 0);
	assert_int_equal(ppm, 30000);
	assert_int_equal(share_parse("0.5%", &ppm), 0);
	assert_int_equal(ppm, 5000);
	assert_int_equal(share_parse("100%", &ppm), 0);
	assert_int_equal(ppm, 1000000);
	assert_int_equal(budget_parse("100%", &ppm), -EINVAL);
	assert_int_equal(ppm, 1000000);
	assert_int_equal(budget_parse("99.9%", &ppm), 0);
	assert_int_equal(ppm, 999000);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		if (share_parse(bad[i], &ppm) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
	for (int i = 0; i < 2; i++) {
		ppm = 7;
		assert_int_equal(share_or_none_parse(i ? "0" : "0%", &ppm), 0);
		assert_int_equal(ppm, 0);
	}
	assert_int_equal(share_or_none_parse("3%", &ppm), 0);
	assert_int_equal(ppm, 30000);
	assert_int_equal(share_or_none_parse("3", &ppm), -EINVAL);
}

static void test_a_value_may_be_left_out_where_brackets_say_so(void **state)
{
	struct options options = { .wait_ns = 7 };

	assert_int_equal(PARSE(&options, OPTION(WAIT), "--wait", "4711"), 2);
	assert_true(options.given == OPTION(WAIT));
	assert_int_equal(options.wait_ns, 0);
	assert_int_equal(PARSE(&options, OPTION(WAIT), "--wait=5s", "4711"), 2);
	assert_int_equal(options.wait_ns, 5 * NS_PER_S);
	assert_int_equal(PARSE(&options, OPTION(WAIT), "--wait=soon"), -EINVAL);
}

static void test_options_of_another_program_are_its_own(void **state)
{
	struct options options = { 0 };
	char *argv[] = { "run", "--stacks", "all", "prog", "--stacks", "wide", "--json", NULL };
	char *dashes[] = { "run", "--", "--help", NULL };

	assert_int_equal(options_parse(&options, OPTIONS_RECORD, "run", true, 7, argv), 3);
	assert_int_equal(options.stacks, TS_STACKS_ALL);
	assert_string_equal(argv[3], "prog");
	assert_string_equal(argv[4], "--stacks");
	assert_int_equal(options_parse(&options, OPTION(HELP), "run", true, 3, dashes), 2);
	assert_string_equal(dashes[2], "--help");
	assert_true(options.given == OPTION(STACKS));
}

static void test_rows_are_split_by_one_thing(void **state)
{
	struct options options = { 0 };

	assert_int_equal(PARSE(&options, OPTIONS_BY, "--by-stack"), 2);
	options.given = 0;
	assert_int_equal(PARSE(&options, OPTIONS_BY, "--by-stack", "--by-stream"), -EINVAL);
}

static void test_the_daemon_is_asked_for_its_last_seconds(void **state)
{
	const int64_t ten_s = 10000000000;
	struct options none = { 0 }, file = { .file = "a.sbt" }, until = { 0 }, clock = { 0 },
		       since = { 0 }, ever = { 0 };

	assert_true(argument_window(&none));
	assert_true(none.given & OPTION(SINCE) && none.since.ago && none.since.ns == ten_s);
	assert_false(argument_window(&file));
	assert_true(file.given == 0);
	assert_int_equal(PARSE(&until, OPTIONS_WINDOW, "--until", "1h"), 3);
	assert_true(argument_window(&until));
	assert_true(until.since.ago && until.since.ns == 360 * ten_s + ten_s);
	assert_int_equal(PARSE(&clock, OPTIONS_WINDOW, "--until", "2024-05-31T13:00:00"), 3);
	assert_true(argument_window(&clock));
	assert_true(!clock.since.ago && clock.since.ns == clock.until.ns - ten_s);
	assert_int_equal(PARSE(&since, OPTIONS_WINDOW, "--since", "3s"), 3);
	assert_false(argument_window(&since));
	assert_int_equal(since.since.ns, 3000000000);
	ever.given = OPTION(UNTIL);
	ever.until = (struct moment){ .ago = true, .ns = INT64_MAX };
	assert_true(argument_window(&ever));
	assert_int_equal(ever.since.ns, INT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_durations_have_units),
		cmocka_unit_test(test_moments_are_ago_or_local_time),
		cmocka_unit_test(test_nonsense_is_no_moment),
		cmocka_unit_test(test_options_stand_anywhere),
		cmocka_unit_test(test_bad_values_are_refused),
		cmocka_unit_test(test_records_are_named_or_change_the_default),
		cmocka_unit_test(test_records_are_told_as_they_are_named),
		cmocka_unit_test(test_shares_are_percent),
		cmocka_unit_test(test_a_value_may_be_left_out_where_brackets_say_so),
		cmocka_unit_test(test_options_of_another_program_are_its_own),
		cmocka_unit_test(test_rows_are_split_by_one_thing),
		cmocka_unit_test(test_the_daemon_is_asked_for_its_last_seconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
