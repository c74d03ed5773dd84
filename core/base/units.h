/* units.h: durations, sizes and times as people write and read them. */
#ifndef TS_UNITS_H
#define TS_UNITS_H

#include <stdint.h>

/* For error messages. */
#define UNITS_SHARE_EXAMPLES	"1%, 0.5% or none"
#define UNITS_DURATION_EXAMPLES "500ms, 1.5s, 10m, 2h or 7d"
#define UNITS_SIZE_EXAMPLES	"4096, 64KiB, 500MB or 2GiB"

/* "250ms", "10s", "5m", "2h", "7d"; a fraction and a space before the unit are allowed, and a plain
 * number is seconds. -EINVAL: not a duration; -ERANGE: more than 63 bits of nanoseconds. */
int units_parse_duration(const char *text, uint64_t *ret_ns);
/* "4096", "64KiB", "16MiB", "2GiB"; K, M, G and T mean the same, and KB, MB, GB and TB are powers
 * of 1000. Case does not matter. Errors as above. */
int units_parse_size(const char *text, uint64_t *ret_bytes);
/* A plain decimal number, exactly. Errors as above. */
int units_parse_count(const char *text, uint64_t *ret);

/* "3%", "0.5%", in parts per million; "0", "0%" and "none" are 0. -EINVAL: no share, or more than
 * all. */
int units_parse_share(const char *text, uint64_t *ret_ppm);

#define UNITS_TEXT_SIZE 40

/* Three significant digits. Each writes to `text` and returns it. */
char *units_bytes(char text[UNITS_TEXT_SIZE], int64_t bytes);		/* 1.50 GiB */
char *units_bytes_per_second(char text[UNITS_TEXT_SIZE], int64_t rate); /* 12.4 GiB/s */
char *units_nanoseconds(char text[UNITS_TEXT_SIZE], int64_t ns);	/* 3.21 ms */
char *units_time(char text[UNITS_TEXT_SIZE], int64_t realtime_ns); /* 2024-05-31 13:00:05.250 */

#endif
