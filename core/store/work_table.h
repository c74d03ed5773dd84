/* work_table.h: the table-valued function work_sum(boot, first, last, pid, device, by), which adds
 * up the rows of `work` from second `first` to `last`.
 *
 * Columns: process, kernel (0: all that is no kernel, in one row), name, stack, stream, bucket,
 * count, total_ns, min_ns, max_ns, delay_ns. `pid` and `device` may be NULL for all; `by` is 1 to
 * keep stacks apart and 2 to keep streams apart, which are 0 else. What SQLite's GROUP BY would do
 * by sorting takes a fifth of the time here.
 */
#ifndef TS_WORK_TABLE_H
#define TS_WORK_TABLE_H

#include <sqlite3.h>

int work_table_register(sqlite3 *db);

#endif
