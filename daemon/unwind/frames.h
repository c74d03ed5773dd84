/* frames.h: what the .eh_frame of a file says about an address. Nothing is built beforehand: an
 * answer is a search of the sorted table in .eh_frame_hdr, and two entries.
 */
#ifndef TS_UNWIND_FRAMES_H
#define TS_UNWIND_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/limits.h"
#include "proto/rule.h"

struct frames_segment {
	uint64_t address, offset, size; /* in memory; in the file */
	bool code;
};

struct frames {
	int fd; /* the caller's; the file may contain anything, and change */
	struct frames_segment segment[LIMIT_UNWIND_SEGMENTS];
	uint32_t segments;
	/* The sorted table, of pairs of numbers relative to header_address. */
	uint64_t header_address, table_offset;
	uint32_t entries;
	/* .eh_frame, to be searched through if there is no table. */
	uint64_t frames_offset, frames_size;
};

/* -EBADMSG: not an ELF file for x86-64. A file without .eh_frame has no rules. */
int frames_open(struct frames *ret, int fd);

/* The rule of the instruction at an address, as the file counts; RULE_NONE: it has none. For a
 * return address that of the call before it is asked for. */
struct rule frames_rule(const struct frames *frames, uint64_t address);

/* It has nothing about any address. */
bool frames_are_none(const struct frames *frames);

/* The address of the code at an offset in the file: 0, or -ENOENT. */
int frames_address(const struct frames *frames, uint64_t offset, uint64_t *ret);

#endif
