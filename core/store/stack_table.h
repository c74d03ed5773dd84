/* stack_table.h: the table-valued function stack_sum(boot, first, last, pid, device): the time of
 * the kernels below each call stack from second `first` to `last`, estimated if stacks were sampled
 * (core/model/estimate.h).
 *
 * Columns: process, name, stack (0: what has no sample), count, total_ns, and sampled, how many of
 * the count had this stack. `pid` and `device` may be NULL for all.
 */
#ifndef TS_STACK_TABLE_H
#define TS_STACK_TABLE_H

#include <sqlite3.h>

int stack_table_register(sqlite3 *db);

#endif
