/* packer.h: from ops in any order to chunks in the database. */
#ifndef TS_PACKER_H
#define TS_PACKER_H

#include <sqlite3.h>
#include <stdint.h>

#include "core/sbt/sbt.h"
#include "core/store/batch.h"

struct packer;

struct packer_stats {
	uint64_t ops, chunks, bytes;
};

/* Where chunks belong, and the numbers of the commits that brought their ops (docs/tables.md). */
struct packer_place {
	int64_t boot, batch, first_batch;
};

/* The codec is borrowed, and used in packer_write only. */
int packer_new(sqlite3 *db, struct sbt_codec *codec, struct packer **ret);
struct packer *packer_free(struct packer *packer);

/* Writes the ops as chunks of one process, stream and kind each, in order of start_ns, and adds to
 * `stats`. Inside the caller's transaction. */
int packer_write(struct packer *packer, const struct packer_place *place,
		 const struct op_block *blocks, struct packer_stats *stats);

#endif
