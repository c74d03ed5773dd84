/* threads.h: our numbers of the threads of a process that lives in another PID namespace, and knows
 * only its own. */
#ifndef TS_EXACT_THREADS_H
#define TS_EXACT_THREADS_H

#include <stdint.h>

#include "core/base/map.h"

/* All zero is empty. */
struct threads {
	struct map ours; /* by theirs */
	long at;	 /* where the next slice begins */
	uint64_t next_ns;
};

/* Somebody who knows both says so. */
void threads_learn(struct threads *threads, uint32_t theirs, uint32_t ours);
/* Of a thread that may have ended: then it is `theirs`. Costs a few system calls at most. */
uint32_t threads_find(struct threads *threads, uint32_t pid, uint32_t theirs, uint64_t now_ns);
void threads_clear(struct threads *threads);

/* The next slice of a search, after which it is as if they had been learned. */
void threads_search(struct threads *threads, uint32_t pid);

#endif
