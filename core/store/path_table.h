/* path_table.h: the table-valued function critical_path(boot, since, until, pid): the critical path
 * (core/plan/critical.h) of each process in a window of time.
 *
 * Columns: process, what (kernel, copy, set, graph, work: it ran; call: it was in progress; host:
 * the thread did something else before the call; latency: from what the work waited for to its
 * start; wake-up: from what the call waited for to its return), kind, detail, fn, name, stack,
 * count, ns, idle_ns (the part in which no device of the process ran anything). `pid` may be NULL
 * for all. A window with more than `plan_ops` operations of a process is refused with SQLITE_FULL
 * and a sentence.
 */
#ifndef TS_PATH_TABLE_H
#define TS_PATH_TABLE_H

#include <sqlite3.h>
#include <stdint.h>

int path_table_register(sqlite3 *db, uint32_t plan_ops);

#endif
