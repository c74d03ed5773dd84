/* fragment_gather.h: what fragment_table.c reads of one process, by device. */
#ifndef TS_FRAGMENT_GATHER_H
#define TS_FRAGMENT_GATHER_H

#include <sqlite3.h>

#include "core/memory/pools.h"

struct fragment_device {
	int32_t number;
	struct pools pools;
	size_t held_room, block_room;
	/* As the framework's allocator says, if pools.reports. */
	uint64_t reserved_bytes, used_bytes;
};

struct fragment_recent {
	int64_t process;
	int32_t device;
	uint8_t kind;
	uint64_t size, bytes; /* of a block, and of all such */
};

/* By a framework's allocator. */
struct fragment_said {
	int64_t process; /* 0: taken into account */
	int32_t device;
	uint64_t reserved_bytes, used_bytes;
};

struct fragment_gather {
	int64_t process; /* 0: none */
	struct fragment_device *device;
	size_t device_count, device_room;
	uint64_t *range;
	size_t range_count, range_room;
	struct fragment_recent *recent; /* of all processes */
	size_t recent_count, recent_room;
	struct fragment_said *said; /* likewise */
	size_t said_count, said_room, said_next;
	struct fragment_span *segment, *block; /* for pools_take() */
	struct fragment_size *size;
};

/* These return SQLite's result codes. `boot`, `pid` and `now` are those of the table. */
int fragment_gather_recent(struct fragment_gather *gather, sqlite3 *db,
			   sqlite3_value *const *argument);
int fragment_gather_said(struct fragment_gather *gather, sqlite3 *db,
			 sqlite3_value *const *argument);
/* A row of FRAGMENT_ROWS, of the process that is being gathered. */
int fragment_gather_row(struct fragment_gather *gather, sqlite3_stmt *row);
/* All rows of the process were there: adds what was said, and makes room for pools_take(). */
int fragment_gather_ready(struct fragment_gather *gather);
/* Half of what was allocated lately was asked for in blocks of this size or larger: in the last
 * minute, or if nothing was, of what is live. */
uint64_t fragment_gather_typical(struct fragment_gather *gather,
				 const struct fragment_device *device, enum memory_pool which,
				 const struct fragment_pool *pool);
/* The next process of which nothing is known but what its allocator says is the one that is being
 * gathered. False: there is none. */
bool fragment_gather_next(struct fragment_gather *gather);
/* For the next process. */
void fragment_gather_empty(struct fragment_gather *gather);
void fragment_gather_release(struct fragment_gather *gather);

/* In order of processes. ?4 and ?5: kinds of memory, a bit each; ?6: of pool. */
#define FRAGMENT_ASKED                                                                             \
	" AND (?2 IS NULL OR process IN (SELECT id FROM process WHERE boot = ?1 AND pid = ?2))"
#define FRAGMENT_ROWS                                                                              \
	"SELECT process, device, kind, address, bytes, start_ns, stack,"                           \
	" ?5 >> kind & 1 AND process IN (SELECT process FROM pool WHERE kind = ?6)"                \
	" AND EXISTS (SELECT 1 FROM frame AS f WHERE f.stack = allocation.stack"                   \
	" AND f.file GLOB '*/libc10*') FROM allocation WHERE ?4 >> kind & 1 AND start_ns <= "      \
	"?3" FRAGMENT_ASKED " ORDER BY process"
void fragment_gather_bind(sqlite3_stmt *rows);

#endif
