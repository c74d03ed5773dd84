/* dwarf.h: the lines behind addresses of a file with debug information, and the functions that the
 * compiler put into others there.
 *
 * It reads what others wrote with a library that trusts it: only in a process that has nothing to
 * lose (lines_helper.h).
 */
#ifndef TS_DWARF_H
#define TS_DWARF_H

#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"

#define DWARF_DEPTH_MAX 32

/* One function at an address; texts may be "". */
struct dwarf_place {
	char function[LIMIT_SYMBOL_NAME]; /* demangled */
	char file[LIMIT_SYMBOL_NAME];
	uint32_t line;
};

struct dwarf;

/* `common_fd`: of what dwz moved out of the file; -1: nothing. -ENOENT: it has no debug
 * information.
 */
int dwarf_open(int fd, int common_fd, struct dwarf **ret);
struct dwarf *dwarf_free(struct dwarf *dwarf);
/* Those at the address as the file counts, the innermost first: each but the last is compiled into
 * the next. Returns how many; 0: unknown. */
uint32_t dwarf_find(struct dwarf *dwarf, uint64_t address, struct dwarf_place *place);

#endif
