/* lane.h: tracks on which no two slices overlap, but for those that lie within another.
 *
 * What is shown as one row may overlap: branches of a graph on one stream, ranges that begin in one
 * order and end in another, work that is told late. Readers of traces need it apart. So a row has
 * as many lanes as there are slices at one time, mostly one.
 */
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
	uint64_t end_ns[LANE_DEPTH]; /* of the slices in which it is, the outermost first */
};

struct lanes {
	struct lane *lane;
	uint32_t count, size;
	struct lanes *next;
};

/* The lanes of a trace, by what they are of. Zeroed is empty. */
struct rows {
	struct map map;
	struct lanes *first;
};

/* NULL: no memory. */
struct lanes *rows_get(struct rows *rows, uint64_t what, uint64_t id);
void rows_clear(struct rows *rows);

/* The lane on which the slice has its place from now on; NULL: no memory. Valid until the next
 * call. `nest`: it may lie within another. */
struct lane *lanes_take(struct lanes *lanes, uint64_t start_ns, uint64_t end_ns, bool nest);

#endif
