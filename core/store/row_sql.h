/* row_sql.h: statements about a table, made from its description (row.h), and what binds a row to
 * them.
 *
 * The makers give a text of sqlite3_malloc(), or NULL without memory: sql_prepare_made() takes it.
 */
#ifndef TS_ROW_SQL_H
#define TS_ROW_SQL_H

#include <sqlite3.h>

#include "core/store/row.h"

/* The table and its indexes. */
char *row_sql_create(const struct row_table *table);
/* Inserts a row, merged with the one of its key; row_bind() has the parameters. */
char *row_sql_write(const struct row_table *table);
/* Inserts a row, or replaces the one of its key, by a parameter for each of these columns. */
char *row_sql_replace(const struct row_table *table, const struct row_column *const *column,
		      size_t count);
/* Deletes the row of a key; row_bind_key() has the parameters. */
char *row_sql_delete(const struct row_table *table);
/* Adds the rows of boot ?1 and the seconds ?2 to ?3 up as rows of second ?4. */
char *row_sql_condense(const struct row_table *table);
/* The columns that recordings have; `from` begins with FROM. */
char *row_sql_select(const struct row_table *table, const char *from);

/* What a row is given beside its own members. */
struct row_given {
	int64_t boot, batch;
};

/* Of a column of a number. */
int64_t row_number(const struct row_column *column, const void *row, const struct row_given *given);
void row_bind(const struct row_table *table, const void *row, const struct row_given *given,
	      sqlite3_stmt *stmt);
void row_bind_key(const struct row_table *table, const void *row, const struct row_given *given,
		  sqlite3_stmt *stmt);

#endif
