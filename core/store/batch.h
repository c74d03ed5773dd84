/* batch.h: ops and rows on their way to the writer.
 */
#ifndef TS_BATCH_H
#define TS_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/model/op.h"

#define BATCH_BLOCK_OPS 512

struct op_block {
	struct op_block *next;
	uint32_t user; /* whose ops they are */
	uint32_t count;
	struct op op[BATCH_BLOCK_OPS];
};

/* A row as given by the loop: `type` says what `data` is (record.h). */
struct record {
	uint32_t type;
	uint32_t size; /* of the data, a multiple of 8 */
	uint32_t user; /* whose row it is */
	uint32_t reserved;
	uint64_t data[];
};

struct record_block {
	struct record_block *next;
	size_t used, size;
	uint64_t data[];
};

struct batch {
	struct op_block *first_ops, *last_ops;
	struct record_block *first_records, *last_records;
	uint32_t op_blocks;
	size_t record_bytes;
};

void batch_clear(struct batch *batch);
bool batch_empty(const struct batch *batch);

/* An empty block at the end, which must not stay empty; NULL without memory. */
struct op_block *batch_add_block(struct batch *batch, uint32_t user);
/* Room for one more op, NULL: the block is full. */
static inline struct op *op_block_add(struct op_block *block)
{
	return block->count < BATCH_BLOCK_OPS ? &block->op[block->count++] : NULL;
}
/* Room for a row, zeroed, or NULL without memory. */
void *batch_add_record(struct batch *batch, uint32_t user, uint32_t type, size_t size);
/* The bytes that it takes in the batch. */
size_t batch_record_bytes(const struct record *record);

/* Takes the oldest block of the user out, NULL if there is none; the caller frees it. */
struct op_block *batch_take_block(struct batch *batch, uint32_t user);
/* Moves the contents of `from` after, or before, those of `to`. */
void batch_append(struct batch *to, struct batch *from);
void batch_prepend(struct batch *to, struct batch *from);
/* Moves all rows and the oldest blocks, at most `max_blocks`. */
void batch_split(struct batch *from, uint32_t max_blocks, struct batch *to);

/* The first record (before: NULL) or the next one; NULL at the end. */
struct record_cursor {
	const struct record_block *block;
	size_t offset;
};
const struct record *batch_next_record(const struct batch *batch, struct record_cursor *cursor);

#endif
