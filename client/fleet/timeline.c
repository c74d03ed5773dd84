/* Timeline: a line through a point, with a bound that grows with the distance from it. */
#include "client/fleet/timeline.h"

#include <stdlib.h>

#define PPB 1000000000

static int64_t drifted(int64_t ns, int64_t ppb)
{
	return (int64_t)((__int128)ns * ppb / PPB);
}

int64_t timeline_number(const char *cell, int64_t min, int64_t max)
{
	int64_t number = cell ? strtoll(cell, NULL, 10) : 0;

	return number < min ? min : number > max ? max : number;
}

int64_t timeline_of(const struct timeline_clock *clock, int64_t monotonic_ns)
{
	return monotonic_ns + clock->offset_ns + clock->shift_ns +
	       drifted(monotonic_ns - clock->at_ns, clock->drift_ppb);
}

int64_t timeline_back(const struct timeline_clock *clock, int64_t ns)
{
	int64_t about_ns = ns - clock->offset_ns - clock->shift_ns;
	int64_t nearer_ns = about_ns - drifted(about_ns - clock->at_ns, clock->drift_ppb);

	return about_ns - drifted(nearer_ns - clock->at_ns, clock->drift_ppb);
}

int64_t timeline_bound(const struct timeline_clock *clock, int64_t monotonic_ns)
{
	return clock->bound_ns +
	       drifted(llabs(monotonic_ns - clock->at_ns), clock->drift_bound_ppb);
}
