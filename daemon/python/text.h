/* text.h: reads a str of an interpreter. */
#ifndef TS_PYTHON_TEXT_H
#define TS_PYTHON_TEXT_H

#include "daemon/limits.h"
#include "daemon/python/layout.h"
#include "daemon/python/peek.h"

/* UTF-8 without control characters, and a NUL. */
#define TEXT_SIZE (LIMIT_PYTHON_TEXT * 4 + sizeof("…"))

struct text_source {
	struct peek *peek;
	const struct layout *layout;
	uint64_t type; /* address of PyUnicode_Type; 0: any */
};

/* The first LIMIT_PYTHON_TEXT characters; if there are more, they end with "…". -EBADMSG: it is no
 * str; else as peek_bytes. */
int text_read(const struct text_source *source, uint64_t address, char ret[TEXT_SIZE]);

#endif
