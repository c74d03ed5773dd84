/* Rows: writes the rows of a table as a block. A view (view.c) reads one.
 *
 * A block is a head and a body; numbers are little-endian.
 *   offset size
 *	0    4	number of rows
 *	4    4	size of the body before compression
 *	8    1	number of columns
 *	9    1	flags: bit 0, the body is one zstd frame
 *     10    2	0
 *     12	the body
 * The body is the table's name and then each column: its name, a byte that says which types its
 * values have (enum sbt_column_types), if they are mixed a byte for each row (enum
 * sbt_value_type), and the values that are not NULL, row by row. A name is a length as a byte and
 * the bytes. An integer is the zigzag of its difference to the integer before in its column (at
 * first 0), as a varint. A text is a varint: 0 and a new one follows, as a varint of its length,
 * its bytes and a NUL; else which of those that were new in this column, counted from 1.
 */
#include "core/sbt/rows.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <zstd.h>

#include "core/base/map.h"
#include "core/base/utf8.h"
#include "core/base/vector.h"
#include "core/sbt/column.h"
#include "core/sbt/rows_format.h"

#define ROWS_LEVEL 3 /* of zstd */
#define TEXTS_MAX  65536

/* A column's values as they are written. */
struct rows_column {
	char name[SBT_ROW_NAME_MAX + 1];
	uint8_t *data;
	size_t size, room;
	uint64_t before;
	uint32_t text_count;
	uint32_t seen; /* bits by type */
};

/* A text that was new, and its position in its column's data. */
struct rows_text {
	uint32_t number, column;
	uint32_t size;
	size_t offset;
};

struct sbt_rows {
	ZSTD_CCtx *compressor;
	char table[SBT_ROW_NAME_MAX + 1];
	size_t column_count, row_count;
	size_t size; /* maximum size of the body, if it ended now */
	struct rows_column column[SBT_ROW_COLUMNS_MAX];
	uint8_t *type[SBT_ROW_COLUMNS_MAX]; /* SBT_ROWS_MAX each */
	struct rows_text text[TEXTS_MAX];
	uint32_t text_count;
	struct map text_by_bytes;
	uint8_t body[SBT_ROWS_BYTES_MAX];
	uint8_t block[SBT_ROWS_HEAD + SBT_ROWS_BYTES_MAX];
};

int sbt_rows_new(struct sbt_rows **ret)
{
	struct sbt_rows *rows = calloc(1, sizeof(*rows));

	if (!rows)
		return -ENOMEM;
	rows->compressor = ZSTD_createCCtx();
	if (!rows->compressor) {
		sbt_rows_free(rows);
		return -ENOMEM;
	}
	ZSTD_CCtx_setParameter(rows->compressor, ZSTD_c_compressionLevel, ROWS_LEVEL);
	*ret = rows;
	return 0;
}

struct sbt_rows *sbt_rows_free(struct sbt_rows *rows)
{
	if (rows) {
		ZSTD_freeCCtx(rows->compressor);
		map_clear(&rows->text_by_bytes);
		for (size_t i = 0; i < SBT_ROW_COLUMNS_MAX; i++) {
			free(rows->column[i].data);
			free(rows->type[i]);
		}
	}
	free(rows);
	return NULL;
}

/* Empties the column; its memory is kept. */
static int begin_column(struct sbt_rows *rows, size_t i, const char *name)
{
	struct rows_column *column = &rows->column[i];

	if (!sbt_rows_name_valid(name, strlen(name)))
		return -EINVAL;
	for (size_t k = 0; k < i; k++)
		if (!strcmp(rows->column[k].name, name))
			return -EINVAL;
	if (!rows->type[i] && !(rows->type[i] = malloc(SBT_ROWS_MAX)))
		return -ENOMEM;
	strcpy(column->name, name);
	column->size = 0;
	column->before = 0;
	column->text_count = 0;
	column->seen = 0;
	return 0;
}

int sbt_rows_begin(struct sbt_rows *rows, const char *table, const char *const *column,
		   size_t count)
{
	int r = 0;

	rows->column_count = rows->row_count = 0;
	if (!sbt_rows_name_valid(table, strlen(table)) || count < 1 || count > SBT_ROW_COLUMNS_MAX)
		return -EINVAL;
	strcpy(rows->table, table);
	rows->size = 1 + strlen(table);
	for (size_t i = 0; r == 0 && i < count; i++) {
		r = begin_column(rows, i, column[i]);
		rows->size += 2 + strlen(column[i]);
	}
	map_empty(&rows->text_by_bytes);
	rows->text_count = 0;
	rows->column_count = r < 0 ? 0 : count;
	return r;
}

/* The number of a text that is already in the column, else 0; then it is kept for the next. Beyond
 * a limit later texts are not. */
static uint32_t find_text(struct sbt_rows *rows, uint32_t number, const struct sbt_value *value)
{
	struct rows_column *column = &rows->column[number];
	struct map_key key = map_key_of(value->text, value->size, (uintptr_t)rows + number);
	struct rows_text *text = map_get(&rows->text_by_bytes, key);

	if (text && text->column == number && text->size == value->size &&
	    !memcmp(column->data + text->offset, value->text, value->size))
		return text->number;
	column->text_count++;
	if (rows->text_count == TEXTS_MAX)
		return 0;
	text = &rows->text[rows->text_count];
	if (map_put(&rows->text_by_bytes, key, text) == 0) {
		rows->text_count++;
		*text = (struct rows_text){
			.number = column->text_count,
			.column = number,
			.size = (uint32_t)value->size,
			.offset = column->size + 1 + varint_size(value->size),
		};
	}
	return 0;
}

static uint8_t *put_text(struct sbt_rows *rows, uint32_t number, const struct sbt_value *value,
			 uint8_t *at)
{
	uint32_t known = find_text(rows, number, value);

	at = varint_put(at, known);
	if (known)
		return at;
	at = varint_put(at, value->size);
	memcpy(at, value->text, value->size);
	at[value->size] = '\0';
	return at + value->size + 1;
}

static void put_value(struct sbt_rows *rows, uint32_t number, const struct sbt_value *value)
{
	struct rows_column *column = &rows->column[number];
	uint8_t *at = column->data + column->size;

	if (value->type == SBT_INTEGER) {
		at = varint_put(at, zigzag((uint64_t)value->integer - column->before));
		column->before = (uint64_t)value->integer;
	} else if (value->type == SBT_TEXT) {
		at = put_text(rows, number, value, at);
	}
	column->size = (size_t)(at - column->data);
	column->seen |= 1u << value->type;
	rows->type[number][rows->row_count] = (uint8_t)value->type;
}

/* Maximum bytes of a value, with its type. */
static size_t value_bytes(const struct sbt_value *value)
{
	return 1 + (value->type == SBT_TEXT ? value->size + 8 : SBT_VARINT_MAX);
}

static bool value_valid(const struct sbt_value *value)
{
	if (value->type != SBT_TEXT)
		return value->type == SBT_NULL || value->type == SBT_INTEGER;
	return value->size <= SBT_ROW_TEXT_MAX && utf8_valid(value->text, value->size) &&
	       !memchr(value->text, '\0', value->size);
}

int sbt_rows_add(struct sbt_rows *rows, const struct sbt_value *value)
{
	size_t size = 0;
	int r;

	if (!rows->column_count)
		return -EINVAL;
	for (size_t i = 0; i < rows->column_count; i++) {
		if (!value_valid(&value[i]))
			return -EINVAL;
		size += value_bytes(&value[i]);
	}
	if (rows->row_count == SBT_ROWS_MAX || rows->size + size > SBT_ROWS_BYTES_MAX)
		return rows->row_count ? -ENOSPC : -EMSGSIZE;
	for (size_t i = 0; i < rows->column_count; i++) {
		r = VECTOR_ROOM(rows->column[i].data, rows->column[i].room,
				rows->column[i].size + value_bytes(&value[i]));
		if (r < 0)
			return r;
	}
	for (size_t i = 0; i < rows->column_count; i++)
		put_value(rows, (uint32_t)i, &value[i]);
	rows->size += size;
	rows->row_count++;
	return 0;
}

size_t sbt_rows_count(const struct sbt_rows *rows)
{
	return rows->row_count;
}

static uint8_t *put_bytes(uint8_t *at, const void *data, size_t size)
{
	memcpy(at, data, size);
	return at + size;
}

static uint8_t *put_name(uint8_t *at, const char *name)
{
	size_t size = strlen(name);

	*at++ = (uint8_t)size;
	return put_bytes(at, name, size);
}

static size_t put_body(struct sbt_rows *rows)
{
	uint8_t *at = put_name(rows->body, rows->table);

	for (size_t i = 0; i < rows->column_count; i++) {
		const struct rows_column *column = &rows->column[i];
		uint8_t types = sbt_rows_types(column->seen);

		at = put_name(at, column->name);
		*at++ = types;
		if (types == SBT_TYPES_MIXED)
			at = put_bytes(at, rows->type[i], rows->row_count);
		if (column->size)
			at = put_bytes(at, column->data, column->size);
	}
	return (size_t)(at - rows->body);
}

int sbt_rows_end(struct sbt_rows *rows, const void **ret_data, size_t *ret_size)
{
	struct sbt_rows_head head = { .column_count = (uint8_t)rows->column_count };
	size_t body_size, size;

	if (!rows->column_count)
		return -EINVAL;
	body_size = put_body(rows);
	size = ZSTD_compress2(rows->compressor, rows->block + SBT_ROWS_HEAD, SBT_ROWS_BYTES_MAX,
			      rows->body, body_size);
	head.flags = SBT_ROWS_COMPRESSED;
	if (ZSTD_isError(size) || size >= body_size) {
		memcpy(rows->block + SBT_ROWS_HEAD, rows->body, body_size);
		size = body_size;
		head.flags = 0;
	}
	head.row_count = htole32((uint32_t)rows->row_count);
	head.body_size = htole32((uint32_t)body_size);
	memcpy(rows->block, &head, SBT_ROWS_HEAD);
	rows->row_count = 0;
	*ret_data = rows->block;
	*ret_size = SBT_ROWS_HEAD + size;
	return 0;
}
