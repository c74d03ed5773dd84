/* pools.h: the pools of one process on one device, made of what it has allocated. Pure.
 *
 * The driver's own memory is one pool, whose allocations are its blocks. PyTorch's allocator makes
 * segments of such allocations, and has pools of them: one for blocks up to 1 MiB, one for larger
 * ones, and with expandable segments address ranges into which it maps memory as it needs it.
 */
#ifndef TS_MEMORY_POOLS_H
#define TS_MEMORY_POOLS_H

#include <stdbool.h>

#include "core/memory/fragment.h"

/* Numbers are stored. */
#define MEMORY_POOLS(X)                                                                            \
	X(1, DRIVER, "driver")	       /* allocations of the program, in granules */               \
	X(2, SMALL, "small")	       /* the allocator's segments of 2 MiB */                     \
	X(3, LARGE, "large")	       /* its other ones */                                        \
	X(4, EXPANDABLE, "expandable") /* those that are mapped */                                 \
	X(5, UNKNOWN, "unknown")       /* what it says that it has, beside all of these */

enum memory_pool {
	MEMORY_POOL_NONE,
#define X(number, identifier, name) MEMORY_POOL_##identifier = number,
	MEMORY_POOLS(X)
#undef X
		MEMORY_POOL_MAX = 5,
};

/* What the driver gives out as a whole. */
#define POOLS_GRANULE_BYTES (2ull << 20)
/* Largest block in the allocator's pool of small ones. */
#define POOLS_SMALL_BYTES (1ull << 20)

/* What the driver gave out. */
struct pools_held {
	struct fragment_span span;
	bool mapped;	/* address space with physical memory behind it, otherwise an allocation */
	bool framework; /* known to have been allocated by the framework's allocator */
	uint8_t pool;	/* set by pools_find(): of which it is a segment, besides the driver's */
};

struct pools {
	struct pools_held *held;
	struct fragment_span *block; /* that the framework's allocator gave out */
	uint64_t *range;	     /* where reservations of address space start */
	size_t held_count, block_count, range_count;
	bool reports; /* the framework's allocator reports its blocks */
};

/* Sorts all, joins what is mapped side by side in one reservation, and finds out which are
 * segments: those with a block in them, and those of the framework. */
void pools_find(struct pools *pools);

/* One of them, of up to MEMORY_POOL_EXPANDABLE, after pools_find(). `segment` and `block` have room
 * for all of `held` and for all of `held` and `block`. False: there is nothing in it. */
bool pools_take(const struct pools *pools, enum memory_pool which, struct fragment_span *segment,
		struct fragment_span *block, struct fragment_pool *ret);

/* Whether a block of this size is asked of that pool. */
bool pools_serves(enum memory_pool which, uint64_t bytes);

#endif
