/* row.h: every stored table, described once. Its DDL, the statements that write, merge and record
 * its rows, and what a recording may hold are made from the description (row_sql.h); a test
 * compares it with the steps of schema.c, and check/docs with docs/tables.md.
 */
#ifndef TS_ROW_H
#define TS_ROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model/core.h"

/* What becomes of a column when there is a row with the same key. */
enum row_merge {
	ROW_KEY,     /* part of the primary key */
	ROW_REPLACE, /* the later value holds */
	ROW_KEEP,    /* the first value holds */
	ROW_SUM,
	ROW_MIN,
	ROW_MAX,
	ROW_MIN_TIMED, /* the smallest of rows whose column `timed` is not 0 */
};

/* Where a column's value comes from. */
enum row_source {
	ROW_OWN, /* statements of its own write it */
	ROW_BOOT,
	ROW_BATCH, /* the number of the commit */
	/* A member of the row's struct, of this type: */
	ROW_U8,
	ROW_U16,
	ROW_U32,
	ROW_I16,
	ROW_I32,
	ROW_64,
	ROW_SECOND, /* 64 bits of nanoseconds, stored in seconds */
	ROW_CHARS,  /* an array that need not end with a NUL */
	ROW_TEXT,   /* a pointer, NULL: none */
	ROW_UUID,   /* 16 bytes */
};

enum row_flag {
	ROW_ZERO_IS_NULL = 1 << 0,
	ROW_MINUS_ONE_IS_NULL = 1 << 1,
	ROW_UNRECORDED = 1 << 2, /* recordings do not have the column */
};

struct row_column {
	const char *name;
	const char *type; /* with its constraints */
	enum row_merge merge;
	enum row_source source;
	unsigned int flags;
	size_t offset, size; /* of the member */
};

/* When a recording gets rows of a table. */
enum row_recorded {
	ROW_RECORDED_NEVER,
	ROW_RECORDED_FIRST,  /* all of it, at the start */
	ROW_RECORDED_USED,   /* of its processes: at the start, the end, and when they did something
			      */
	ROW_RECORDED_SECOND, /* of its processes and seconds, by columns `process` and `second` */
	ROW_RECORDED_LAST,   /* of its processes, as it is at the end */
	ROW_RECORDED_OWN,    /* record.c has the condition */
};

/* How long rows are kept. */
enum row_kept {
	ROW_KEPT_ALWAYS,
	ROW_KEPT_PROCESS, /* as long as the row of `process` */
	/* By column `second`, from which limit on the age or size of the database asks for; after
	 * two minutes seconds are added up to minutes. */
	ROW_KEPT_SECOND,
	ROW_KEPT_OWN, /* retain.c has the condition */
};

struct row_table {
	const char *name;
	const struct row_column *column;
	size_t count;
	enum row_recorded recorded;
	enum row_kept kept;
	const char *indexes; /* statements that make them, NULL: it has none */
	/* The struct that its rows are written from, 0: none. */
	size_t size;
	enum core_row type;
	size_t gone; /* where a member says that the row is to be deleted, 0: there is none */
};

/* In the order in which a recording has them. */
extern const struct row_table row_tables[];
extern const size_t row_table_count;

/* NULL: there is none of that name; rows of that type are written by statements of their own. */
const struct row_table *row_table_find(const char *name);
const struct row_table *row_table_of(enum core_row type);

/* A frame of a stack, as a row. `file` is the mapped one, `source` that of its line. */
#define ROW_FRAME_NO_OFFSET (-1) /* it is in no file */
struct row_frame {
	uint64_t stack, address;
	int64_t offset;
	uint32_t depth, line;
	const char *file, *symbol, *source;
	uint8_t kind; /* enum frame_kind */
	bool inlined;
};

/* A row of `total` (total.h). */
struct row_total {
	uint32_t process;
	int32_t part;
	int16_t device; /* -1: unknown, or of all */
	uint8_t what;
	uint8_t zero; /* the key has no padding */
	uint64_t count, ns, bytes;
};

#endif
