/* table_function.h: shared by virtual tables that are used like functions: their last columns are
 * hidden, and are the arguments. A table has a row of struct table_function, and in its module the
 * first four functions below. */
#ifndef TS_TABLE_FUNCTION_H
#define TS_TABLE_FUNCTION_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

struct table_function {
	const char *name, *declaration;
	const char *takes; /* what a statement without all of its arguments is told */
	int first_argument, argument_count;
	double cost;
	int64_t rows;
	size_t cursor_bytes; /* of a struct that starts with a sqlite3_vtab_cursor */
};

struct table_function_table {
	sqlite3_vtab base;
	sqlite3 *db;
	const struct table_function *function;
	uint32_t bound; /* as given to table_function_register() */
};

int table_function_connect(sqlite3 *db, void *data, int count, const char *const *argument,
			   sqlite3_vtab **ret, char **ret_error);
int table_function_disconnect(sqlite3_vtab *base);
/* All arguments are required; they are passed on to xFilter, in order. */
int table_function_best_index(sqlite3_vtab *base, sqlite3_index_info *info);
/* A zeroed cursor. */
int table_function_open(sqlite3_vtab *base, sqlite3_vtab_cursor **ret);

/* Why a statement fails; `text` is from sqlite3_mprintf(). */
void table_function_say(sqlite3_vtab *base, char *text);

/* `function` and `module` live as long as the database. */
int table_function_register(sqlite3 *db, const struct table_function *function,
			    const sqlite3_module *module, uint32_t bound);

#endif
