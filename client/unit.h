/* unit.h: numbers as a person reads them. Each writes into `out` (UNIT_TEXT_MAX) and returns it. */
#ifndef TS_CLIENT_UNIT_H
#define TS_CLIENT_UNIT_H

#include <stdint.h>

#define UNIT_TEXT_MAX 40

char *unit_bytes(char *out, int64_t bytes);	      /* 1.50 GiB */
char *unit_bytes_per_second(char *out, int64_t rate); /* 12.4 GiB/s */
char *unit_nanoseconds(char *out, int64_t ns);	      /* 3.21 ms */
char *unit_time(char *out, int64_t realtime_ns);      /* local: 2024-05-31 13:00:05.250 */

#endif
