/* held.h: who holds how much memory over time, from allocations and frees: layers, one for each
 * code path or process, of which those that held the most are told apart. */
#ifndef TS_CLIENT_HELD_H
#define TS_CLIENT_HELD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/map.h"

#define HELD_LAYERS_MAX	 24
#define HELD_COLUMNS_MAX 400
#define HELD_EVENTS_MAX	 500000

struct held_event {
	uint64_t at_ns;
	uint32_t process;
	int64_t path; /* id of a stack; 0: unknown */
	int64_t bytes, count;
};

struct held_layer {
	uint32_t process;
	int64_t path;
	int64_t bytes;	/* at the place that was reached */
	int64_t most;	/* bytes in the window */
	uint32_t place; /* among those that are shown */
};

struct held {
	bool by_process; /* or by code path; set before the first event */
	struct held_event *event;
	uint32_t events, events_room;
	struct held_layer *layer;
	uint32_t layers, layers_room;
	struct map known; /* to the place in `layer`, plus 1 */
};

/* What of the window is shown. In each column it is the moment at which most was held. */
struct held_picture {
	const struct held_layer *layer[HELD_LAYERS_MAX]; /* of `held`, those with most first */
	uint32_t layers, others;
	/* Of each column those of the layers, then of all others together. */
	int64_t bytes[HELD_COLUMNS_MAX][HELD_LAYERS_MAX + 1];
	int64_t count[HELD_COLUMNS_MAX][HELD_LAYERS_MAX + 1];
	int64_t most; /* of all layers together */
	uint64_t most_ns;
};

/* In order of time. -E2BIG: there are too many; -ENOMEM. */
int held_add(struct held *held, const struct held_event *event);
void held_draw(struct held *held, uint64_t since_ns, uint64_t step_ns, uint32_t columns,
	       struct held_picture *ret);
void held_done(struct held *held);

#endif
