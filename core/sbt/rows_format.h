/* rows_format.h: shared by the writer (rows.c) and the reader (view.c) of a block of rows. The
 * format is described in rows.c. */
#ifndef TS_CORE_SBT_ROWS_FORMAT_H
#define TS_CORE_SBT_ROWS_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/sbt/rows.h"

#define SBT_ROWS_HEAD	    12
#define SBT_ROWS_COMPRESSED 1

struct sbt_rows_head {
	uint32_t row_count, body_size;
	uint8_t column_count, flags, zero[2];
};
_Static_assert(sizeof(struct sbt_rows_head) == SBT_ROWS_HEAD, "the head has no holes");

/* Numbers are stored. The first three are those of enum sbt_value_type. */
enum sbt_column_types {
	SBT_TYPES_NULL,	   /* every value is NULL */
	SBT_TYPES_INTEGER, /* every value is an integer */
	SBT_TYPES_TEXT,	   /* every value is a text */
	SBT_TYPES_MIXED,
};

/* `seen`: a bit for each type that occurs. */
static inline uint8_t sbt_rows_types(uint32_t seen)
{
	if (seen & (seen - 1))
		return SBT_TYPES_MIXED;
	return seen ? (uint8_t)__builtin_ctz(seen) : SBT_TYPES_NULL;
}

static inline bool sbt_rows_name_valid(const char *name, size_t size)
{
	if (size < 1 || size > SBT_ROW_NAME_MAX || name[0] < 'a' || name[0] > 'z')
		return false;
	for (size_t i = 1; i < size; i++)
		if (!(name[i] >= 'a' && name[i] <= 'z') && !(name[i] >= '0' && name[i] <= '9') &&
		    name[i] != '_')
			return false;
	return true;
}

#endif
