/* timeline.h: clocks of hosts on one timeline, which is a server's clock in nanoseconds since 1970.
 */
#ifndef TS_CLIENT_FLEET_TIMELINE_H
#define TS_CLIENT_FLEET_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#define TIMELINE_UNKNOWN (-1)

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

int64_t timeline_of(const struct timeline_clock *clock, int64_t monotonic_ns);
/* The other way round. */
int64_t timeline_back(const struct timeline_clock *clock, int64_t ns);
/* Of the error against the server then. */
int64_t timeline_bound(const struct timeline_clock *clock, int64_t monotonic_ns);

#endif
