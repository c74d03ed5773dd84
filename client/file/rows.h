/* rows.h: blocks of rows into the tables that they name.
 */
#ifndef TS_CLIENT_FILE_ROWS_H
#define TS_CLIENT_FILE_ROWS_H

#include <stddef.h>

#include "core/base/cleanup.h"

struct file_rows;
struct sqlite3;

/* `path` is for messages. */
int file_rows_new(struct sqlite3 *db, const char *path, struct file_rows **ret);
struct file_rows *file_rows_free(struct file_rows *rows);

/* Adds the rows of a block. -EBADMSG: it is damaged or invalid; other errors are those of the
 * database. Prints nothing. */
int file_rows_add(struct file_rows *rows, const void *data, size_t size);
/* What is invalid in a row, after -EBADMSG; "" for an unreadable block. */
const char *file_rows_nonsense(const struct file_rows *rows);
/* Prints the tables and columns that are not known here. */
void file_rows_say_unknown(const struct file_rows *rows);

CLEANUP_DEFINE(struct file_rows, file_rows_free)

#endif
