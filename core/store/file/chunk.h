/* chunk.h: the chunks of a recording as the view `chunk`. A table says where they are and what they
 * hold; their data is read from the file when a statement asks for it. */
#ifndef TS_FILE_CHUNK_H
#define TS_FILE_CHUNK_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/sbt/file.h"

struct file_chunks;

/* In a database with the tables of a store. The reader and this object live as long as the
 * database, and are freed right before it is closed. */
int file_chunks_new(sqlite3 *db, struct sbt_reader *reader, struct file_chunks **ret);
struct file_chunks *file_chunks_free(struct file_chunks *chunks);

int file_chunks_add(struct file_chunks *chunks, const struct sbt_block *block);
/* Creates the view; all chunks are of this boot. */
int file_chunks_end(struct file_chunks *chunks, int64_t boot);

/* Damage that statements have found since the last call. */
struct file_damage {
	uint64_t offset; /* of the first one */
	uint64_t chunks, ops;
};
bool file_chunks_damaged(const struct file_chunks *chunks);
/* Moves it from the chunks to the losses, which needs write access. */
int file_chunks_lose(struct file_chunks *chunks, int64_t boot, struct file_damage *ret);

CLEANUP_DEFINE(struct file_chunks, file_chunks_free)

#endif
