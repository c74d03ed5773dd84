/* lines.h: the line of an instruction, by the tables of CPython's code objects: their formats are
 * described in its Objects/lnotab_notes.txt and Objects/locations.md
 * (InternalDocs/code_objects.md).
 */
#ifndef TS_PYTHON_LINES_H
#define TS_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

enum lines_format {
	LINES_LNOTAB,	 /* up to 3.9 */
	LINES_LINETABLE, /* 3.10 */
	LINES_LOCATIONS, /* since 3.11 */
};

/* `position` is in bytes of code. 0: the instruction belongs to no line, or the table is damaged.
 */
int32_t lines_find(enum lines_format format, const uint8_t *table, size_t size, int32_t first_line,
		   int64_t position);

#endif
