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

#include "client/options.h"
#include "core/base/units.h"

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
	};
	static const char *const bad[] = { "",	    "s",   "-5s", "+5s",  "5x",	    "5 s",
					   "1e99s", "nan", "inf", "5ms5", "400000d" };
	uint64_t ns;

	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(units_parse_duration(good[i].text, &ns), 0);
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
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

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
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

	assert_int_equal(options_parse(&options, OPTION_JSON | OPTION_PID | OPTION_MIN_AGE, "query",
				       false, 6, argv),
			 5);
	assert_string_equal(argv[5], "leaks");
	assert_int_equal(options.given, OPTION_JSON | OPTION_PID | OPTION_MIN_AGE);
	assert_int_equal(options.pid, 12);
	assert_int_equal(options.min_age_ns, 300 * NS_PER_S);
}

static void test_bad_values_are_refused(void **state)
{
	const uint32_t all = (1u << OPTION_COUNT) - 1;
	struct options options = { 0 };

	assert_int_equal(PARSE(&options, all, "--pid", "0"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--pid", "12x"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--pid", "-1"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--limit", "99999999999999999999"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--limit"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--nonsense"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "-Z"), -EINVAL);
	assert_int_equal(PARSE(&options, OPTION_JSON, "--pid", "1"), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--socket", ""), -EINVAL);
	assert_int_equal(PARSE(&options, all, "--json", "--csv"), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_durations_have_units),
		cmocka_unit_test(test_moments_are_ago_or_local_time),
		cmocka_unit_test(test_nonsense_is_no_moment),
		cmocka_unit_test(test_options_stand_anywhere),
		cmocka_unit_test(test_bad_values_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
