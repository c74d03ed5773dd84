/* pattern.h: regular expressions from users, limited to those that take bounded time and memory.
 *
 * The C library builds an automaton that holds a repeated part once per repetition, each with a
 * list of all others, and it tries every way to match a back reference. So a pattern of 20 bytes
 * could take all memory, or forever. */
#ifndef TS_CLIENT_PATTERN_H
#define TS_CLIENT_PATTERN_H

#include <regex.h>

#define PATTERN_BYTES_MAX 256
/* In characters, with repetitions expanded: 'a{3}b+' has 3 + 2. */
#define PATTERN_PLACES_MAX 1000

#define PATTERN_WHY_BYTES  128

/* Compiles an extended regular expression without subexpressions (REG_NOSUB); `flags` may be
 * REG_ICASE. -EINVAL: refused, and `why` completes a sentence after a colon. */
int pattern_compile(const char *text, int flags, regex_t *ret, char why[PATTERN_WHY_BYTES]);

#endif
