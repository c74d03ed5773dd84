/* stamp.h: puts the times of CUPTI's records on CLOCK_MONOTONIC. */
#ifndef TS_STAMP_H
#define TS_STAMP_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/event.h"

/* What the clocks show; made once for each buffer. */
struct stamp {
	uint64_t now_ns;
	int64_t wall_ahead_ns; /* of the wall clock */
};

/* Collection begins: nothing is known of CUPTI's clock. */
void stamp_begin(void);
struct stamp stamp_now(void);
/* False: the times are of no clock that is known, and have been taken out. On any thread. */
bool stamp_mend(const struct stamp *stamp, struct ts_event *event);
/* Whether that was so with all work since the beginning, and often enough to be sure. */
bool stamp_is_foreign(void);

#endif
