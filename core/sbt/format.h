/* format.h: the bytes of an .sbt file, shared by writer and reader. docs/sbt.md describes them.
 * Numbers are little-endian. */
#ifndef TS_CORE_SBT_FORMAT_H
#define TS_CORE_SBT_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#include "core/sbt/file.h"

/* Not text, and damaged by any conversion of line ends or stop at a Control-Z, like PNG's. */
#define SBT_FILE_MAGIC	  "\x89SBT\r\n\x1a\n"
#define SBT_TAIL_MAGIC	  "SBTEND\r\n"
#define SBT_MAGIC_SIZE	  8
#define SBT_BLOCK_MAGIC	  0x4b4c4253 /* "SBLK" */
#define SBT_INDEX_ENTRIES 16384	     /* in an index block; then the next one starts */

struct sbt_file_head {
	uint8_t magic[SBT_MAGIC_SIZE];
	uint32_t version, zero;
	uint64_t checksum; /* XXH3_64bits of what is before it, as in the tail */
};

struct sbt_block_head {
	uint32_t magic, size; /* of the contents */
	uint64_t checksum;    /* XXH3_64bits from `offset` to the end of the contents */
	uint64_t offset;      /* of this head in the file */
	uint32_t type, zero;
};

/* An index block lists the blocks between the previous index block and itself; its contents are
 * this and a block of rows (rows.h) of the table and columns below. */
struct sbt_index_head {
	uint64_t before; /* offset of the previous index block, 0: none */
	uint64_t first;	 /* offset of the first of the blocks, or of this one */
};

struct sbt_tail {
	uint64_t index;	 /* offset of the last index block */
	uint64_t offset; /* of this tail */
	uint64_t checksum;
	uint8_t magic[SBT_MAGIC_SIZE];
};

#define SBT_FILE_HEAD  sizeof(struct sbt_file_head)
#define SBT_BLOCK_HEAD sizeof(struct sbt_block_head)
#define SBT_INDEX_HEAD sizeof(struct sbt_index_head)
#define SBT_TAIL       sizeof(struct sbt_tail)
_Static_assert(SBT_FILE_HEAD == 24 && SBT_BLOCK_HEAD == 32 && SBT_INDEX_HEAD == 16 &&
		       SBT_TAIL == 32,
	       "no holes");

/* Columns of an index; for blocks that are not ops the others are NULL. */
#define SBT_INDEX_TABLE "index"
enum {
	INDEX_TYPE,
	INDEX_SIZE,
	INDEX_PROCESS,
	INDEX_STREAM,
	INDEX_KIND,
	INDEX_OPS,
	INDEX_FIRST_NS,
	INDEX_LAST_NS,
	INDEX_COLUMNS,
};
#define SBT_INDEX_NAMES                                                                            \
	{                                                                                          \
		"type", "size", "process", "stream", "kind", "ops", "first_ns", "last_ns"          \
	}

#endif
