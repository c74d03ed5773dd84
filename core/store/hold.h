/* hold.h: the transaction that stays open while the disk cannot be written.
 *
 * Readers that share the writer's cache (reader.c) see its contents, and it is written to the disk,
 * all at once, when the disk works again. Used by the writer's thread alone.
 */
#ifndef TS_HOLD_H
#define TS_HOLD_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/store/packer.h"
#include "core/store/queue.h"

struct hold;

/* `log_path`: of the write-ahead log, which is where it will be written. */
int hold_new(sqlite3 *db, int64_t boot, const char *log_path, struct hold **ret);
struct hold *hold_free(struct hold *hold);

/* Starts to hold, because of `error`, or starts again if everything held is gone. */
int hold_begin(struct hold *hold, int error, uint64_t now_ns);
/* There is a transaction to write into. */
bool hold_is_open(const struct hold *hold);
/* 0: the disk works; else the error for which it is held. */
int hold_error(const struct hold *hold);

/* A turn has been written into the transaction, with this many ops. */
void hold_add(struct hold *hold, const struct queue_turn *turn, uint64_t rows,
	      const struct packer_stats *stats);
/* Drops the oldest ops, as losses, if more is held than allowed. -ENOSPC: that was not enough. */
int hold_bound(struct hold *hold);
/* Tries to write what is held, unless that was tried recently, or at any time if `now_ns` is 0. 0:
 * everything is on the disk, and added to `stats`; else it is still held, or gone. */
int hold_end(struct hold *hold, uint64_t now_ns, struct packer_stats *stats);

/* What was lost with a transaction that the disk refused in the end, to be reported as loss in the
 * one that is open; once, if that reaches the disk. */
struct drops hold_take_lost(struct hold *hold);

struct hold_stats {
	int error;			    /* as above */
	uint64_t ops;			    /* held now */
	uint64_t ops_dropped, rows_dropped; /* dropped or gone, since the start */
};
void hold_stats(const struct hold *hold, struct hold_stats *ret);

#endif
