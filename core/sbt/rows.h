/* rows.h: rows of one table, as a block of an .sbt file.
 *
 * A block names its table and columns. The tables and the meaning of their columns are those of
 * docs/tables.md. Of two rows with the same key the later one counts: an ongoing recording writes
 * what has changed again.
 */
#ifndef TS_CORE_SBT_ROWS_H
#define TS_CORE_SBT_ROWS_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"

#define SBT_ROWS_MAX	    65536 /* in a block */
#define SBT_ROW_COLUMNS_MAX 32
#define SBT_ROW_NAME_MAX    63	       /* bytes of the name of a table or column */
#define SBT_ROW_TEXT_MAX    (1u << 20) /* bytes of a value */
#define SBT_ROWS_BYTES_MAX  (8u << 20) /* of a block, when it is not compressed */

enum sbt_value_type { SBT_NULL, SBT_INTEGER, SBT_TEXT };

struct sbt_value {
	enum sbt_value_type type;
	int64_t integer;
	const char
		*text; /* UTF-8 without NUL; in a view it is NUL-terminated, the NUL not counted */
	size_t size;
};

/* Making a block. Its memory is reused from block to block. */
struct sbt_rows;

int sbt_rows_new(struct sbt_rows **ret);
struct sbt_rows *sbt_rows_free(struct sbt_rows *rows);
/* Names are a lower-case letter, followed by such letters, digits and '_'; no column is there
 * twice. -EINVAL: invalid names, or too many. Discards what was added and not ended. */
int sbt_rows_begin(struct sbt_rows *rows, const char *table, const char *const *column,
		   size_t count);
/* As many values as columns; copied. Texts that are not UTF-8, or contain a NUL, are -EINVAL.
 * -ENOSPC: the block is full, nothing was added: end it, start the next and add again. -EMSGSIZE:
 * too large for any block. */
int sbt_rows_add(struct sbt_rows *rows, const struct sbt_value *value);
size_t sbt_rows_count(const struct sbt_rows *rows);
/* The block; valid until the next call. */
int sbt_rows_end(struct sbt_rows *rows, const void **ret_data, size_t *ret_size);

/* Reading a block. Results live as long as the view. */
struct sbt_view;

/* -EBADMSG: damaged. Checks everything, texts too. */
int sbt_view_new(const void *data, size_t size, struct sbt_view **ret);
struct sbt_view *sbt_view_free(struct sbt_view *view);
const char *sbt_view_table(const struct sbt_view *view);
size_t sbt_view_column_count(const struct sbt_view *view);
const char *sbt_view_column(const struct sbt_view *view, size_t i);
size_t sbt_view_row_count(const struct sbt_view *view);
/* The next row, with as many values as columns; NULL after the last. The row is valid until the
 * next call. */
const struct sbt_value *sbt_view_next(struct sbt_view *view);

CLEANUP_DEFINE(struct sbt_rows, sbt_rows_free)
CLEANUP_DEFINE(struct sbt_view, sbt_view_free)

#endif
