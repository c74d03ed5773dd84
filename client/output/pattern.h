/* pattern.h: regular expressions that a user gives, as far as they take bounded time and memory.
 *
 * The C library builds an automaton in which what is repeated stands as often as it may come, each
 * place with a list of all others, and tries all ways where something is referred back to. So a
 * pattern of 20 bytes could take all memory, or forever.
 */
#ifndef TS_CLIENT_PATTERN_H
#define TS_CLIENT_PATTERN_H

#include <regex.h>

#define PATTERN_BYTES_MAX 256
/* Characters, with each repetition written out: 'a{3}b+' has 3 + 2. */
#define PATTERN_PLACES_MAX 1000

#define PATTERN_WHY_BYTES  128

/* An extended regular expression without parts that are given back; `flags` may be REG_ICASE.
 * -EINVAL: it cannot be taken, and `why` says so behind a colon. */
int pattern_compile(const char *text, int flags, regex_t *ret, char why[PATTERN_WHY_BYTES]);

#endif
