/* Batch: two lists of blocks, ops and rows, both in order of arrival. No block in a list is
 * empty. */
#include "core/store/batch.h"

#include <stdlib.h>
#include <string.h>

#define RECORD_BLOCK_SIZE 16384

void batch_clear(struct batch *batch)
{
	for (struct op_block *block; (block = batch->first_ops);) {
		batch->first_ops = block->next;
		free(block);
	}
	for (struct record_block *block; (block = batch->first_records);) {
		batch->first_records = block->next;
		free(block);
	}
	*batch = (struct batch){ 0 };
}

bool batch_empty(const struct batch *batch)
{
	return !batch->first_ops && !batch->first_records;
}

struct op_block *batch_add_block(struct batch *batch, uint32_t user)
{
	struct op_block *block = malloc(sizeof(*block));

	if (!block)
		return NULL;
	block->next = NULL;
	block->user = user;
	block->count = 0;
	if (batch->last_ops)
		batch->last_ops->next = block;
	else
		batch->first_ops = block;
	batch->last_ops = block;
	batch->op_blocks++;
	return block;
}

static struct record_block *add_record_block(struct batch *batch, size_t least)
{
	size_t size = least > RECORD_BLOCK_SIZE ? least : RECORD_BLOCK_SIZE;
	struct record_block *block = malloc(sizeof(*block) + size);

	if (!block)
		return NULL;
	*block = (struct record_block){ .size = size };
	if (batch->last_records)
		batch->last_records->next = block;
	else
		batch->first_records = block;
	batch->last_records = block;
	return block;
}

size_t batch_record_bytes(const struct record *record)
{
	return sizeof(*record) + record->size;
}

void *batch_add_record(struct batch *batch, uint32_t user, uint32_t type, size_t size)
{
	struct record_block *block = batch->last_records;
	struct record *record;
	size_t whole;

	size = (size + 7) & ~(size_t)7;
	whole = sizeof(*record) + size;
	if (!block || block->size - block->used < whole)
		block = add_record_block(batch, whole);
	if (!block)
		return NULL;
	record = (struct record *)((char *)block->data + block->used);
	record->type = type;
	record->size = (uint32_t)size;
	record->user = user;
	record->reserved = 0;
	memset(record->data, 0, size);
	block->used += whole;
	batch->record_bytes += whole;
	return record->data;
}

struct op_block *batch_take_block(struct batch *batch, uint32_t user)
{
	struct op_block **link = &batch->first_ops, *before = NULL, *block;

	while (*link && (*link)->user != user) {
		before = *link;
		link = &before->next;
	}
	block = *link;
	if (!block)
		return NULL;
	*link = block->next;
	if (batch->last_ops == block)
		batch->last_ops = before;
	batch->op_blocks--;
	return block;
}

void batch_append(struct batch *to, struct batch *from)
{
	struct batch both = *from;

	*from = *to;
	batch_prepend(&both, from);
	*to = both;
}

void batch_prepend(struct batch *to, struct batch *from)
{
	if (from->last_ops) {
		from->last_ops->next = to->first_ops;
		to->first_ops = from->first_ops;
		to->last_ops = to->last_ops ? to->last_ops : from->last_ops;
	}
	if (from->last_records) {
		from->last_records->next = to->first_records;
		to->first_records = from->first_records;
		to->last_records = to->last_records ? to->last_records : from->last_records;
	}
	to->op_blocks += from->op_blocks;
	to->record_bytes += from->record_bytes;
	*from = (struct batch){ 0 };
}

void batch_split(struct batch *from, uint32_t max_blocks, struct batch *to)
{
	struct op_block *last = from->first_ops;

	if (from->op_blocks <= max_blocks) {
		*to = *from;
		*from = (struct batch){ 0 };
		return;
	}
	for (uint32_t i = 1; i < max_blocks; i++)
		last = last->next;
	*to = *from;
	to->last_ops = last;
	to->op_blocks = max_blocks;
	*from = (struct batch){
		.first_ops = last->next,
		.last_ops = from->last_ops,
		.op_blocks = from->op_blocks - max_blocks,
	};
	last->next = NULL;
}

const struct record *batch_next_record(const struct batch *batch, struct record_cursor *cursor)
{
	const struct record *record;

	if (!cursor->block)
		cursor->block = batch->first_records;
	if (!cursor->block)
		return NULL;
	if (cursor->offset == cursor->block->used) {
		if (!cursor->block->next)
			return NULL;
		cursor->block = cursor->block->next;
		cursor->offset = 0;
	}
	record = (const struct record *)((const char *)cursor->block->data + cursor->offset);
	cursor->offset += sizeof(*record) + record->size;
	return record;
}
