/* table_function.h: virtual tables that are used like functions: their last columns are hidden, and
 * are the arguments. All rows are computed when a statement opens one. */
#ifndef TS_TABLE_FUNCTION_H
#define TS_TABLE_FUNCTION_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

/* What a statement walks along; the struct of a table that computes rows starts with it. */
struct table_function_cursor {
	sqlite3_vtab_cursor base;
	uint32_t at, count; /* rows */
};

struct table_function {
	const char *name, *declaration;
	const char *takes; /* what a statement without all of its arguments is told */
	int first_argument, argument_count;
	double cost;
	int64_t rows;
	size_t cursor_bytes;
	const char *select; /* what the rows are computed from; the arguments are bound, in order */
	/* Sets the number of rows in an empty cursor. An SQLite result code */
	int (*fill)(struct table_function_cursor *cursor, sqlite3_stmt *select,
		    sqlite3_value *const *argument);
	/* Of the row that it is at; not the arguments. */
	void (*column)(const struct table_function_cursor *cursor, sqlite3_context *context,
		       int number);
	void (*clear)(struct table_function_cursor *cursor); /* frees the rows */
};

struct table_function_table {
	sqlite3_vtab base;
	sqlite3 *db;
	const struct table_function *function;
	uint32_t bound; /* as given to table_function_register() */
	void *data;	/* likewise */
};

/* Why a statement fails; `text` is from sqlite3_mprintf(). */
void table_function_say(struct table_function_table *table, char *text);

/* `function` and `data` live as long as the database. */
int table_function_register(sqlite3 *db, const struct table_function *function, uint32_t bound,
			    void *data);

#endif
