/* work_table.h: the table-valued function work_sum(boot, first, last, pid, device, by), which adds
 * up the rows of `work` from second `first` to `last`.
 *
 * Columns: process, kernel (0: everything but kernels, in one row), name, stack, stream, bucket,
 * count, total_ns, min_ns, max_ns, delay_ns. `pid` and `device` may be NULL for all; `by` is 1 to
 * keep stacks apart and 2 to keep streams apart, which are otherwise 0. This takes a fifth of the
 * time of SQLite's GROUP BY, which sorts.
 */
#ifndef TS_WORK_TABLE_H
#define TS_WORK_TABLE_H

#include <sqlite3.h>

int work_table_register(sqlite3 *db);

#endif
