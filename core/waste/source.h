/* source.h: host memory that is copied to a device over and over. Pure. */
#ifndef TS_WASTE_SOURCE_H
#define TS_WASTE_SOURCE_H

#include <stdbool.h>

#include "core/base/sums.h"
#include "core/waste/event.h"

struct source_key {
	uint64_t source, bytes;
	int32_t device;
	uint32_t zero;
};

struct source {
	struct source_key key;
	uint64_t done_ns;     /* of the last copy, 0: unknown */
	uint64_t host_writes; /* copies to the host before it */
	uint64_t stack;
	uint16_t fn;	    /* 0: none yet */
	bool pinned, exact; /* of the last copy */
	uint64_t count[CERTAINTY_MAX + 1], lost_ns[CERTAINTY_MAX + 1];
};

/* Empty. */
#define SOURCES SUMS_OF(struct source, done_ns)

/* In the order of time. `host_writes`: copies to the host so far. -ENOMEM */
int source_copied(struct sums *sources, const struct event *event, bool pinned,
		  uint64_t host_writes);
/* Whether it is waste of this certainty, as a row without its process. */
bool source_is_waste(const struct source *source, enum certainty certainty, struct waste_row *ret);

#endif
