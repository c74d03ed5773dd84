/* edges.h: starts and ends of work, taken out in order of time. */
#ifndef TS_CORE_EDGES_H
#define TS_CORE_EDGES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/model/lane.h"

#define EDGES_RUNS 8

/* A run is in order; what fits none goes to the heap. */
struct edges_run {
	struct edge *edge;
	uint32_t first, end, room; /* `end` - `first` of them, from index `first` on */
};

/* Zeroed is empty. */
struct edges {
	struct edges_run run[EDGES_RUNS];
	struct edges_run heap; /* the earliest first; `first` is 0 */
	uint32_t count;
};

/* -ENOMEM */
int edges_add(struct edges *edges, const struct edge *edge);
/* The earliest, valid until the next call; NULL: none. */
const struct edge *edges_first(const struct edges *edges);
/* There is one. */
struct edge edges_take(struct edges *edges);
/* Passes all to edge_drop. */
void edges_clear(struct edges *edges);

#endif
