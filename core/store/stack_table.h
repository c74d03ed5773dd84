/* stack_table.h: the table-valued function stack_sum(boot, first, last, pid, device), which says
 * what the kernels below each call stack took from second `first` to `last`, estimated where stacks
 * were sampled (core/model/estimate.h).
 *
 * Columns: process, name, stack (0: what no sample was taken of), count, total_ns, and sampled, how
 * many of the count had this stack. `pid` and `device` may be NULL for all.
 */
#ifndef TS_STACK_TABLE_H
#define TS_STACK_TABLE_H

#include <sqlite3.h>

int stack_table_register(sqlite3 *db);

#endif
