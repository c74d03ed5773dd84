/* shortage.h: what would have sufficed where an allocation failed for lack of memory, in one
 * sentence. Pure. */
#ifndef TS_SHORTAGE_H
#define TS_SHORTAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SHORTAGE_TEXT_SIZE 320

/* Numbers may be anything, as a recording's are. 0: unknown, or none. */
struct shortage {
	int64_t bytes;	      /* asked of the driver */
	int64_t wanted_bytes; /* asked of a framework */
	int64_t free_bytes;   /* of the device, if known */
	bool free_known;
	int64_t held_bytes, own_bytes; /* by all processes, and by the one that failed */
	/* Of the framework: given out, and held for that. */
	int64_t live_bytes, reserved_bytes;
	/* Free inside of what it holds, if known: in how many pieces, and the largest one. */
	int64_t pieces, pieces_bytes, piece_bytes;
};

/* Returns `text`. */
const char *shortage_text(const struct shortage *given, char text[SHORTAGE_TEXT_SIZE]);

#endif
