/* stamp.h: puts the times of CUPTI's records on CLOCK_MONOTONIC. */
#ifndef TS_STAMP_H
#define TS_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/event.h"

/* What the clocks show; taken once per buffer. */
struct stamp {
	uint64_t now_ns;
	int64_t wall_ahead_ns; /* of the wall clock */
};

/* Recording starts: nothing is known about CUPTI's clock. */
void stamp_begin(void);
struct stamp stamp_now(void);
/* False: the times are from no known clock and have been cleared. On any thread. */
bool stamp_mend(const struct stamp *stamp, struct ts_event *event);
/* Whether that was true of all work since the start, and often enough to be sure. */
bool stamp_is_foreign(void);

#endif
