/* reader.h: connections that can only read, whatever SQL they are given. */
#ifndef TS_READER_H
#define TS_READER_H

#include <sqlite3.h>
#include <stdint.h>

/* Makes a reader of a connection whose tables are filled: adds `op` and what else a query needs,
 * and removes the permission to write. In SQL now_ns() gives `now_ns`. A critical path covers at
 * most `plan_ops` operations of a process. */
int reader_make(sqlite3 *db, uint64_t now_ns, uint32_t plan_ops);

/* From now on it sees only what is of processes that this user answers for (daemon/proc/owner.h),
 * as far as statements name no schema: views stand in front of the tables. Sums of the host that
 * are of no process stay. */
int reader_show_own(sqlite3 *db, uint32_t owner);

/* Undoes what one query has set, so that the next can use the connection. */
void reader_reset(sqlite3 *db);

#endif
