/* fragment_series.h: keeps how fragmented each pool is, minute by minute, in the table
 * `fragmentation`: one measurement is of now, and memory is fragmented by what lives for hours. */
#ifndef TS_FRAGMENT_SERIES_H
#define TS_FRAGMENT_SERIES_H

#include <sqlite3.h>
#include <stdint.h>

/* To be called once a minute. */
int fragment_series_take(sqlite3 *db, int64_t boot, uint64_t now_ns);

#endif
