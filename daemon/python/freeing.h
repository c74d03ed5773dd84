/* freeing.h: where an interpreter frees its code objects. */
#ifndef TS_PYTHON_FREEING_H
#define TS_PYTHON_FREEING_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/python/find.h"

/* The function that all of them go through, by its file, for reading and the caller's, and where in
 * it that starts. -ENOENT: none was found, or it may be another one. */
int freeing_find(uint32_t pid, const struct find *find, struct peek *peek, int *ret_file,
		 uint64_t *ret_offset);

/* Whether code in the file names this address in it, as code does that calls or compares. True if
 * that cannot be told in time. */
bool freeing_is_named(const struct elf *elf, uint64_t address);

#endif
