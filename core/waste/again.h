/* again.h: memory that a stack allocates and frees over and over, with the same size. Pure. */
#ifndef TS_WASTE_AGAIN_H
#define TS_WASTE_AGAIN_H

#include <stdbool.h>

#include "core/base/sums.h"
#include "core/waste/event.h"

struct again_key {
	uint64_t stack, bytes;
	uint16_t fn;
	int16_t device;
	uint8_t kind, zero[3];
};

struct again {
	struct again_key key;
	uint64_t live, most;
	uint64_t rounds; /* each starts with an allocation after a free */
	uint64_t count;	 /* allocations that what was freed before could have served */
	uint64_t first_ns, last_ns;
	uint64_t alloc_ns, free_ns, frees;
	bool freed; /* the last thing that happened */
};

/* Empty. */
#define AGAINS SUMS_OF(struct again, live)

/* In the order of time. -ENOMEM */
int again_allocated(struct sums *agains, const struct event *event);
int again_freed(struct sums *agains, const struct event *block, const struct event *event);
/* Whether it is waste, as a row without its process. */
bool again_is_waste(const struct again *again, struct waste_row *ret);

#endif
