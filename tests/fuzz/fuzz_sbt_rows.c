/* Fuzz_sbt_rows: any bytes may be viewed as rows, and any rows must come back as they were.
 * The first byte of an input says what is done with the rest: it is a block; it is one with the
 * right size of its body; or rows are made of it. */
#include <endian.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/utf8.h"
#include "core/sbt/rows.h"
#include "tests/fuzz/seed.h"

#define HEAD_SIZE 12
#define ROWS_MADE 400

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sbt_rows *rows;

static void check_value(const struct sbt_value *value)
{
	if (value->type == SBT_TEXT &&
	    (strlen(value->text) != value->size || !utf8_valid(value->text, value->size)))
		abort();
}

static void view(const uint8_t *data, size_t size)
{
	const struct sbt_value *value;
	struct sbt_view *v;

	if (sbt_view_new(data, size, &v) < 0)
		return;
	while ((value = sbt_view_next(v)))
		for (size_t i = 0; i < sbt_view_column_count(v); i++)
			check_value(&value[i]);
	sbt_view_free(v);
}

static void view_repaired(const uint8_t *data, size_t size)
{
	uint32_t body = htole32((uint32_t)size - HEAD_SIZE);
	uint8_t *copy;

	if (size < HEAD_SIZE)
		return;
	copy = malloc(size);
	memcpy(copy, data, size);
	memcpy(copy + 4, &body, 4);
	copy[2] = copy[3] = copy[9] = copy[10] = copy[11] = 0;
	view(copy, size);
	free(copy);
}

/* A piece of the input, as a value of a type that the input says. */
static struct sbt_value make_value(const uint8_t *data, size_t size, size_t *used)
{
	struct sbt_value value = { .type = (enum sbt_value_type)(data[(*used)++ % size] % 3) };
	size_t at = *used % size, length = data[at] % 16;

	if (length > size - at)
		length = size - at;
	if (value.type == SBT_INTEGER)
		memcpy(&value.integer, data + at, length < 8 ? length : 8);
	value.text = (const char *)data + at;
	value.size = length;
	*used += length + 1;
	return value;
}

static bool same(const struct sbt_value *a, const struct sbt_value *b)
{
	if (a->type != b->type)
		return false;
	if (a->type == SBT_INTEGER)
		return a->integer == b->integer;
	return a->type == SBT_NULL ||
	       (a->size == b->size && memcmp(a->text, b->text, a->size) == 0);
}

static void round_trip(const uint8_t *data, size_t size)
{
	static const char *const names[] = { "a", "b", "c", "d" };
	static struct sbt_value kept[ROWS_MADE][4];
	const struct sbt_value *value;
	struct sbt_view *v;
	const void *block;
	size_t columns, count = 0, used = 1, block_size;

	if (size < 4)
		return;
	columns = 1 + data[0] % 4;
	sbt_rows_begin(rows, "t", names, columns);
	for (size_t i = 0; i < ROWS_MADE && used < 4 * size; i++) {
		for (size_t k = 0; k < columns; k++)
			kept[count][k] = make_value(data, size, &used);
		count += sbt_rows_add(rows, kept[count]) == 0;
	}
	if (sbt_rows_end(rows, &block, &block_size) < 0 || sbt_view_new(block, block_size, &v) < 0)
		abort();
	for (size_t i = 0; i < count; i++) {
		value = sbt_view_next(v);
		for (size_t k = 0; k < columns; k++)
			if (!value || !same(&kept[i][k], &value[k]))
				abort();
	}
	if (sbt_view_next(v))
		abort();
	sbt_view_free(v);
}

static void (*const actions[])(const uint8_t *data, size_t size) = { view, view_repaired,
								     round_trip };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size)
		actions[data[0] % 3](data + 1, size - 1);
	return 0;
}

/* Real blocks: few rows are not compressed, many are. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char *const names[] = { "id", "name", "mixed" };
	const char *directory = getenv("TS_FUZZ_SEEDS");
	const void *block;
	size_t size;

	if (sbt_rows_new(&rows) < 0)
		abort();
	for (unsigned int i = 0; directory && i < 6; i++) {
		sbt_rows_begin(rows, "t", names, 3);
		for (unsigned int k = 0; k < 1u + i * i * 4; k++) {
			struct sbt_value value[] = { { SBT_INTEGER, 1000 * k, NULL, 0 },
						     { SBT_TEXT, 0, &"kernel"[k % 5], 6 - k % 5 },
						     { SBT_NULL, 0, NULL, 0 } };

			if (k % 3)
				value[2] = value[k % 2];
			sbt_rows_add(rows, value);
		}
		sbt_rows_end(rows, &block, &size);
		write_seed(directory, 3 * i, 0, block, size);
		write_seed(directory, 3 * i + 1, 1, block, size);
		write_seed(directory, 3 * i + 2, 2, block, size);
	}
	return 0;
}
