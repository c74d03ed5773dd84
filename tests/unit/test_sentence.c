/* Sentences: patterns filled with arguments that may be anything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/sentence.h"

static void expect(const char *pattern, const char *const *argument, size_t count,
		   const char *wanted)
{
	char *text = sentence_fill(pattern, argument, count);

	assert_string_equal(text, wanted);
	free(text);
}

#define EXPECT(wanted, pattern, ...)                                                               \
	expect(pattern, (const char *const[]){ __VA_ARGS__ },                                      \
	       ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })), wanted)

static void test_arguments_stand_at_their_places(void **state)
{
	(void)state;
	EXPECT("b, a and b", "{2}, {1} and {2}", "a", "b");
	EXPECT("nothing to fill", "nothing to fill", "a");
	EXPECT("missing: ", "missing: {3}", "a", "b");
}

static void test_a_part_without_its_argument_is_left_out(void **state)
{
	(void)state;
	EXPECT("No call in process 4", "No call[ in process {1}][ on stream {2}]", "4", "");
	EXPECT("No call on stream 5", "No call[ in process {1}][ on stream {2}]", "", "5");
	EXPECT("No call", "No call[ in process {1}][ on stream {2}]", "");
	EXPECT("", "[{1}{2}]", "a", "");
}

static void test_an_argument_is_no_pattern(void **state)
{
	(void)state;
	EXPECT("'{2}[x]%s' and b", "'{1}' and {2}", "{2}[x]%s", "b");
}

static void test_what_is_no_place_stays(void **state)
{
	(void)state;
	EXPECT("{0} {a} {1 { [open", "{0} {a} {1 { [open", "a");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arguments_stand_at_their_places),
		cmocka_unit_test(test_a_part_without_its_argument_is_left_out),
		cmocka_unit_test(test_an_argument_is_no_pattern),
		cmocka_unit_test(test_what_is_no_place_stays),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
