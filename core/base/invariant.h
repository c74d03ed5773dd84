/* invariant.h: what the head of a file says always holds, checked where it could break. A broken
 * invariant ends a debug build, so that tests and fuzzers find it. A release build goes on: it
 * counts it, and logs the first few.
 */
#ifndef TS_INVARIANT_H
#define TS_INVARIANT_H

#include <stdint.h>

#define assert_invariant(condition)                                                                \
	do {                                                                                       \
		if (__builtin_expect(!(condition), 0))                                             \
			invariant_broken(__FILE__, __LINE__, #condition);                          \
	} while (0)

/* Any thread. */
__attribute__((cold)) void invariant_broken(const char *file, int line, const char *condition);
/* How many were broken since the program started. */
uint64_t invariant_count(void);

#endif
