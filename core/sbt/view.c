/* View: reads a block of rows. The first pass over a block checks all of it and finds its columns
 * and texts; after that rows are read without checks. */
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "core/base/utf8.h"
#include "core/sbt/column.h"
#include "core/sbt/rows_format.h"

struct view_column {
	char name[SBT_ROW_NAME_MAX + 1];
	uint8_t types;
	const uint8_t *type; /* of mixed ones */
	const uint8_t *at;   /* the next value */
	uint64_t before;
	uint32_t text_count; /* those that were new */
	uint32_t *text;	     /* where each is in the body */
	uint32_t next_text;
};

struct sbt_view {
	uint8_t *body;
	size_t size;
	char table[SBT_ROW_NAME_MAX + 1];
	size_t row_count, row, column_count;
	uint32_t *text; /* of all columns */
	struct view_column column[SBT_ROW_COLUMNS_MAX];
	struct sbt_value value[SBT_ROW_COLUMNS_MAX];
};

struct sbt_view *sbt_view_free(struct sbt_view *view)
{
	if (view) {
		free(view->body);
		free(view->text);
	}
	free(view);
	return NULL;
}

static int read_head(const uint8_t *data, size_t size, struct sbt_rows_head *ret)
{
	struct sbt_rows_head head;

	if (size < SBT_ROWS_HEAD)
		return -EBADMSG;
	memcpy(&head, data, SBT_ROWS_HEAD);
	head.row_count = le32toh(head.row_count);
	head.body_size = le32toh(head.body_size);
	if (head.row_count > SBT_ROWS_MAX || head.body_size > SBT_ROWS_BYTES_MAX ||
	    head.column_count < 1 || head.column_count > SBT_ROW_COLUMNS_MAX ||
	    head.flags & ~SBT_ROWS_COMPRESSED || head.zero[0] || head.zero[1])
		return -EBADMSG;
	*ret = head;
	return 0;
}

static int open_body(struct sbt_view *view, const struct sbt_rows_head *head, const uint8_t *data,
		     size_t size)
{
	view->body = malloc(head->body_size ? head->body_size : 1);
	if (!view->body)
		return -ENOMEM;
	view->size = head->body_size;
	if (head->flags & SBT_ROWS_COMPRESSED)
		size = ZSTD_decompress(view->body, view->size, data, size);
	else if (size == view->size)
		memcpy(view->body, data, size);
	if (ZSTD_getErrorCode(size) == ZSTD_error_memory_allocation)
		return -ENOMEM;
	return size == view->size ? 0 : -EBADMSG;
}

static const uint8_t *get_name(const uint8_t *at, const uint8_t *end, char *ret)
{
	size_t size;

	if (at == end)
		return NULL;
	size = *at++;
	if (size > (size_t)(end - at) || !sbt_rows_name_valid((const char *)at, size))
		return NULL;
	memcpy(ret, at, size);
	ret[size] = '\0';
	return at + size;
}

/* Returns what follows the text, NULL: not a text. */
static const uint8_t *check_text(struct view_column *column, const uint8_t *at, const uint8_t *end)
{
	uint64_t number, size;

	at = varint_get(at, end, &number);
	if (!at || number > column->text_count)
		return NULL;
	if (number)
		return at;
	at = varint_get(at, end, &size);
	if (!at || size > SBT_ROW_TEXT_MAX || size >= (size_t)(end - at))
		return NULL;
	if (at[size] || memchr(at, '\0', size) || !utf8_valid((const char *)at, size))
		return NULL;
	column->text_count++;
	return at + size + 1;
}

static uint8_t type_of(const struct view_column *column, size_t row)
{
	return column->type ? column->type[row] : column->types;
}

static const uint8_t *check_values(struct view_column *column, size_t count, const uint8_t *at,
				   const uint8_t *end)
{
	uint64_t integer;

	for (size_t row = 0; at && row < count; row++) {
		switch (type_of(column, row)) {
		case SBT_NULL:
			break;
		case SBT_INTEGER:
			at = varint_get(at, end, &integer);
			break;
		case SBT_TEXT:
			at = check_text(column, at, end);
			break;
		default:
			return NULL;
		}
	}
	return at;
}

static const uint8_t *check_column(struct sbt_view *view, size_t number, const uint8_t *at)
{
	struct view_column *column = &view->column[number];
	const uint8_t *end = view->body + view->size;

	at = get_name(at, end, column->name);
	if (!at || at == end)
		return NULL;
	for (size_t i = 0; i < number; i++)
		if (!strcmp(view->column[i].name, column->name))
			return NULL;
	column->types = *at++;
	if (column->types > SBT_TYPES_MIXED)
		return NULL;
	if (column->types == SBT_TYPES_MIXED) {
		if ((size_t)(end - at) < view->row_count)
			return NULL;
		column->type = at;
		at += view->row_count;
	}
	column->at = at;
	return check_values(column, view->row_count, at, end);
}

static int check_body(struct sbt_view *view)
{
	const uint8_t *at = get_name(view->body, view->body + view->size, view->table);

	for (size_t i = 0; at && i < view->column_count; i++)
		at = check_column(view, i, at);
	return at == view->body + view->size ? 0 : -EBADMSG;
}

/* Room for the positions of the texts. */
static int make_texts(struct sbt_view *view)
{
	size_t count = 0;

	for (size_t i = 0; i < view->column_count; i++)
		count += view->column[i].text_count;
	view->text = malloc((count ? count : 1) * sizeof(*view->text));
	if (!view->text)
		return -ENOMEM;
	count = 0;
	for (size_t i = 0; i < view->column_count; i++) {
		view->column[i].text = view->text + count;
		count += view->column[i].text_count;
	}
	return 0;
}

int sbt_view_new(const void *data, size_t size, struct sbt_view **ret)
{
	_cleanup_(sbt_view_freep) struct sbt_view *view = NULL;
	struct sbt_rows_head head;
	int r = read_head(data, size, &head);

	if (r < 0)
		return r;
	view = calloc(1, sizeof(*view));
	if (!view)
		return -ENOMEM;
	view->row_count = head.row_count;
	view->column_count = head.column_count;
	r = open_body(view, &head, (const uint8_t *)data + SBT_ROWS_HEAD, size - SBT_ROWS_HEAD);
	if (r == 0)
		r = check_body(view);
	if (r == 0)
		r = make_texts(view);
	if (r < 0)
		return r;
	*ret = TAKE(view);
	return 0;
}

const char *sbt_view_table(const struct sbt_view *view)
{
	return view->table;
}

size_t sbt_view_column_count(const struct sbt_view *view)
{
	return view->column_count;
}

const char *sbt_view_column(const struct sbt_view *view, size_t i)
{
	return view->column[i].name;
}

size_t sbt_view_row_count(const struct sbt_view *view)
{
	return view->row_count;
}

static uint64_t next_varint(const struct sbt_view *view, struct view_column *column)
{
	uint64_t value = 0;

	column->at = varint_get(column->at, view->body + view->size, &value);
	return value;
}

static void next_text(struct sbt_view *view, struct view_column *column, struct sbt_value *ret)
{
	uint64_t number = next_varint(view, column), size;
	const uint8_t *at = column->at;

	if (!number)
		column->text[column->next_text++] = (uint32_t)(at - view->body);
	else
		at = view->body + column->text[number - 1];
	at = varint_get(at, view->body + view->size, &size);
	ret->text = (const char *)at;
	ret->size = size;
	if (!number)
		column->at = at + size + 1;
}

const struct sbt_value *sbt_view_next(struct sbt_view *view)
{
	if (view->row == view->row_count)
		return NULL;
	for (size_t i = 0; i < view->column_count; i++) {
		struct view_column *column = &view->column[i];
		struct sbt_value *value = &view->value[i];

		*value = (struct sbt_value){ .type = type_of(column, view->row) };
		if (value->type == SBT_INTEGER) {
			column->before += unzigzag(next_varint(view, column));
			value->integer = (int64_t)column->before;
		} else if (value->type == SBT_TEXT) {
			next_text(view, column, value);
		}
	}
	view->row++;
	return view->value;
}
