/* sentence.h: a sentence with places for arguments.
 *
 * {1} is the first argument; what stands in [brackets] is left out where an argument in it is
 * missing or empty. An argument is never read as a pattern itself. */
#ifndef TS_SENTENCE_H
#define TS_SENTENCE_H

#include <stddef.h>

/* NULL: no memory. To be freed. */
char *sentence_fill(const char *pattern, const char *const *argument, size_t count);

#endif
