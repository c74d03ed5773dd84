/* limits.h: every bound of the store and its queries, with its reason. The daemon's are in
 * daemon/limits.h. */
#ifndef TS_CORE_LIMITS_H
#define TS_CORE_LIMITS_H

/* A symbol's name, as long as anybody would read. */
#define LIMIT_SYMBOL_NAME 1024

/* Ops that wait for the writer; beyond it the oldest are dropped and counted. 184 bytes each. */
#define LIMIT_STORE_OPS 524288
/* Rows of other tables that wait for the writer, in bytes. */
#define LIMIT_STORE_ROW_BYTES (64 << 20)
/* Pages that are held in memory while the disk takes nothing: hours of sums, and of ops, which are
 * let go first, some millions. */
#define LIMIT_STORE_HELD_BYTES (96 << 20)
/* Names of kernels and ranges in the database, of some 200 bytes mostly and 5 KiB at the most.
 * PyTorch has ten thousand kernels, of which a program uses some hundred. */
#define LIMIT_STORE_NAMES 65536
/* One of them as a person reads it: kernels that are templates of templates have long ones, which
 * differ at their ends. */
#define LIMIT_STORE_NAME 4096
/* The write-ahead log that a long query may keep alive before the writer insists. */
#define LIMIT_STORE_WAL_BYTES (64 << 20)

/* Time and rows of one query, and the longest value that SQL of a user's own may make: longer than
 * any chunk, so that `op` can be read. */
#define LIMIT_QUERY_MS	  30000
#define LIMIT_QUERY_ROWS  1000000
#define LIMIT_QUERY_VALUE (8 << 20)
/* Processes of one recording that are named one by one. */
#define LIMIT_RECORD_PIDS 4096
/* Sums that a query over exact times makes in memory, of 72 bytes and 16 to find them. */
#define LIMIT_QUERY_SUMS 524288
/* Ops of one process of which a plan is made, of half a kilobyte each while that lasts: 100 MB in
 * each of the queries that run at one time. Who reads a recording has a bound of his own. */
#define LIMIT_PLAN_OPS 200000

#endif
