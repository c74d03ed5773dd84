/* Unit: scales numbers to three significant digits. */
#include "client/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct unit {
	const char *name;
	double size;
};

static const struct unit byte_units[] = {
	{ "TiB", 1024.0 * 1024 * 1024 * 1024 },
	{ "GiB", 1024.0 * 1024 * 1024 },
	{ "MiB", 1024.0 * 1024 },
	{ "KiB", 1024.0 },
	{ "B", 1 },
};

static const struct unit time_units[] = {
	{ "d", 86400e9 }, { "h", 3600e9 }, { "min", 60e9 }, { "s", 1e9 },
	{ "ms", 1e6 },	  { "µs", 1e3 },   { "ns", 1 },
};

/* The last unit has size 1 and needs no fraction. */
static void scale(char *out, int64_t value, const struct unit *unit, const char *suffix)
{
	double magnitude = value < 0 ? -(double)value : (double)value, shown;

	/* 0.9995 of a unit would be shown as 1000 or 1024 of the smaller one. */
	while (unit->size > 1 && magnitude < unit->size * 0.9995)
		unit++;
	shown = value / unit->size;
	magnitude /= unit->size;
	snprintf(out, UNIT_TEXT_MAX, "%.*f %s%s",
		 unit->size == 1 || magnitude >= 99.95 ? 0
		 : magnitude >= 9.995		       ? 1
						       : 2,
		 shown, unit->name, suffix);
}

char *unit_bytes(char *out, int64_t bytes)
{
	scale(out, bytes, byte_units, "");
	return out;
}

char *unit_bytes_per_second(char *out, int64_t rate)
{
	scale(out, rate, byte_units, "/s");
	return out;
}

char *unit_nanoseconds(char *out, int64_t ns)
{
	scale(out, ns, time_units, "");
	return out;
}

char *unit_time(char *out, int64_t realtime_ns)
{
	time_t seconds = realtime_ns / 1000000000;
	char day[24] = "";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(out, UNIT_TEXT_MAX, "%s.%03d", day, (int)(realtime_ns / 1000000 % 1000));
	return out;
}
