/* Rows of a table: what was added comes back, and nothing else is taken for a block. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zstd.h>

#include "core/base/array.h"
#include "core/sbt/rows.h"

#define TEXT(string)                                                                               \
	{                                                                                          \
		SBT_TEXT, 0, string, sizeof(string) - 1                                            \
	}
#define INTEGER(value)                                                                             \
	{                                                                                          \
		SBT_INTEGER, value, NULL, 0                                                        \
	}
#define NOTHING                                                                                    \
	{                                                                                          \
		SBT_NULL, 0, NULL, 0                                                               \
	}

static uint64_t seed;

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static int setup(void **state)
{
	struct sbt_rows *rows;

	seed = 88172645463325252u;
	if (sbt_rows_new(&rows) < 0)
		return -1;
	*state = rows;
	return 0;
}

static int teardown(void **state)
{
	sbt_rows_free(*state);
	return 0;
}

/* Reads a copy with nothing behind it, so that a sanitizer sees a read too far. */
static int view(const void *data, size_t size, struct sbt_view **ret)
{
	void *copy = malloc(size ? size : 1);
	int r;

	memcpy(copy, data, size);
	r = sbt_view_new(copy, size, ret);
	free(copy);
	return r;
}

static void assert_same(const struct sbt_value *a, const struct sbt_value *b)
{
	assert_int_equal(a->type, b->type);
	if (a->type == SBT_INTEGER)
		assert_true(a->integer == b->integer);
	if (a->type != SBT_TEXT)
		return;
	assert_int_equal(a->size, b->size);
	assert_memory_equal(a->text, b->text, a->size);
	assert_int_equal(b->text[b->size], '\0');
}

/* Adds rows, and compares them with what is read again. */
static void check_round_trip(struct sbt_rows *rows, const struct sbt_value *value, size_t columns,
			     size_t count)
{
	static const char *const names[] = { "a", "b2", "c_", "d", "e", "f", "g", "h" };
	struct sbt_view *v;
	const void *data;
	size_t size;

	assert_int_equal(sbt_rows_begin(rows, "table_1", names, columns), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(sbt_rows_add(rows, &value[i * columns]), 0);
	assert_int_equal(sbt_rows_count(rows), count);
	assert_int_equal(sbt_rows_end(rows, &data, &size), 0);
	assert_int_equal(view(data, size, &v), 0);
	assert_string_equal(sbt_view_table(v), "table_1");
	assert_int_equal(sbt_view_column_count(v), columns);
	assert_int_equal(sbt_view_row_count(v), count);
	for (size_t i = 0; i < columns; i++)
		assert_string_equal(sbt_view_column(v, i), names[i]);
	for (size_t i = 0; i < count; i++) {
		const struct sbt_value *row = sbt_view_next(v);

		assert_non_null(row);
		for (size_t k = 0; k < columns; k++)
			assert_same(&value[i * columns + k], &row[k]);
	}
	assert_null(sbt_view_next(v));
	assert_null(sbt_view_next(v));
	sbt_view_free(v);
}

static void rows_come_back(void **state)
{
	static const struct sbt_value value[] = {
		INTEGER(1),	    TEXT("kernel"),   NOTHING, INTEGER(INT64_MIN),
		INTEGER(2),	    TEXT(""),	      NOTHING, TEXT("mixed"),
		INTEGER(INT64_MAX), TEXT("kernel"),   NOTHING, NOTHING,
		INTEGER(INT64_MIN), TEXT("\u00e9\n"), NOTHING, INTEGER(-1),
		INTEGER(0),	    TEXT(""),	      NOTHING, TEXT("mixed"),
	};

	check_round_trip(*state, value, 4, 5);
	check_round_trip(*state, value, 4, 0);
	check_round_trip(*state, value, 4, 1);
}

static void random_rows_come_back(void **state)
{
	static struct sbt_value value[8 * 700];
	static char text[64][200];

	for (int round = 0; round < 40; round++) {
		size_t columns = 1 + next() % 8, count = next() % 700, texts = 1 + next() % 64;

		for (size_t i = 0; i < texts; i++) {
			size_t size = next() % (round % 2 ? 200 : 5);

			for (size_t k = 0; k < size; k++)
				text[i][k] = (char)(1 + next() % 127);
			text[i][size] = '\0';
		}
		for (size_t i = 0; i < columns * count; i++) {
			const char *one = text[next() % texts];

			value[i] = (struct sbt_value){ .type = (enum sbt_value_type)(next() % 3) };
			if (i % columns < 2)
				value[i].type = i % columns ? SBT_TEXT : SBT_INTEGER;
			value[i].integer = (int64_t)(next() >> next() % 64);
			value[i].text = one;
			value[i].size = strlen(one);
		}
		check_round_trip(*state, value, columns, count);
	}
}

static void repeated_texts_are_stored_once(void **state)
{
	static const char *const names[] = { "name" };
	struct sbt_rows *rows = *state;
	char text[100];
	const void *data;
	size_t size;

	assert_int_equal(sbt_rows_begin(rows, "t", names, 1), 0);
	for (unsigned int i = 0; i < 5000; i++) {
		struct sbt_value value = { SBT_TEXT, 0, text, sizeof(text) };

		for (size_t k = 0; k < sizeof(text); k++)
			text[k] = (char)('a' + (i % 3 * 7919 + k * k * 31) % 26);
		assert_int_equal(sbt_rows_add(rows, &value), 0);
	}
	assert_int_equal(sbt_rows_end(rows, &data, &size), 0);
	assert_true(size < 1000);
}

static void a_full_block_says_so_and_loses_nothing(void **state)
{
	static const char *const names[] = { "id", "text" };
	static char text[SBT_ROW_TEXT_MAX + 1];
	struct sbt_rows *rows = *state;
	struct sbt_view *v;
	const void *data;
	size_t size, count = 0;
	int r;

	memset(text, 'x', sizeof(text));
	for (int round = 0; round < 2; round++) {
		assert_int_equal(sbt_rows_begin(rows, "t", names, 2), 0);
		for (count = 0;; count++) {
			struct sbt_value value[] = { INTEGER((int64_t)count),
						     { SBT_TEXT, 0, text,
						       round ? 3 : SBT_ROW_TEXT_MAX } };

			text[0] = (char)('a' + count % 20);
			r = sbt_rows_add(rows, value);
			if (r < 0)
				break;
		}
		assert_int_equal(r, -ENOSPC);
		assert_int_equal(count, sbt_rows_count(rows));
		assert_true(round ? count == SBT_ROWS_MAX : count == 7);
		assert_int_equal(sbt_rows_end(rows, &data, &size), 0);
		assert_int_equal(view(data, size, &v), 0);
		assert_int_equal(sbt_view_row_count(v), count);
		while (count--)
			assert_non_null(sbt_view_next(v));
		sbt_view_free(v);
	}
}

static void what_fits_no_block_is_told_apart(void **state)
{
	static const char *const names[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i" };
	static char text[SBT_ROW_TEXT_MAX + 1];
	struct sbt_rows *rows = *state;
	struct sbt_value value[9];

	memset(text, 'x', sizeof(text));
	for (size_t i = 0; i < 9; i++)
		value[i] = (struct sbt_value){ SBT_TEXT, 0, text, SBT_ROW_TEXT_MAX };
	assert_int_equal(sbt_rows_begin(rows, "t", names, 9), 0);
	assert_int_equal(sbt_rows_add(rows, value), -EMSGSIZE);
	value[0].size++;
	assert_int_equal(sbt_rows_add(rows, value), -EINVAL);
}

static void values_that_are_no_text_are_refused(void **state)
{
	static const char *const names[] = { "a" };
	static const struct sbt_value bad[] = {
		TEXT("a\0b"), TEXT("\xff"), TEXT("\xc3"), TEXT("\xed\xa0\x80"), { 7, 0, "", 0 }
	};
	struct sbt_rows *rows = *state;

	assert_int_equal(sbt_rows_begin(rows, "t", names, 1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(sbt_rows_add(rows, &bad[i]), -EINVAL);
	assert_int_equal(sbt_rows_count(rows), 0);
}

static void names_that_sql_would_misread_are_refused(void **state)
{
	static const char *const bad[] = { "", "1a", "A", "a b", "a\"", "a;", "_a", "\u00e9" };
	static const char *const twice[] = { "a", "b", "a" };
	static char longest[SBT_ROW_NAME_MAX + 2];
	const char *name = longest;
	struct sbt_rows *rows = *state;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		assert_int_equal(sbt_rows_begin(rows, bad[i], twice, 2), -EINVAL);
		assert_int_equal(sbt_rows_begin(rows, "t", &bad[i], 1), -EINVAL);
	}
	assert_int_equal(sbt_rows_begin(rows, "t", twice, 3), -EINVAL);
	assert_int_equal(sbt_rows_begin(rows, "t", twice, 0), -EINVAL);
	memset(longest, 'x', SBT_ROW_NAME_MAX);
	assert_int_equal(sbt_rows_begin(rows, longest, &name, 1), 0);
	longest[SBT_ROW_NAME_MAX] = 'x';
	assert_int_equal(sbt_rows_begin(rows, "t", &name, 1), -EINVAL);
}

static void put_le(uint8_t *at, uint64_t value)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

/* A block whose body is made by hand. */
static int view_body(uint32_t count, uint8_t columns, const char *body, size_t size,
		     struct sbt_view **ret)
{
	uint8_t block[256] = { 0 };

	put_le(block, count);
	put_le(block + 4, size);
	block[8] = columns;
	memcpy(block + 12, body, size);
	return view(block, 12 + size, ret);
}

#define BODY(string) string, sizeof(string) - 1

static void a_block_made_by_hand_is_read(void **state)
{
	struct sbt_view *v;
	const struct sbt_value *row;

	/* 5 and 3; "hi" twice; NULL and 1 */
	assert_int_equal(view_body(2, 3, BODY("\1t\1a\1\x0a\3\1b\2\0\2hi\0\1\1c\3\0\1\2"), &v), 0);
	row = sbt_view_next(v);
	assert_int_equal(row[0].integer, 5);
	assert_string_equal(row[1].text, "hi");
	assert_int_equal(row[2].type, SBT_NULL);
	row = sbt_view_next(v);
	assert_int_equal(row[0].integer, 3);
	assert_string_equal(row[1].text, "hi");
	assert_int_equal(row[2].integer, 1);
	assert_null(sbt_view_next(v));
	sbt_view_free(v);
}

static void nonsense_is_refused(void **state)
{
	static const struct {
		const char *what;
		uint32_t count;
		uint8_t columns;
		const char *body;
		size_t size;
	} cases[] = {
		{ "no body", 0, 1, BODY("") },
		{ "no columns", 0, 0, BODY("\1t") },
		{ "too many columns", 0, 33, BODY("\1t") },
		{ "too many rows", SBT_ROWS_MAX + 1, 1, BODY("\1t\1a\0") },
		{ "a table without a name", 0, 1, BODY("\0\1a\0") },
		{ "a name cut off", 0, 1, BODY("\1t\2a") },
		{ "a name of other letters", 0, 1, BODY("\1t\1A\0") },
		{ "no types", 0, 1, BODY("\1t\1a") },
		{ "a column twice", 0, 2, BODY("\1t\1a\0\1a\0") },
		{ "types of the future", 0, 1, BODY("\1t\1a\4") },
		{ "a type of the future", 1, 1, BODY("\1t\1a\3\3") },
		{ "mixed types cut off", 3, 1, BODY("\1t\1a\3\0\0") },
		{ "an integer missing", 1, 1, BODY("\1t\1a\1") },
		{ "bytes behind the last", 1, 1, BODY("\1t\1a\1\2\2") },
		{ "a text that was not there", 1, 1, BODY("\1t\1a\2\1") },
		{ "a text without its end", 1, 1, BODY("\1t\1a\2\0\2hi") },
		{ "a text with an end of its own", 1, 1, BODY("\1t\1a\2\0\2h\0\0") },
		{ "a text that goes on", 1, 1, BODY("\1t\1a\2\0\2hii\0") },
		{ "a text that is not UTF-8", 1, 1, BODY("\1t\1a\2\0\1\xff\0") },
		{ "a text too long", 1, 1, BODY("\1t\1a\2\0\xff\xff\xff\x7fhi\0") },
	};
	struct sbt_view *v;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (view_body(cases[i].count, cases[i].columns, cases[i].body, cases[i].size, &v) !=
		    -EBADMSG)
			fail_msg("not refused: %s", cases[i].what);
}

/* No checksum of its own: that of the file's block is around it. */
static void damage_is_an_error_or_other_rows(void **state)
{
	static const char *const names[] = { "id", "text" };
	struct sbt_rows *rows = *state;
	struct sbt_view *v;
	const void *data;
	uint8_t *copy;
	size_t size;

	assert_int_equal(sbt_rows_begin(rows, "t", names, 2), 0);
	for (int i = 0; i < 200; i++) {
		char text[16];
		struct sbt_value value[] = { INTEGER(i * 1000), { SBT_TEXT, 0, text, 0 } };

		value[1].size = (size_t)snprintf(text, sizeof(text), "text %d", i % 50);
		assert_int_equal(sbt_rows_add(rows, value), 0);
	}
	assert_int_equal(sbt_rows_end(rows, &data, &size), 0);
	copy = malloc(size);
	memcpy(copy, data, size);
	for (size_t i = 0; i < size; i++) {
		assert_int_equal(view(copy, i, &v), -EBADMSG);
		for (int bit = 0; bit < 8; bit++) {
			copy[i] ^= (uint8_t)(1 << bit);
			if (view(copy, size, &v) == 0) {
				while (sbt_view_next(v))
					;
				sbt_view_free(v);
			}
			copy[i] ^= (uint8_t)(1 << bit);
		}
	}
	free(copy);
}

static void a_body_that_grows_without_end_is_refused(void **state)
{
	size_t size = SBT_ROWS_BYTES_MAX + 1;
	char *zeros = calloc(1, size);
	uint8_t *block = malloc(12 + ZSTD_compressBound(size));
	struct sbt_view *v;
	size_t packed = ZSTD_compress(block + 12, ZSTD_compressBound(size), zeros, size, 1);

	memset(block, 0, 12);
	block[8] = 1;
	block[9] = 1;
	for (uint64_t said = 1; said < 1ull << 32; said *= 5) {
		put_le(block + 4, said);
		assert_int_equal(view(block, 12 + packed, &v), -EBADMSG);
	}
	free(zeros);
	free(block);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(rows_come_back),
		TEST(random_rows_come_back),
		TEST(repeated_texts_are_stored_once),
		TEST(a_full_block_says_so_and_loses_nothing),
		TEST(what_fits_no_block_is_told_apart),
		TEST(values_that_are_no_text_are_refused),
		TEST(names_that_sql_would_misread_are_refused),
		TEST(a_block_made_by_hand_is_read),
		TEST(nonsense_is_refused),
		TEST(damage_is_an_error_or_other_rows),
		TEST(a_body_that_grows_without_end_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
