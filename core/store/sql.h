/* sql.h: the few things that every part of the store does with SQLite, with errno for errors. */
#ifndef TS_SQL_H
#define TS_SQL_H

#include <sqlite3.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"

CLEANUP_DEFINE(sqlite3_stmt, sqlite3_finalize)
CLEANUP_DEFINE(sqlite3, sqlite3_close)

/* The negative errno of the connection's last error; -EAGAIN: a commit is just being entered in the
 * log's index, which this connection cannot write to. */
int sql_error(sqlite3 *db);

int sql_exec(sqlite3 *db, const char *text);
int sql_prepare(sqlite3 *db, const char *text, sqlite3_stmt **ret);
/* The same of a text that was made (sqlite3_malloc(), NULL: there was no memory) and is freed. */
int sql_prepare_made(sqlite3 *db, char *text, sqlite3_stmt **ret);
int sql_exec_made(sqlite3 *db, char *text);
/* Statements of a table, in its order; all or none. */
int sql_prepare_all(sqlite3 *db, const char *const *text, size_t count, sqlite3_stmt **ret);
void sql_finalize_all(sqlite3_stmt **stmt, size_t count);

/* All of what `run` does, or nothing: what it returns, if it is less than 0. Within a transaction
 * it is part of that, which is undone as a whole if a damaged page lets this not be undone alone.
 */
int sql_in_savepoint(sqlite3 *db, int (*run)(void *data), void *data);

/* Binds parameters 1, 2, … */
void sql_bind_array(sqlite3_stmt *stmt, const int64_t *value, int count);
#define sql_bind(stmt, ...)                                                                        \
	sql_bind_array(stmt, (const int64_t[]){ __VA_ARGS__ },                                     \
		       sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t))
/* A copied string, or NULL; invalid UTF-8 becomes U+FFFD. */
void sql_bind_text(sqlite3_stmt *stmt, int number, const char *text);

/* Runs a statement that returns no rows and resets it. */
int sql_run(sqlite3_stmt *stmt);
/* The same for one that returns one integer; 0 if it returns no row or NULL. */
int sql_integer(sqlite3_stmt *stmt, int64_t *ret);
int sql_query_integer(sqlite3 *db, const char *text, int64_t *ret);

#endif
