/* limits.h: every limit of the store and its queries, with its reason. The daemon's are in
 * daemon/limits.h. */
#ifndef TS_CORE_LIMITS_H
#define TS_CORE_LIMITS_H

/* A symbol's name, as long as anybody would read. */
#define LIMIT_SYMBOL_NAME 1024

/* Ops waiting for the writer; beyond that the oldest of the user who has most are dropped and
 * counted. 184 bytes each. */
#define LIMIT_STORE_OPS 524288
/* Rows of other tables waiting for the writer, in bytes. One user has half of it at most. */
#define LIMIT_STORE_ROW_BYTES (128 << 20)
/* Pages held in memory while the disk cannot be written: hours of sums, and millions of ops, which
 * are dropped first. */
#define LIMIT_STORE_HELD_BYTES (96 << 20)
/* Names of kernels and ranges in the database, by the user who told them, usually 200 bytes and at
 * most 5 KiB. PyTorch has ten thousand kernels, of which a program uses a few hundred. */
#define LIMIT_STORE_NAMES 65536
/* Autopsies (core/model/oom.h) in the database, 25 KiB each at most. */
#define LIMIT_STORE_OOMS 256
/* One of these names in readable form: nested templates have long names, which differ at their
 * ends. */
#define LIMIT_STORE_NAME 4096
/* The size of the write-ahead log, kept alive by a long query, at which the writer insists. */
#define LIMIT_STORE_WAL_BYTES (64 << 20)

/* A database without checksums of 2 GiB is written anew in ten seconds or two, at a daemon's start.
 */
#define LIMIT_STORE_REWRITTEN_PAGES (1 << 19)

/* Time and rows of one query, and the longest value that a user's SQL may make: longer than any
 * chunk, so that `op` can be read. */
#define LIMIT_QUERY_MS	  30000
#define LIMIT_QUERY_ROWS  1000000
#define LIMIT_QUERY_VALUE (8 << 20)
/* What the process of one query may have: address space, where a plan of LIMIT_PLAN_OPS takes 100
 * MB and the program itself 30, and temporary files, which a sort of a million long rows fills. */
#define LIMIT_QUERY_MEMORY  (256 << 20)
#define LIMIT_QUERY_SCRATCH (256 << 20)
/* What a fleet's server may answer to one statement. */
#define LIMIT_FLEET_ANSWER (256 << 20)
/* Processes in one trace of a fleet: each is asked for on its own. */
#define LIMIT_FLEET_RANKS 4096
/* Processes selected one by one for a recording. */
#define LIMIT_RECORD_PIDS 4096
/* Rows of sums that a query over exact times makes in memory, of 72 bytes plus at most 72 to find
 * them. */
#define LIMIT_QUERY_SUMS 524288
/* Devices of one process that a query tells apart. */
#define LIMIT_QUERY_DEVICES 256
/* Ops of one process in a plan, half a kilobyte each while it exists: 100 MB in each concurrent
 * query. A reader of recordings has a limit of its own. */
#define LIMIT_PLAN_OPS 200000
/* Allocations, frees, copies and sets of one process that are looked at for waste: 72 bytes each
 * while that lasts, and up to 110 for host memory that is copied. */
#define LIMIT_WASTE_OPS 524288

#endif
