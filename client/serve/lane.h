/* lane.h: what the timeline shows beside a name: a stream, a thread, a device, as spans that cover
 * it. A span is one operation or, where several share a pixel, what covers that. */
#ifndef TS_CLIENT_LANE_H
#define TS_CLIENT_LANE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "core/base/cleanup.h"
#include "core/base/map.h"

/* Positions are counted in eighths of a pixel column. */
#define LANE_UNITS 8

enum lane_what { LANE_STATES, LANE_WORK, LANE_RANGES, LANE_CALLS, LANE_MEMORY };

struct lane_span {
	uint32_t start, length, name, count;
	uint64_t value; /* how much of it is covered, in thousandths; of memory: bytes */
	bool bounds;	/* it ran somewhere within */
};

struct lane {
	enum lane_what what;
	uint32_t process, depth; /* depth: of ranges within others */
	int64_t id;		 /* of the stream row, or the thread */
	int64_t device;
	uint64_t ops;
	struct lane_span *span;
	uint32_t count, room;
};

struct lane_name {
	char *kind, *text;
};

struct lanes {
	uint64_t since_ns, step_ns; /* of a column */
	uint32_t columns;
	struct lane *lane;
	uint32_t count, room;
	struct lane_name *name;
	uint32_t names, names_room;
	struct map named; /* from both texts to the place in `name`, plus 1 */
	uint32_t left_out;
	uint32_t beside; /* other pictures of the same size in the answer */
};

/* One group of a statement: the operations that start in a column, and the longest of them. */
struct lane_group {
	enum lane_what what;
	uint32_t process;
	int64_t id, device, column;
	uint64_t count, busy_ns, longest_ns, start_ns, end_ns;
	const char *kind, *name;
	bool bounds;
};

/* Groups of a lane come one after another, by column. -ENOMEM. */
int lanes_add(struct lanes *lanes, const struct lane_group *group);
/* Makes few enough lanes and spans of them that their text is short: spans become coarser, and the
 * lanes with the fewest operations are left out. */
void lanes_fit(struct lanes *lanes);
/* "lanes":[…],"names":[…],"left_out":N */
void lanes_write(FILE *out, const struct lanes *lanes);
void lanes_done(struct lanes *lanes);

#endif
