/* units.h: durations and sizes as people write and read them. */
#ifndef TS_UNITS_H
#define TS_UNITS_H

#include <stddef.h>
#include <stdint.h>

/* "250ms", "10s", "5m", "2h", "7d", also with a fraction; "0" needs no unit.
 * -EINVAL: not a duration; -ERANGE: longer than 64 bits of nanoseconds. */
int units_parse_duration(const char *text, uint64_t *ret_ns);
/* "4096", "64KiB", "16MiB", "2GiB"; K, M and G alone mean the same. Errors as above. */
int units_parse_size(const char *text, uint64_t *ret_bytes);
/* A plain decimal number. Errors as above. */
int units_parse_count(const char *text, uint64_t *ret);

#define UNITS_TEXT_SIZE 32
/* "1.50 GiB", "12.3 ms": three digits that count, for people. Return `text`. */
const char *units_format_size(char text[UNITS_TEXT_SIZE], uint64_t bytes);
const char *units_format_duration(char text[UNITS_TEXT_SIZE], uint64_t ns);

#endif
