/* file.h: the .sbt file, a recording: a head, blocks, and at the end an index and a tail that
 * points to it. docs/sbt.md describes every byte.
 *
 * A block of type ops is a chunk (core/sbt/sbt.h), one of type rows is rows of a table
 * (core/sbt/rows.h). A file that was cut off is read without its index, up to the last whole block.
 * Nothing here does I/O: bytes pass through the caller's functions.
 */
#ifndef TS_CORE_SBT_FILE_H
#define TS_CORE_SBT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/sbt/sbt.h"

#define SBT_FILE_VERSION 1
#define SBT_BLOCK_MAX	 (12u << 20) /* bytes of the contents; fits a reply of the API */

/* Numbers are stored. Blocks of other types are skipped. */
enum sbt_block_type {
	SBT_BLOCK_OPS = 1,
	SBT_BLOCK_ROWS = 2,
	SBT_BLOCK_INDEX = 3, /* internal to the reader and writer, never given to the caller */
};

/* Writing, from the first byte to the last in order. */
struct sbt_writer;
/* Takes everything: 0, or a negative errno, which the writer's function returns. */
typedef int sbt_write_fn(void *data, const void *bytes, size_t size);

int sbt_writer_new(sbt_write_fn *write, void *data, struct sbt_writer **ret);
struct sbt_writer *sbt_writer_free(struct sbt_writer *writer);
/* A chunk, or the result of sbt_rows_end(). -EBADMSG: ops that are not a chunk, an unknown type, or
 * too large; nothing was written. */
int sbt_writer_add(struct sbt_writer *writer, enum sbt_block_type type, const void *data,
		   size_t size);
/* Index and tail; nothing may be added after them. */
int sbt_writer_end(struct sbt_writer *writer);
uint64_t sbt_writer_size(const struct sbt_writer *writer); /* bytes written */

/* Reading. */
struct sbt_source {
	/* All of [offset, offset + size), which is within `size`; 0 or a negative errno. */
	int (*read)(void *data, uint64_t offset, void *bytes, size_t size);
	void *data;
	uint64_t size; /* of the file */
};

struct sbt_block {
	uint64_t offset; /* in the file */
	uint32_t size;	 /* of the contents */
	enum sbt_block_type type;
	struct sbt_info info; /* of ops */
};

enum sbt_state {
	SBT_WHOLE = 1, /* it has its end and an index */
	SBT_CUT,       /* it has no end: its writer was stopped, or is still writing */
	SBT_DAMAGED,   /* what follows the last whole block cannot be read */
};

enum { SBT_READER_END = 1 };

struct sbt_reader;

/* -EBADMSG: not an .sbt file; -ENODATA: it ends within its head; -EPROTO: a later version. */
int sbt_reader_new(const struct sbt_source *source, struct sbt_reader **ret);
struct sbt_reader *sbt_reader_free(struct sbt_reader *reader);
/* The next block, in the order of the file. SBT_READER_END: there is none, or none that is whole.
 * Damage is a state of the file; only a failing source or lack of memory is an error. */
int sbt_reader_next(struct sbt_reader *reader, struct sbt_block *ret);
void sbt_reader_rewind(struct sbt_reader *reader);
/* Without an index it is known at the end of the blocks, and SBT_CUT until then. */
enum sbt_state sbt_reader_state(const struct sbt_reader *reader);
/* The end of the last whole block that was seen, and with an index the end of the file. */
uint64_t sbt_reader_position(const struct sbt_reader *reader);
/* The contents of a block (its info is not checked); valid until the next call of the reader.
 * Blocks can be requested in any order. -EBADMSG: damaged, or not this block. */
int sbt_reader_get(struct sbt_reader *reader, const struct sbt_block *block, const void **ret_data);

CLEANUP_DEFINE(struct sbt_writer, sbt_writer_free)
CLEANUP_DEFINE(struct sbt_reader, sbt_reader_free)

#endif
