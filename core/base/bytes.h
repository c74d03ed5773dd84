/* bytes.h: sizes that others report. SQLite's integers are signed, so this is the largest. */
#ifndef TS_BYTES_H
#define TS_BYTES_H

#include <stdint.h>

static inline uint64_t bytes_bounded(uint64_t bytes)
{
	return bytes < INT64_MAX ? bytes : INT64_MAX;
}

#endif
