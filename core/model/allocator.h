/* allocator.h: what a framework's allocator says of itself: how much it holds from the driver, and
 * how much of that it has given out. Pure. */
#ifndef TS_CORE_ALLOCATOR_H
#define TS_CORE_ALLOCATOR_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/model/function.h"

/* Of one process on one device. A process may have several copies of the framework's library, each
 * with sums of its own. */
struct allocator {
	struct list link;    /* in the process */
	struct list changed; /* in a list of those to report */
	uint64_t copy;	     /* where the reporting function of the library is */
	uint32_t process;
	uint32_t number; /* among those of the process on the device */
	int16_t device;
	uint64_t bytes, used_bytes; /* held, and given out of it */
	uint64_t peak_bytes, peak_used_bytes;
	uint64_t told_ns;
};

/* Most blocks are gone at once, and a step may make thousands: who lives this long is reported. */
#define ALLOCATOR_SETTLED_NS 1000000000ull

/* Copies in a process. Those beyond share the last one's sums. */
#define ALLOCATOR_COPIES_MAX 8

/* NULL: nothing is known of it. */
struct allocator *allocator_find(const struct list *allocators, int16_t device, uint64_t copy);
/* NULL: no memory. */
struct allocator *allocator_get(struct list *allocators, uint32_t process, int16_t device,
				uint64_t copy);
/* What it said then; a later word stands. */
bool allocator_told(struct allocator *allocator, uint64_t time_ns, uint64_t used_bytes,
		    uint64_t bytes);
/* How high it was in the meantime. True: higher than ever. */
bool allocator_peaked(struct allocator *allocator, uint64_t used_bytes, uint64_t bytes);
void allocator_free(struct allocator *allocator);

/* A block of this age need not be reported yet. */
static inline bool allocator_may_wait(uint8_t memory_kind, uint64_t age_ns)
{
	return memory_kind == MEMORY_TENSOR && age_ns < ALLOCATOR_SETTLED_NS;
}

#endif
