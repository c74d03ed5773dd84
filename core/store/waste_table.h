/* waste_table.h: the table-valued function waste(boot, since, until, pid): device memory and copies
 * that the processes of a window could have done without (core/waste/waste.h).
 *
 * Columns: process, pattern, certainty, kind, detail, fn, device, stack, count, bytes, lost_ns,
 * held_ns. `pid` may be NULL for all. Of more than LIMIT_WASTE_OPS operations of a process the
 * oldest are left out; waste_left_out() says how many were the last time, once.
 */
#ifndef TS_WASTE_TABLE_H
#define TS_WASTE_TABLE_H

#include <sqlite3.h>

/* With the functions waste_pattern(number), waste_advice(number) and certainty(number). */
int waste_table_register(sqlite3 *db);

#endif
