/* signal_frame.h: what the kernel leaves on a handler's stack of the code that a signal
 * interrupted, known by the selectors of a program, which stand there in one word.
 */
#ifndef TS_SIGNAL_FRAME_H
#define TS_SIGNAL_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIGNAL_SELECTORS      0x002b000000000033ull
#define SIGNAL_SELECTORS_MASK 0xffff00000000ffffull
/* Words before them. */
#define SIGNAL_RIP 2
#define SIGNAL_RSP 3

/* Whether word `at` of a part of a stack is these selectors. */
static inline bool signal_frame_is_at(const uint64_t *word, size_t at)
{
	return at >= SIGNAL_RSP && (word[at] & SIGNAL_SELECTORS_MASK) == SIGNAL_SELECTORS;
}

#endif
