/* remark.h: remarks about a recording, each a reason with arguments, which the caller words. */
#ifndef TS_FILE_REMARK_H
#define TS_FILE_REMARK_H

#include <stdint.h>

enum file_reason {
	/* It cannot be opened. */
	FILE_NO_MEMORY,
	FILE_UNOPENED, /* error */
	FILE_DIRECTORY,
	FILE_SPECIAL,	 /* neither a directory nor a regular file */
	FILE_FOREIGN,	 /* not an .sbt file */
	FILE_HEADLESS,	 /* it ends within its head */
	FILE_NEWER,	 /* of a later version */
	FILE_UNREADABLE, /* error */
	FILE_TOO_LARGE,	 /* for the database */
	FILE_UNLOADABLE, /* error, of the database */
	FILE_BAD_BLOCK,	 /* byte */
	FILE_BAD_TEXT,	 /* byte, name: a column of numbers has a text */
	FILE_BAD_NUMBER, /* byte, name: a column of texts has a number */
	FILE_BAD_ROW,	 /* byte, name: a row of this table lacks a value */
	/* It is open. */
	FILE_UNKNOWN_NAMES, /* name, others */
	FILE_NO_END,
	FILE_CUT_OFF,  /* byte, count: bytes from there on */
	FILE_DAMAGED,  /* the same */
	FILE_LOST_OPS, /* byte, others, count: operations that cannot be read */

	FILE_REASON_COUNT
};

struct file_remark {
	enum file_reason reason;
	int error;	  /* a negative errno */
	uint64_t byte;	  /* where in the file */
	uint64_t others;  /* how many more places or names there are */
	const char *name; /* of a table, or table.column */
	uint64_t count;
};

typedef void file_remark_fn(void *data, const struct file_remark *remark);

#endif
