/* fragment_table.h: the table-valued function fragment(boot, pid, now, by): how fragmented the
 * pools of processes are, from their live allocations (core/memory/fragment.h and pools.h).
 *
 * Columns: process, device, pool (enum memory_pool), segments, blocks, segment_bytes, used_bytes,
 * free_bytes, empty_bytes, pieces, largest_bytes, typical_bytes, unusable_bytes, index_ppm, stack,
 * splits, split_bytes, oldest_ns, size_bytes.
 *
 * `by` is 0: a row for each pool, with the stack whose blocks split most; 1: one for each pool and
 * stack whose blocks split it; 2: one for each pool and size class, in which size_bytes, pieces and
 * free_bytes are of the class. `pid` may be NULL for all processes, also of other boots. The row of
 * MEMORY_POOL_UNKNOWN has segment_bytes and used_bytes alone: what a framework's allocator says
 * that it holds and has given out, less what the rows of its pools have.
 */
#ifndef TS_FRAGMENT_TABLE_H
#define TS_FRAGMENT_TABLE_H

#include <sqlite3.h>

int fragment_table_register(sqlite3 *db);

#endif
