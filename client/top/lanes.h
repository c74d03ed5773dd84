/* lanes.h: what streams did in the last minutes, a column for each reply. Pure. */
#ifndef TS_TOP_LANES_H
#define TS_TOP_LANES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/map.h"
#include "proto/control.pb-c.h"

#define LANES_HISTORY 240
#define LANES_MAX     4096 /* of all processes: 720 bytes each */
#define LANES_WHOLE   255  /* share of a column that is all of it */

/* Shares of a reply's time. The probe tier knows only `pending`, as a bound of running. */
struct lane_column {
	uint8_t running, pending, waiting;
};

struct top_lane {
	uint32_t process, stream; /* ids */
	int32_t device;
	bool bounds;
	struct lane_column column[LANES_HISTORY]; /* the latest last */
};

struct top_lanes {
	struct top_lane **lane; /* in the order in which they came */
	size_t count, room;
	struct map by_stream;
};

/* -ENOMEM: `lanes` has part of the reply. */
int lanes_apply(struct top_lanes *lanes, const Tracesmith__V1__LiveReply *live);
/* Those of a process, by device and stream: at most `max`; returns how many there are. */
size_t lanes_of(const struct top_lanes *lanes, uint32_t process, const struct top_lane **ret,
		size_t max);
void lanes_clear(struct top_lanes *lanes);

#endif
