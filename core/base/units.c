/* Units: one table for durations and one for sizes, for parsing and printing. */
#include "core/base/units.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "core/base/time.h"

struct unit {
	const char *name;
	double size;
};

/* Units for printing come first, in descending order, down to the one of size 1. */
static const struct unit durations[] = {
	{ "d", 86400e9 }, { "h", 3600e9 }, { "min", 60e9 }, { "s", 1e9 },  { "ms", 1e6 },
	{ "µs", 1e3 },	  { "ns", 1 },	   { "m", 60e9 },   { "us", 1e3 }, { "μs", 1e3 },
	{ "sec", 1e9 },	  { "", 1e9 },	   { NULL, 0 },
};

static const struct unit sizes[] = {
	{ "TiB", 1099511627776.0 },
	{ "GiB", 1073741824 },
	{ "MiB", 1048576 },
	{ "KiB", 1024 },
	{ "B", 1 },
	{ "TB", 1e12 },
	{ "GB", 1e9 },
	{ "MB", 1e6 },
	{ "KB", 1e3 },
	{ "T", 1099511627776.0 },
	{ "G", 1073741824 },
	{ "M", 1048576 },
	{ "K", 1024 },
	{ "bytes", 1 },
	{ "", 1 },
	{ NULL, 0 },
};

/* strtod() also accepts signs, words and hexadecimal; we do not. */
static int units_parse(const struct unit *unit, const char *text,
		       int (*compare)(const char *, const char *), uint64_t *ret)
{
	size_t digits = strspn(text, "0123456789.");
	double value;
	char *end;

	if (!digits)
		return -EINVAL;
	value = strtod(text, &end);
	if (end != text + digits)
		return -EINVAL;
	if (*end == ' ' && end[1])
		end++;
	while (unit->name && compare(unit->name, end))
		unit++;
	if (!unit->name)
		return -EINVAL;
	value *= unit->size;
	if (value >= (double)INT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)(value + 0.5);
	return 0;
}

int units_parse_duration(const char *text, uint64_t *ret_ns)
{
	return units_parse(durations, text, strcmp, ret_ns);
}

int units_parse_size(const char *text, uint64_t *ret_bytes)
{
	return units_parse(sizes, text, strcasecmp, ret_bytes);
}

int units_parse_count(const char *text, uint64_t *ret)
{
	unsigned long long value;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end)
		return -EINVAL;
	if (errno || value > INT64_MAX)
		return -ERANGE;
	*ret = value;
	return 0;
}

int units_parse_share(const char *text, uint64_t *ret_ppm)
{
	char *end;
	double percent;

	*ret_ppm = 0;
	if (strcmp(text, "none") == 0 || strcmp(text, "0") == 0 || strcmp(text, "0%") == 0)
		return 0;
	if (text[strspn(text, "0123456789.%")])
		return -EINVAL;
	percent = strtod(text, &end);
	if (strcmp(end, "%") != 0 || percent * 10000 < 1 || percent > 100)
		return -EINVAL;
	*ret_ppm = (uint64_t)(percent * 10000 + 0.5);
	return 0;
}

static char *units_scale(char *text, int64_t value, const struct unit *unit, const char *suffix)
{
	double magnitude = value < 0 ? -(double)value : (double)value, shown;

	/* 0.9995 of a unit would print as 1000 or 1024 of the smaller one. */
	while (unit->size > 1 && magnitude < unit->size * 0.9995)
		unit++;
	shown = (double)value / unit->size;
	magnitude /= unit->size;
	snprintf(text, UNITS_TEXT_SIZE, "%.*f %s%s",
		 unit->size <= 1 || magnitude >= 99.95 ? 0
		 : magnitude >= 9.995		       ? 1
						       : 2,
		 shown, unit->name, suffix);
	return text;
}

char *units_bytes(char text[UNITS_TEXT_SIZE], int64_t bytes)
{
	return units_scale(text, bytes, sizes, "");
}

char *units_bytes_per_second(char text[UNITS_TEXT_SIZE], int64_t rate)
{
	return units_scale(text, rate, sizes, "/s");
}

char *units_nanoseconds(char text[UNITS_TEXT_SIZE], int64_t ns)
{
	return units_scale(text, ns, durations, "");
}

char *units_time(char text[UNITS_TEXT_SIZE], int64_t realtime_ns)
{
	time_t seconds = realtime_ns / NS_PER_S;
	char day[24] = "";
	struct tm tm;

	if (localtime_r(&seconds, &tm))
		strftime(day, sizeof(day), "%Y-%m-%d %H:%M:%S", &tm);
	snprintf(text, UNITS_TEXT_SIZE, "%s.%03d", day, (int)(realtime_ns / NS_PER_MS % 1000));
	return text;
}
