/* lanes.h: a window of time, in as many cells as the terminal has columns, for each stream and
 * thread. Memory grows with the lanes, at most VIEW_LANES_MAX, never with the ops. */
#ifndef TS_CLIENT_VIEW_LANES_H
#define TS_CLIENT_VIEW_LANES_H

#include "client/view/view.h"
#include "core/base/spans.h"

#define VIEW_LANES_MAX 256
/* Columns before the first cell; the second if there are fewer than VIEW_LANES_WIDE in total. */
#define VIEW_LANES_LABEL  20
#define VIEW_LANES_NARROW 15
#define VIEW_LANES_WIDE	  40

/* identifier, letter, text, terminal color */
#define LANE_KINDS(X)                                                                              \
	X(KERNEL, 'k', "kernel", 32)                                                               \
	X(GRAPH, 'g', "graph", 32)                                                                 \
	X(HTOD, 'h', "copy to device", 36)                                                         \
	X(DTOH, 'd', "copy to host", 35)                                                           \
	X(COPY, 'c', "other copy", 34)                                                             \
	X(SET, 's', "memset", 34)                                                                  \
	X(BOUNDS, 'b', "work, within bounds", 33)                                                  \
	X(CAPTURED, 'r', "captured into a graph", 37)                                              \
	X(LAUNCH, 'l', "launch", 32)                                                               \
	X(SYNC, 'w', "wait for device", 31)                                                        \
	X(MEMORY, 'm', "memory", 34)                                                               \
	X(OTHER, 'o', "other call", 37)

enum lane_kind {
#define X(id, letter, text, color) LANE_##id,
	LANE_KINDS(X)
#undef X
		LANE_KIND_COUNT
};

struct view_lane {
	/* Sort order: process, then devices with their streams, then threads. */
	uint32_t process, pid;
	uint32_t place; /* ordinal + 1 of a device, LANE_HOST */
	uint32_t id;	/* 0: the device as a whole; 1 + id of a stream; tid */
	int16_t device;
	struct spans spans; /* for a device as a whole: what keeps it busy */
	uint64_t *ns;	    /* per cell and kind; for a device as a whole, per cell */
};

#define LANE_HOST UINT32_MAX

struct view_lanes {
	struct view *view;
	struct map map;
	struct view_lane *lane[VIEW_LANES_MAX];
	size_t count;
	struct map refused; /* lanes beyond the limit */
	uint64_t begin_ns, step_ns;
	size_t label, cells; /* columns */
};

/* Draws everything but the losses. */
void view_lanes_draw(const struct view_lanes *lanes);

#endif
