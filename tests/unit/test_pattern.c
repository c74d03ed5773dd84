/* Pattern: which regular expressions are accepted, and that none of these takes long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "client/output/pattern.h"
#include "core/base/array.h"

static void test_what_people_write_is_taken(void **state)
{
	static const struct {
		const char *pattern, *text;
	} taken[] = {
		{ "gemm|conv", "a_gemm" },
		{ "kernel_[0-9]{1,3}$", "kernel_123" },
		{ "^(ab){300}c?$", NULL },
		{ "a{0,1000}", "" },
		{ "\\{[0-9]{3}", "{123" },
		{ "[{]9999[}]", "{9999}" },
		{ "[]{}]{2}", "{}" },
		{ "[[:digit:]{9999}]{2}", "{1" },
		{ "(x+x+)+y", "xxy" },
		{ "\\(int\\)\\[\\]\\+", "(int)[]+" },
		{ "void f<.*>\\(", "void f<8>(" },
	};
	char why[PATTERN_WHY_BYTES];
	regex_t regex;

	for (size_t i = 0; i < ARRAY_SIZE(taken); i++) {
		if (pattern_compile(taken[i].pattern, 0, &regex, why) < 0)
			fail_msg("'%s' was refused: %s", taken[i].pattern, why);
		if (taken[i].text)
			assert_int_equal(regexec(&regex, taken[i].text, 0, NULL, 0), 0);
		regfree(&regex);
	}
	assert_int_equal(pattern_compile("htod", REG_ICASE, &regex, why), 0);
	assert_int_equal(regexec(&regex, "HtoD", 0, NULL, 0), 0);
	regfree(&regex);
}

static void expect_refused(const char *pattern, const char *part)
{
	char why[PATTERN_WHY_BYTES];
	regex_t regex;

	assert_int_not_equal(pattern_compile(pattern, 0, &regex, why), 0);
	if (!strstr(why, part))
		fail_msg("'%s' was refused for '%s'", pattern, why);
}

static void test_what_takes_too_much_is_refused(void **state)
{
	char text[PATTERN_BYTES_MAX + 2];

	expect_refused("((a|b|c|.)*)*\\1zzz", "back references");
	expect_refused("a{1,255}{1,255}{1,255}", "it expands to");
	expect_refused("((a{1,99}){1,99}){1,99}", "it expands to");
	expect_refused(".{0,32767}", "it expands to");
	expect_refused(".{2000,}", "it expands to");
	expect_refused(".{,2000}", "it expands to");
	expect_refused(".{99999999999999999999999}", "it expands to");
	expect_refused("(ab){350}", "it expands to");
	expect_refused("[^]{]{600}[a]{600}", "it expands to");
	expect_refused("a++++++++++", "it expands to");
	expect_refused("((a{255}){255}){255", "it expands to");
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	expect_refused(text, "256 bytes");
	memset(text, '(', sizeof(text));
	text[sizeof(text) - 2] = '\0';
	expect_refused(text, "");
	expect_refused("(", "(");
	expect_refused("a\\", "");
	expect_refused("[a", "[");
	expect_refused("a{2,1}", "");
}

/* The worst of what is taken ends within the time that a test has. */
static void test_what_is_taken_takes_no_time(void **state)
{
	static const char *const patterns[] = {
		"((a|b|c|.)*)*zzz",	    "a{0,1000}",	 "(a?){499}",
		"(((((((.*)*)*)*)*)*)*)*z", "(a|b)*a(a|b){200}", "(.?.?.?.?.?.?.?.?.?.?){90}z",
	};
	char why[PATTERN_WHY_BYTES], text[4097];
	struct timespec begin, end;
	regex_t regex;

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
	for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
		assert_int_equal(pattern_compile(patterns[i], 0, &regex, why), 0);
		regexec(&regex, text, 0, NULL, 0);
		regfree(&regex);
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
		assert_true(end.tv_sec - begin.tv_sec < 60);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_what_people_write_is_taken),
		cmocka_unit_test(test_what_takes_too_much_is_refused),
		cmocka_unit_test(test_what_is_taken_takes_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
