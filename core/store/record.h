/* record.h: rows on their way to the writer: what the data of a record (batch.h) is.
 */
#ifndef TS_RECORD_H
#define TS_RECORD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/model/core.h"

/* The type of a record is one of enum core_row, and its data the struct of that row, but for NAME
 * and STACK; or it is: */
enum { RECORD_DETAIL = CORE_ROW_COUNT, RECORD_TYPE_COUNT };

/* Strings follow each other in `text`; an offset of 0 is NULL, else one more than where it is. */
struct record_detail {
	uint32_t process;
	uint32_t command, user, cgroup, container, variables;
	bool executed;
	char text[];
};

struct record_frame {
	uint64_t address, offset;
	uint32_t module, function, file; /* offsets as above, in what follows the frames */
	uint32_t line;
	uint8_t kind;
	bool inlined;
};

struct record_stack {
	uint64_t id;
	uint32_t process, count;
	uint8_t end, linked; /* as in struct ts_stack */
	struct record_frame frame[];
};

struct record_name {
	uint64_t id;
	uint32_t process, user; /* who handed it over */
	char text[];		/* ends with a NUL */
};

#endif
