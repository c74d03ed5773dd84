/* Lines: three tables, each read from its start: a step in code, a step in lines. They may contain
 * anything: each step takes at least a byte, and sums are kept in range. */
#include "daemon/python/lines.h"

#include <stdbool.h>

#define LINE_MAX 0x7fffffff

/* Of a location: what its four bits of code mean. The others (0 to 9) are on the line before. */
enum location {
	LOCATION_ONE_LINE_0 = 10, /* 10, 11, 12: that many lines further, less ten */
	LOCATION_ONE_LINE_2 = 12,
	LOCATION_NO_COLUMNS = 13,
	LOCATION_LONG = 14,
	LOCATION_NONE = 15,
};

#define CODE_UNIT	  2
#define VARINT_BITS	  6
#define VARINT_MORE	  0x40
#define VARINT_SHIFT_MAX  30
#define LINETABLE_NO_LINE (-128)

static int32_t line_of(int64_t line)
{
	return line > 0 && line <= LINE_MAX ? (int32_t)line : 0;
}

static int32_t find_lnotab(const uint8_t *table, size_t size, int64_t line, int64_t position)
{
	int64_t at = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		at += table[i];
		if (at > position)
			break;
		line += (int8_t)table[i + 1];
	}
	return line_of(line);
}

static int32_t find_linetable(const uint8_t *table, size_t size, int64_t line, int64_t position)
{
	int64_t at = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		int8_t step = (int8_t)table[i + 1];

		if (step != LINETABLE_NO_LINE)
			line += step;
		at += table[i];
		if (at > position)
			return step == LINETABLE_NO_LINE ? 0 : line_of(line);
	}
	return 0;
}

/* The first of these bytes has bit 7, the others do not. */
static size_t varint(const uint8_t *at, size_t size, uint64_t *ret)
{
	unsigned int shift = 0;
	size_t i = 0;

	*ret = 0;
	while (i < size) {
		uint8_t byte = at[i++];

		*ret |= (uint64_t)(byte & (VARINT_MORE - 1)) << shift;
		if (!(byte & VARINT_MORE) || shift >= VARINT_SHIFT_MAX)
			break;
		shift += VARINT_BITS;
	}
	return i;
}

static int64_t signed_of(uint64_t value)
{
	return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

static int32_t find_locations(const uint8_t *table, size_t size, int64_t line, int64_t position)
{
	int64_t at = 0;

	for (size_t i = 0; i < size;) {
		unsigned int code = table[i] >> 3 & 15;
		uint64_t step;

		at += ((table[i] & 7) + 1) * CODE_UNIT;
		i++;
		if (code == LOCATION_LONG || code == LOCATION_NO_COLUMNS) {
			varint(table + i, size - i, &step);
			line += signed_of(step);
		} else if (code >= LOCATION_ONE_LINE_0 && code <= LOCATION_ONE_LINE_2) {
			line += code - LOCATION_ONE_LINE_0;
		}
		if (at > position)
			return code == LOCATION_NONE ? 0 : line_of(line);
		while (i < size && !(table[i] & 0x80)) /* columns */
			i++;
	}
	return 0;
}

int32_t lines_find(enum lines_format format, const uint8_t *table, size_t size, int32_t first_line,
		   int64_t position)
{
	/* It has not started. */
	if (position < 0)
		return line_of(first_line);
	switch (format) {
	case LINES_LNOTAB:
		return find_lnotab(table, size, first_line, position);
	case LINES_LINETABLE:
		return find_linetable(table, size, first_line, position);
	case LINES_LOCATIONS:
		return find_locations(table, size, first_line, position);
	}
	return 0;
}
