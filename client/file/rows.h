/* rows.h: blocks of rows into the tables that they name.
 */
#ifndef TS_CLIENT_FILE_ROWS_H
#define TS_CLIENT_FILE_ROWS_H

#include <stddef.h>

#include "core/base/cleanup.h"

struct file_rows;
struct sqlite3;

/* `path` is for what is said. */
int file_rows_new(struct sqlite3 *db, const char *path, struct file_rows **ret);
struct file_rows *file_rows_free(struct file_rows *rows);

/* Adds what a block holds. -EBADMSG: it is damaged or makes no sense; other errors are those of the
 * database. Nothing is said of either. */
int file_rows_add(struct file_rows *rows, const void *data, size_t size);
/* What a row has that makes no sense, after -EBADMSG; "" for a block that cannot be read. */
const char *file_rows_nonsense(const struct file_rows *rows);
/* Says which tables and columns nobody here knows. */
void file_rows_say_unknown(const struct file_rows *rows);

CLEANUP_DEFINE(struct file_rows, file_rows_free)

#endif
