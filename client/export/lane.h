/* lane.h: tracks on which slices nest but never overlap otherwise.
 *
 * The slices of a row may overlap: branches of a graph on one stream, ranges that start and end in
 * different orders, work that is reported late. Trace viewers need them apart. So a row has as many
 * lanes as it has concurrent slices, mostly one. */
#ifndef TS_CLIENT_EXPORT_LANE_H
#define TS_CLIENT_EXPORT_LANE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/map.h"

#define LANE_DEPTH 24 /* slices within slices */

struct lane {
	uint64_t track;	   /* the caller's, 0 at first */
	uint64_t start_ns; /* of its last slice */
	uint32_t depth;
	uint64_t end_ns[LANE_DEPTH]; /* of the enclosing slices, outermost first */
};

struct lanes {
	struct lane *lane;
	uint32_t count, size;
	struct lanes *next;
};

/* The lanes of a trace, by their owner. Zeroed is empty. */
struct rows {
	struct map map;
	struct lanes *first;
};

/* NULL: no memory. */
struct lanes *rows_get(struct rows *rows, uint64_t what, uint64_t id);
void rows_clear(struct rows *rows);

/* Finds a lane for a slice, and puts it there; NULL: no memory. Valid until the next call. `nest`:
 * it may lie within another slice. */
struct lane *lanes_take(struct lanes *lanes, uint64_t start_ns, uint64_t end_ns, bool nest);

#endif
