/* Units: one table for durations and one for sizes, for both ways. */
#include "core/base/units.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct unit {
	const char *name;
	uint64_t factor;
};

/* Largest first, for writing. */
static const struct unit durations[] = {
	{ "d", 86400000000000 }, { "h", 3600000000000 }, { "m", 60000000000 }, { "s", 1000000000 },
	{ "ms", 1000000 },	 { "us", 1000 },	 { "ns", 1 },	       { NULL, 0 },
};

static const struct unit sizes[] = {
	{ "TiB", 1ull << 40 }, { "GiB", 1 << 30 }, { "MiB", 1 << 20 },
	{ "KiB", 1 << 10 },    { "B", 1 },	   { "", 1 },
	{ "T", 1ull << 40 },   { "G", 1 << 30 },   { "M", 1 << 20 },
	{ "K", 1 << 10 },      { NULL, 0 },
};

static const struct unit counts[] = { { "", 1 }, { NULL, 0 } };

static int units_parse(const struct unit *unit, const char *text, uint64_t *ret)
{
	double number, value;
	char *end;

	/* strtod() takes signs, hexadecimal and words as well: we do not. */
	if (!isdigit((unsigned char)*text) || strspn(text, "0123456789.") == 0 ||
	    (text[0] == '0' && tolower((unsigned char)text[1]) == 'x'))
		return -EINVAL;
	number = strtod(text, &end);
	while (*end == ' ')
		end++;
	if (!*end && number == 0) {
		*ret = 0;
		return 0;
	}
	while (unit->name && strcmp(unit->name, end))
		unit++;
	if (!unit->name)
		return -EINVAL;
	value = number * (double)unit->factor;
	if (value >= (double)INT64_MAX)
		return -ERANGE;
	*ret = (uint64_t)(value + 0.5);
	return 0;
}

int units_parse_duration(const char *text, uint64_t *ret_ns)
{
	return units_parse(durations, text, ret_ns);
}

int units_parse_size(const char *text, uint64_t *ret_bytes)
{
	return units_parse(sizes, text, ret_bytes);
}

int units_parse_count(const char *text, uint64_t *ret)
{
	return strchr(text, '.') ? -EINVAL : units_parse(counts, text, ret);
}

static const char *units_format(char text[UNITS_TEXT_SIZE], const struct unit *unit, uint64_t value)
{
	double number;

	while (unit->factor > 1 && value < unit->factor)
		unit++;
	number = (double)value / (double)unit->factor;
	if (unit->factor == 1)
		snprintf(text, UNITS_TEXT_SIZE, "%.0f %s", number, unit->name);
	else
		snprintf(text, UNITS_TEXT_SIZE, "%.*f %s",
			 number < 9.995	  ? 2
			 : number < 99.95 ? 1
					  : 0,
			 number, unit->name);
	return text;
}

const char *units_format_size(char text[UNITS_TEXT_SIZE], uint64_t bytes)
{
	return units_format(text, sizes, bytes);
}

const char *units_format_duration(char text[UNITS_TEXT_SIZE], uint64_t ns)
{
	return units_format(text, durations, ns);
}
