/* table.h: an answer in columns and rows, written as text, JSON or CSV as it arrives. */
#ifndef TS_CLIENT_TABLE_H
#define TS_CLIENT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "client/base/options.h"
#include "proto/control.pb-c.h"

/* Rows that determine the column widths of the text table; later ones are written at once. */
#define TABLE_ROWS_MEASURED 1000
#define TABLE_COLUMNS_MAX   256

struct table_column {
	char *name;
	Tracesmith__V1__Columns__Type type;
};

struct table_text; /* rows waiting for the widths */

/* Columns of a query that text output omits, since columns that few need would push the others off
 * the terminal. Each list ends with NULL. */
struct table_pick {
	const char *query;
	const char *const *wide;   /* for --wide only */
	const char *const *filled; /* only if a row has a value other than 0 there */
};

struct table {
	FILE *out, *notes; /* remarks besides the table go to the notes; NULL: nowhere */
	const char *query;
	int64_t wall_offset_ns;
	size_t width; /* of the terminal; 0: no terminal */
	bool color;
	bool spreadsheet; /* CSV is for one: no text is a formula */
	bool wide;	  /* every frame of a stack */
	bool whole;	  /* nothing can be missing, so losses are not mentioned */
	const struct table_writer *writer;
	const struct table_pick *pick; /* NULL: text shows all columns */
	const char *chosen;	       /* names of columns, separated by commas; NULL: all */
	uint16_t *place;	       /* of each column among those of the rows; NULL: the same */
	size_t row_size;
	size_t column_count;
	struct table_column *column;
	uint64_t rows;
	struct table_text *text;
};

/* One output form. */
struct table_writer {
	int (*begin)(struct table *table);
	int (*row)(struct table *table, const Tracesmith__V1__Row *row);
	int (*end)(struct table *table, const Tracesmith__V1__Done *done);
};

extern const struct table_writer table_text_writer, table_json_writer, table_csv_writer;

/* For standard output, in the form of the options. */
void table_init(struct table *table, const struct options *options, const char *query,
		int64_t wall_offset_ns);
void table_done(struct table *table);

/* In this order. A row must have one value per column, else -EPROTO. -EINVAL: there is none of a
 * name that was chosen, and it is said. */
int table_columns(struct table *table, const Tracesmith__V1__Columns *columns);
int table_row(struct table *table, const Tracesmith__V1__Row *row);
int table_end(struct table *table, const Tracesmith__V1__Done *done);

/* The losses, or that there were none, after an empty line. */
void table_losses(FILE *out, const Tracesmith__V1__Done *done);

/* table_text.c: the value as people read it, to be freed; NULL: no memory. */
char *table_cell(const struct table *table, const Tracesmith__V1__Value *value,
		 Tracesmith__V1__Columns__Type type);
/* table_text.c: frees the waiting rows. */
struct table_text *table_text_free(struct table_text *text);

/* The value as text in base units. `buffer` has UNITS_TEXT_SIZE bytes; the result points there or
 * into the value. */
const char *table_plain(char *buffer, const Tracesmith__V1__Value *value,
			Tracesmith__V1__Columns__Type type);

#endif
