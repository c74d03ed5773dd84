/* share.h: how long the ring may wait for the stacks of each process, and for all of them. Pure:
 * times are arguments. */
#ifndef TS_UNWIND_SHARE_H
#define TS_UNWIND_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#define SHARE_PLACES 256

struct share_part {
	uint64_t used_ns; /* of what it has at once; less with time */
	uint64_t at_ns;
};

/* Zeroed: nothing was used. Processes that share a place share what it has. */
struct share {
	struct share_part all, part[SHARE_PLACES];
};

bool share_left(struct share *share, uint32_t pid, uint64_t now_ns);
void share_take(struct share *share, uint32_t pid, uint64_t now_ns, uint64_t used_ns);

#endif
