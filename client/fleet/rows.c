/* Rows: from text to values, and on to the table that every answer goes through. */
#include "client/fleet/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/fleet/tsv.h"
#include "client/output/table.h"
#include "core/base/cleanup.h"

typedef Tracesmith__V1__Columns__Column column_message;

struct rows {
	const struct head *head;
	struct tsv answer;
	struct table table;
	Tracesmith__V1__Value value[TSV_COLUMNS_MAX], *values[TSV_COLUMNS_MAX];
};

/* Of the types that ClickHouse has, integers of up to 64 bits and reals are numbers for us. */
static Tracesmith__V1__Columns__Type type_of(const char *type)
{
	if (strncmp(type, "Nullable(", 9) == 0)
		type += 9;
	if ((strncmp(type, "Int", 3) == 0 || strncmp(type, "UInt", 4) == 0) &&
	    !strpbrk(type, "(") && !strstr(type, "128") && !strstr(type, "256"))
		return TRACESMITH__V1__COLUMNS__TYPE__INTEGER;
	if (strncmp(type, "Float", 5) == 0)
		return TRACESMITH__V1__COLUMNS__TYPE__REAL;
	return TRACESMITH__V1__COLUMNS__TYPE__TEXT;
}

static int send_columns(struct rows *rows)
{
	const struct head *head = rows->head;
	column_message column[TSV_COLUMNS_MAX], *list[TSV_COLUMNS_MAX];
	Tracesmith__V1__Columns columns = TRACESMITH__V1__COLUMNS__INIT;

	if (head && head->columns != rows->answer.columns)
		return -EPROTO;
	for (size_t i = 0; i < rows->answer.columns; i++) {
		tracesmith__v1__columns__column__init(&column[i]);
		column[i].name = head ? (char *)head->column[i].name : rows->answer.name[i];
		column[i].type = head ? head->column[i].type : type_of(rows->answer.type[i]);
		list[i] = &column[i];
	}
	columns.n_column = rows->answer.columns;
	columns.column = list;
	return table_columns(&rows->table, &columns);
}

static bool is_unknown(const struct rows *rows, size_t i)
{
	const char *cell = rows->answer.cell[i];

	return !cell || (rows->head && rows->head->column[i].id && *cell == '-');
}

static void set_value(struct rows *rows, size_t i)
{
	Tracesmith__V1__Value *value = &rows->value[i];
	char *cell = rows->answer.cell[i];

	tracesmith__v1__value__init(value);
	rows->values[i] = value;
	if (is_unknown(rows, i))
		return;
	switch (rows->table.column[i].type) {
	case TRACESMITH__V1__COLUMNS__TYPE__TEXT:
		value->value_case = TRACESMITH__V1__VALUE__VALUE_TEXT;
		value->text = cell;
		break;
	case TRACESMITH__V1__COLUMNS__TYPE__REAL:
		value->value_case = TRACESMITH__V1__VALUE__VALUE_REAL;
		value->real = strtod(cell, NULL);
		break;
	default:
		value->value_case = TRACESMITH__V1__VALUE__VALUE_INTEGER;
		value->integer =
			*cell == '-' ? strtoll(cell, NULL, 10) : (int64_t)strtoull(cell, NULL, 10);
	}
}

static int send_rows(struct rows *rows, uint64_t limit)
{
	Tracesmith__V1__Done done = TRACESMITH__V1__DONE__INIT;
	Tracesmith__V1__Row row = TRACESMITH__V1__ROW__INIT;
	int r;

	row.n_value = rows->answer.columns;
	row.value = rows->values;
	while ((r = tsv_next(&rows->answer)) == 1) {
		if (rows->table.rows == limit) {
			done.truncated = true;
			break;
		}
		for (size_t i = 0; i < row.n_value; i++)
			set_value(rows, i);
		r = table_row(&rows->table, &row);
		if (r < 0)
			break;
	}
	return r < 0 ? r : table_end(&rows->table, &done);
}

int rows_write(char *text, const struct options *options, const char *name, const struct head *head,
	       uint64_t limit)
{
	_cleanup_(freep) struct rows *rows = calloc(1, sizeof(*rows));
	int r;

	if (!rows) {
		complain_memory();
		return -ENOMEM;
	}
	rows->head = head;
	table_init(&rows->table, options, name, 0);
	rows->table.whole = true;
	r = tsv_open(&rows->answer, text);
	if (r == 0)
		r = send_columns(rows);
	if (r == 0)
		r = send_rows(rows, limit);
	table_done(&rows->table);
	if (r < 0)
		complain("Cannot interpret the server's answer: %s", strerror(-r));
	return r;
}
