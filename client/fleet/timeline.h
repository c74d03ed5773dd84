/* timeline.h: clocks of hosts on one timeline, which is a server's clock in nanoseconds since 1970.
 */
#ifndef TS_CLIENT_FLEET_TIMELINE_H
#define TS_CLIENT_FLEET_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#define TIMELINE_UNKNOWN (-1)

/* What a row may say, so that no sum of it overflows: CLOCK_MONOTONIC of four years, offsets and
 * bounds until 2043, drifts of a clock that stands still. */
#define TIMELINE_MONOTONIC_MAX (INT64_MAX / 64)
#define TIMELINE_OFFSET_MAX    (INT64_MAX / 4)
#define TIMELINE_DRIFT_MAX     1000000000

/* CLOCK_MONOTONIC of a boot: a row of the fleet's table `clock`, or the host's own wall clock. */
struct timeline_clock {
	const char *host, *boot;
	const char *server; /* NULL: it is the host's own */
	int64_t at_ns, offset_ns, drift_ppb, bound_ns, drift_bound_ppb;
	int64_t shift_ns; /* to be added, by what is known otherwise */
	/* Of the error against the reference, whose own is 0; or TIMELINE_UNKNOWN. */
	int64_t error_ns;
	bool tied; /* known by collectives */
};

/* A number of a row; of one out of range its nearest neighbour. NULL is 0, if that is in it. */
int64_t timeline_number(const char *cell, int64_t min, int64_t max);

int64_t timeline_of(const struct timeline_clock *clock, int64_t monotonic_ns);
/* The other way round. */
int64_t timeline_back(const struct timeline_clock *clock, int64_t ns);
/* Of the error against the server then. */
int64_t timeline_bound(const struct timeline_clock *clock, int64_t monotonic_ns);

#endif
