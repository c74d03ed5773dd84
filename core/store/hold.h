/* hold.h: the transaction that stays open while the disk takes nothing.
 *
 * What is written into it is seen by readers that share the writer's cache (reader.c), and is
 * written to the disk, all at once, when the disk takes it again. Used by the writer's thread
 * alone.
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

/* Begins to hold, because of `error`, or begins anew where all that was held is gone. */
int hold_begin(struct hold *hold, int error, uint64_t now_ns);
/* There is a transaction to write into. */
bool hold_is_open(const struct hold *hold);
/* 0: the disk takes what comes; else the error for which it is held. */
int hold_error(const struct hold *hold);

/* A turn has been written into the transaction, with so many ops. */
void hold_add(struct hold *hold, const struct queue_turn *turn, uint64_t rows,
	      const struct packer_stats *stats);
/* Lets the oldest ops go, as losses, where more is held than may be. -ENOSPC: that was not enough.
 */
int hold_bound(struct hold *hold);
/* Tries to write what is held, if that was not tried lately, or at any time where `now_ns` is 0. 0:
 * all is on the disk, and added to `stats`; else it is held still, or gone. */
int hold_end(struct hold *hold, uint64_t now_ns, struct packer_stats *stats);

/* What went with a transaction that the disk refused at last, to be told as loss in the one that is
 * open; once, if that reaches the disk. */
struct queue_drops hold_take_lost(struct hold *hold);

struct hold_stats {
	int error;			    /* as above */
	uint64_t ops;			    /* held now */
	uint64_t ops_dropped, rows_dropped; /* let go or gone, since the start */
};
void hold_stats(const struct hold *hold, struct hold_stats *ret);

#endif
