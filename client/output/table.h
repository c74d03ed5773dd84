/* table.h: an answer in columns and rows, written as text, JSON or CSV while it comes. */
#ifndef TS_CLIENT_TABLE_H
#define TS_CLIENT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/base/options.h"
#include "proto/control.pb-c.h"

/* Rows whose widths decide those of the text table; later ones are written at once. */
#define TABLE_ROWS_MEASURED 1000
#define TABLE_COLUMNS_MAX   256

struct table_column {
	char *name;
	Tracesmith__V1__Columns__Type type;
};

struct table_text; /* rows that wait for the widths */

/* Columns of one query that text leaves out: what few need would push what all need off a terminal.
 * Each list ends with NULL. */
struct table_pick {
	const char *query;
	const char *const *wide;   /* for --wide only */
	const char *const *filled; /* where a row has more than nothing or 0 in it */
};

struct table {
	FILE *out, *notes; /* what is said beside the table goes to notes */
	const char *query;
	int64_t wall_offset_ns;
	size_t width; /* of the terminal, 0: none */
	bool color;
	bool whole; /* nothing can be missing from it, so losses are not spoken of */
	const struct table_writer *writer;
	const struct table_pick *pick; /* NULL: text shows all columns */
	size_t column_count;
	struct table_column *column;
	uint64_t rows;
	struct table_text *text;
};

/* One form of output. */
struct table_writer {
	int (*begin)(struct table *table);
	int (*row)(struct table *table, const Tracesmith__V1__Row *row);
	int (*end)(struct table *table, const Tracesmith__V1__Done *done);
};

extern const struct table_writer table_text_writer, table_json_writer, table_csv_writer;

/* For standard output, in the form that the options ask for. */
void table_init(struct table *table, const struct options *options, const char *query,
		int64_t wall_offset_ns);
void table_done(struct table *table);

/* In this order; a row has as many values as there are columns, or it is -EPROTO. */
int table_columns(struct table *table, const Tracesmith__V1__Columns *columns);
int table_row(struct table *table, const Tracesmith__V1__Row *row);
int table_end(struct table *table, const Tracesmith__V1__Done *done);

/* What was lost, or that nothing was, behind an empty line. */
void table_losses(FILE *out, const Tracesmith__V1__Done *done);

/* text.c: frees what waits. */
struct table_text *table_text_free(struct table_text *text);

/* The value as text in base units. `buffer` has UNITS_TEXT_SIZE bytes; what is returned lives there
 * or in the value. */
const char *table_plain(char *buffer, const Tracesmith__V1__Value *value,
			Tracesmith__V1__Columns__Type type);

#endif
