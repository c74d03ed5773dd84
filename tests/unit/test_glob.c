/* Glob: what a pattern finds, and that none takes long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/glob.h"

static void test_finds_anywhere_in_the_text(void **state)
{
	static const struct {
		const char *pattern, *text;
		bool found;
	} cases[] = {
		{ "gemm", "sm90_gemm_bf16", true },
		{ "gemm", "conv", false },
		{ "gemm|conv", "conv2d", true },
		{ "gemm|conv", "softmax", false },
		{ "gemm*bf16", "sm90_gemm_bf16", true },
		{ "bf16*gemm", "sm90_gemm_bf16", false },
		{ "a?c", "xabcx", true },
		{ "a?c", "ac", false },
		{ "a*b*c", "aXbXbXd_c", true },
		{ "a*b*c", "acb", false },
		{ "aab", "aaaab", true },
		{ "*", "", true },
		{ "?", "", false },
		{ "a?b",
		  "a\xc3\xa4"
		  "b",
		  true },
		{ "f(int*)", "f(int, char *)", true },
		{ "a*", "b", false },
		{ "abc", "ab", false },
		{ "x|", "y", true },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (glob_find(cases[i].pattern, cases[i].text) != cases[i].found)
			fail_msg("'%s' in '%s'", cases[i].pattern, cases[i].text);
}

/* A search that tried every length of every '*' would take longer than the sun shines. */
static void test_many_stars_take_no_time(void **state)
{
	char pattern[402], text[4097];

	for (size_t i = 0; i < 400; i += 2)
		memcpy(pattern + i, "*a", 2);
	memcpy(pattern + 400, "b", 2);
	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_false(glob_find(pattern, text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_finds_anywhere_in_the_text),
		cmocka_unit_test(test_many_stars_take_no_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
