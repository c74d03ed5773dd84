/* sbt.h: the chunk, in which ops are stored, sent and (as .sbt files) recorded.
 *
 * A chunk holds up to SBT_OPS_MAX ops of one process, stream and kind, in columns: each column is
 * written in the smallest of several encodings (docs/sbt.md), and compressed with zstd if that
 * helps. A chunk describes itself and carries a checksum, so that it can be read from its bytes
 * alone, and damage is detected.
 */
#ifndef TS_CORE_SBT_H
#define TS_CORE_SBT_H

#include <stddef.h>
#include <stdint.h>

#include "core/model/op.h"

#define SBT_OPS_MAX 8192

/* number, identifier, field of struct op. Numbers are stored: a reader skips unknown columns, and
 * gives 0 for absent ones. */
#define SBT_COLUMNS(X)                                                                             \
	X(0, START_NS, start_ns)                                                                   \
	X(1, END_NS, end_ns)                                                                       \
	X(2, GPU_START_NS, gpu_start_ns)                                                           \
	X(3, GPU_END_NS, gpu_end_ns)                                                               \
	X(4, TID, tid)                                                                             \
	X(5, FN, fn)                                                                               \
	X(6, FLAGS, flags)                                                                         \
	X(7, DETAIL, detail)                                                                       \
	X(8, DEVICE, device)                                                                       \
	X(9, RESULT, result)                                                                       \
	X(10, ADDRESS, address)                                                                    \
	X(11, SOURCE, source)                                                                      \
	X(12, BYTES, bytes)                                                                        \
	X(13, HANDLE, handle)                                                                      \
	X(14, STACK_ID, stack_id)                                                                  \
	X(15, LIVE_BYTES, live_bytes)                                                              \
	X(16, CORRELATION, correlation)                                                            \
	X(17, GRID_X, grid[0])                                                                     \
	X(18, GRID_Y, grid[1])                                                                     \
	X(19, GRID_Z, grid[2])                                                                     \
	X(20, BLOCK_X, block[0])                                                                   \
	X(21, BLOCK_Y, block[1])                                                                   \
	X(22, BLOCK_Z, block[2])                                                                   \
	X(23, SHARED_BYTES, shared_bytes)                                                          \
	X(24, SEEN_NS, seen_ns)                                                                    \
	X(25, NAME, name)                                                                          \
	X(26, NODE, node)                                                                          \
	X(27, GRAPH, graph)                                                                        \
	X(28, STATIC_BYTES, static_bytes)                                                          \
	X(29, LOCAL_BYTES, local_bytes)                                                            \
	X(30, REGISTERS, registers)

enum sbt_column_number {
#define X(number, identifier, field) SBT_COLUMN_##identifier = number,
	SBT_COLUMNS(X)
#undef X
};

#define SBT_COLUMN_COUNT 31
#define SBT_ALL_COLUMNS	 ((1u << SBT_COLUMN_COUNT) - 1)

struct sbt_info {
	uint32_t process, stream;
	uint8_t kind;
	uint32_t count;
	uint64_t first_ns; /* smallest start_ns */
	uint64_t last_ns;  /* largest of start_ns, end_ns and gpu_end_ns */
	size_t size;	   /* of the whole chunk in bytes */
};

/* Work memory, reused from call to call; zero it first. */
struct sbt_codec;
int sbt_codec_new(struct sbt_codec **ret);
struct sbt_codec *sbt_codec_free(struct sbt_codec *codec);

/* Encodes `count` (1 to SBT_OPS_MAX) ops that share process, stream and kind, in the order given
 * (by start time, for the best compression). The result belongs to the codec and is valid until its
 * next call. */
int sbt_encode(struct sbt_codec *codec, const struct op *op, size_t count, const void **ret_data,
	       size_t *ret_size);

/* Reads only the head. -EBADMSG: not a chunk, or damaged; -ENODATA: cut off. */
int sbt_peek(const void *data, size_t size, struct sbt_info *ret);

/* The same, of a chunk that fills `size`, and compares the checksum. */
int sbt_check(const void *data, size_t size, struct sbt_info *ret);

/* Decodes the columns in `columns` (bits by number) into op[0..info.count); other fields are 0
 * except process, stream and kind. `op` has room for SBT_OPS_MAX. Checks everything: the bytes may
 * come from anywhere. */
int sbt_decode(struct sbt_codec *codec, const void *data, size_t size, uint32_t columns,
	       struct op *op, struct sbt_info *ret);

#endif
