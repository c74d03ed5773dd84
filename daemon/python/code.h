/* code.h: the code objects of one process: names, file, and the lines of instructions.
 *
 * Each is read once. Whenever it is asked for, the few fields that tell it apart are read again:
 * its memory may be that of another code object by now.
 */
#ifndef TS_PYTHON_CODE_H
#define TS_PYTHON_CODE_H

#include <stdbool.h>

#include "bpf/probe.h"
#include "core/base/arena.h"
#include "core/base/map.h"
#include "daemon/python/text.h"

struct code_identity {
	uint64_t file, name, lines, names;
	int32_t argcount, kwonly, flags, first_line;
};

struct code {
	uint64_t address;
	struct code_identity identity;
	const char *function; /* qualified since 3.11 */
	const char *file;
	int32_t first_traceable; /* instruction units; before it the function has not begun */
	uint32_t local_count;
	size_t lines_size;
	const uint8_t *lines;
};

/* All zero is empty. */
struct codes {
	struct map map; /* struct code by address, and by address and check */
	struct arena arena;
};

/* `type`: address of PyCode_Type. Valid until codes_clear. -EBADMSG: it is no code object, or it
 * changed meanwhile; else as peek_bytes. */
int codes_get(struct codes *codes, const struct text_source *source, uint64_t type,
	      uint64_t address, const struct code **ret);
/* What tells code objects of the same address apart, up to the table of lines: so many bytes into
 * one are the words for stack_hash_code(). */
uint32_t code_check_at(const struct layout *layout);
/* The one that had this check. Its memory is not looked at again if it is known. -ESTALE: it is
 * gone; else as codes_get. */
int codes_get_checked(struct codes *codes, const struct text_source *source, uint64_t type,
		      const struct ts_python_frame *frame, const struct code **ret);
/* 0: none. `position`: as in a frame. */
int32_t code_line(const struct code *code, const struct layout *layout, uint64_t position);
/* Whether a frame at this position has begun; if not, Python itself does not show it. */
bool code_has_begun(const struct code *code, const struct layout *layout, uint64_t position);
void codes_clear(struct codes *codes);

#endif
