/* JSON and CSV: the same on a stream and into an out, and readable whatever the bytes are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/output/csv.h"
#include "client/output/json.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/utf8.h"

#define LONG_BYTES 1500 /* a few of the pieces in which a text is written */

static char *printed(void (*print)(FILE *out, const char *text), const char *text)
{
	char *whole = NULL;
	size_t size;
	FILE *file = open_memstream(&whole, &size);

	assert_non_null(file);
	print(file, text);
	fclose(file);
	return whole;
}

static int append(void *data, const void *bytes, size_t size)
{
	char **to = data;

	*to = strndup(bytes, size);
	return 0;
}

static char *put(void (*write)(struct out *out, const char *text), const char *text)
{
	_cleanup_(out_freep) struct out *out = NULL;
	char *whole = NULL;

	assert_int_equal(out_new(&(struct out_sink){ append, &whole }, &out), 0);
	write(out, text);
	assert_int_equal(out_flush(out), 0);
	return whole;
}

static void expect_json(const char *text, const char *expected)
{
	_cleanup_(freep) char *stream = printed(json_string, text), *out = put(json_quoted, text);

	assert_string_equal(stream, expected);
	assert_string_equal(out, expected);
}

static void print_formula(FILE *out, const char *text)
{
	csv_print(out, text, false);
}

static void print_plain(FILE *out, const char *text)
{
	csv_print(out, text, true);
}

static void put_formula(struct out *out, const char *text)
{
	csv_text(out, text, false);
}

static void put_plain(struct out *out, const char *text)
{
	csv_text(out, text, true);
}

static void expect_csv(const char *text, const char *expected)
{
	_cleanup_(freep) char *stream = printed(print_formula, text), *out = put(put_formula, text);

	assert_string_equal(stream, expected);
	if (*expected)
		assert_string_equal(out, expected);
	else
		assert_null(out);
}

static void json_texts_are_escaped(void **state)
{
	expect_json("", "\"\"");
	expect_json("plain", "\"plain\"");
	expect_json("a\"b\\c\b\f\n\r\t", "\"a\\\"b\\\\c\\b\\f\\n\\r\\t\"");
	expect_json("\x01\x1f\x7f\xc2\x80", "\"\\u0001\\u001f\\u007f\\u0080\"");
	expect_json("größe €", "\"größe €\"");
	expect_json("\xff|\xc3|\xe2\x82", "\"\uFFFD|\uFFFD|\uFFFD\uFFFD\"");
}

/* Wherever a piece ends, also inside a code point. */
static void json_texts_of_any_length_are_whole(void **state)
{
	static const char *const unit[] = { "a", "\x01", "€", "\xff" };
	static const char *const expected[] = { "a", "\\u0001", "€", "\uFFFD" };

	for (size_t kind = 0; kind < ARRAY_SIZE(unit); kind++)
		for (size_t first = 0; first < 4; first++) {
			char text[LONG_BYTES + 8] = "", whole[6 * LONG_BYTES + 8] = "\"";

			memset(text, 'x', first);
			strcat(whole, text);
			while (strlen(text) < LONG_BYTES) {
				strcat(text, unit[kind]);
				strcat(whole, expected[kind]);
			}
			strcat(whole, "\"");
			expect_json(text, whole);
		}
}

static void csv_of_a_stream_is_valid_utf8(void **state)
{
	_cleanup_(freep) char *text = printed(print_formula, "\xff|\"");

	assert_string_equal(text, "\"\uFFFD|\"\"\"");
}

static void csv_for_a_spreadsheet_has_no_formulas(void **state)
{
	static const struct {
		const char *text, *plain, *spreadsheet;
	} cases[] = {
		{ "=1+1", "=1+1", "\"'=1+1\"" },
		{ "+f(x)", "+f(x)", "\"'+f(x)\"" },
		{ "-a,b", "\"-a,b\"", "\"'-a,b\"" },
		{ "@x \"", "\"@x \"\"\"", "\"'@x \"\"\"" },
		{ "a=b", "a=b", "a=b" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_(freep) char *stream = printed(print_plain, cases[i].text);
		_cleanup_(freep) char *out = put(put_plain, cases[i].text);

		expect_csv(cases[i].text, cases[i].plain);
		assert_string_equal(stream, cases[i].spreadsheet);
		assert_string_equal(out, cases[i].spreadsheet);
	}
}

static void no_output_carries_controls(void **state)
{
	/* ESC, CSI of C1, right-to-left override, isolate, mark, line separator, and a CR. */
	static const char text[] = "a\x1b[2Jb\xc2\x9b"
				   "c\u202ed\u2066e\u200ff\u2028g\rh";
	_cleanup_(freep) char *csv = printed(print_formula, text);
	char visible[3 * sizeof(text)];

	utf8_visible(visible, text, strlen(text));
	assert_string_equal(visible, "a\uFFFD[2Jb\uFFFDc\uFFFDd\uFFFDe\uFFFDf\uFFFDg\uFFFDh");
	assert_string_equal(csv, "\"a\uFFFD[2Jb\uFFFDc\uFFFDd\uFFFDe\uFFFDf\uFFFDg\uFFFDh\"");
	expect_json(text, "\"a\\u001b[2Jb\\u009bc\\u202ed\\u2066e\\u200ff\\u2028g\\rh\"");
}

static void csv_texts_are_in_quotes_where_they_need_them(void **state)
{
	expect_csv("", "");
	expect_csv("plain text", "plain text");
	expect_csv("größe", "größe");
	expect_csv("a,b", "\"a,b\"");
	expect_csv("say \"€\"", "\"say \"\"€\"\"\"");
	expect_csv("a\nb", "\"a\nb\"");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_texts_are_escaped),
		cmocka_unit_test(json_texts_of_any_length_are_whole),
		cmocka_unit_test(csv_of_a_stream_is_valid_utf8),
		cmocka_unit_test(csv_for_a_spreadsheet_has_no_formulas),
		cmocka_unit_test(no_output_carries_controls),
		cmocka_unit_test(csv_texts_are_in_quotes_where_they_need_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
