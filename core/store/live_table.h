/* live_table.h: the table-valued function live_sum(boot, pid, until), which adds up the live
 * allocations that were made until then: of a million, in a third of the time of SQLite's GROUP BY,
 * which sorts.
 *
 * Columns: process, stack, fn, kind, device, bytes, count, oldest_ns. `pid` may be NULL for all
 * processes, also of other boots. Of more than LIMIT_QUERY_SUMS sums, the further ones are without
 * their stacks.
 */
#ifndef TS_LIVE_TABLE_H
#define TS_LIVE_TABLE_H

#include <sqlite3.h>

int live_table_register(sqlite3 *db);

#endif
