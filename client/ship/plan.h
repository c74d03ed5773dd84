/* plan.h: which minute is shipped next. */
#ifndef TS_CLIENT_SHIP_PLAN_H
#define TS_CLIENT_SHIP_PLAN_H

#include "client/ship/clickhouse.h"
#include "client/ship/cursor.h"
#include "client/ship/machine.h"
#include "client/ship/parcel.h"
#include "client/ship/source.h"

/* Usually the daemon knows all of a minute when it is over for this long. */
#define PLAN_SETTLED_S 15

enum plan_result {
	PLAN_READY = 0,
	PLAN_WAIT = 1, /* nothing is to be shipped now */
};

/* What is about the host and its clock, which is that of the current boot. */
struct parcel_plan plan_start(const struct settings *settings, const struct machine *machine,
			      const struct offset *offset);

/* Also of a minute that is not over, if `open`, and of one that has just ended. Fills in the plan
 * but for what is about the host. The cursor moves to the minute that is planned, and gets the sums
 * that it has now; it counts when the parcel has arrived. `server` is asked for what a lost state
 * folder knew; why() of either says what failed. */
int plan_next(struct source *source, struct clickhouse *server, struct cursor *cursor, bool open,
	      struct parcel_plan *ret);

/* Single operations of the last nanoseconds of the current boot. PLAN_WAIT: the daemon knows no
 * boot. */
int plan_window(struct source *source, struct clickhouse *server, uint64_t length_ns,
		struct parcel_plan *ret);

#endif
