/* rows.h: blocks of rows into the tables that they name. */
#ifndef TS_FILE_ROWS_H
#define TS_FILE_ROWS_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "core/base/cleanup.h"
#include "core/store/file/remark.h"

struct file_rows;

int file_rows_new(sqlite3 *db, struct file_rows **ret);
struct file_rows *file_rows_free(struct file_rows *rows);

/* Adds the rows of a block. -EBADMSG: it is damaged or invalid; other errors are those of the
 * database. */
int file_rows_add(struct file_rows *rows, const void *data, size_t size);

/* The names in these live until the next call of file_rows_add(). */
/* What is wrong with a block, after -EBADMSG; where it is remains to be added. */
struct file_remark file_rows_fault(const struct file_rows *rows);
/* Whether there were tables or columns that are not known here. */
bool file_rows_unknown(const struct file_rows *rows, struct file_remark *ret);

CLEANUP_DEFINE(struct file_rows, file_rows_free)

#endif
