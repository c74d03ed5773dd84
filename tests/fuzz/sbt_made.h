/* sbt_made.h: .sbt files for fuzzers. Places and checksums of any bytes are put right, so that what
 * is behind them is reached. */
#ifndef TS_TESTS_FUZZ_SBT_MADE_H
#define TS_TESTS_FUZZ_SBT_MADE_H

#include <endian.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/sbt/file.h"
#include "core/sbt/format.h"
#include "core/sbt/rows.h"

#define CHUNK_HEAD 52

struct memory {
	uint8_t *data;
	size_t size;
};

/* A sbt_write_fn. */
static inline int memory_append(void *data, const void *bytes, size_t size)
{
	struct memory *memory = data;

	memory->data = realloc(memory->data, memory->size + size);
	if (!memory->data)
		abort();
	memcpy(memory->data + memory->size, bytes, size);
	memory->size += size;
	return 0;
}

static inline void repair_chunk(uint8_t *chunk, size_t size)
{
	uint32_t length = htole32((uint32_t)size), body = htole32((uint32_t)size - CHUNK_HEAD);
	uint64_t checksum;

	if (size < CHUNK_HEAD)
		return;
	memcpy(chunk, "SBT\1", 4);
	memcpy(chunk + 4, &length, 4);
	if (!(chunk[49] & 1))
		memcpy(chunk + 44, &body, 4);
	checksum = htole64(XXH3_64bits(chunk + 16, size - 16));
	memcpy(chunk + 8, &checksum, 8);
}

/* A block that ends within the file, at least; returns where it ends. */
static inline size_t repair_block(uint8_t *file, size_t offset, size_t size)
{
	struct sbt_block_head head;
	uint64_t checksum;
	size_t left = size - offset - sizeof(head);

	memcpy(&head, file + offset, sizeof(head));
	head.magic = htole32(SBT_BLOCK_MAGIC);
	head.offset = htole64(offset);
	head.zero = 0;
	if (le32toh(head.size) > left)
		head.size = htole32((uint32_t)left);
	left = le32toh(head.size);
	memcpy(file + offset, &head, sizeof(head));
	if (le32toh(head.type) == SBT_BLOCK_OPS)
		repair_chunk(file + offset + sizeof(head), left);
	checksum = htole64(XXH3_64bits(file + offset + 16, 16 + left));
	memcpy(file + offset + 8, &checksum, 8);
	return offset + sizeof(head) + left;
}

static inline void repair_head(uint8_t *file)
{
	struct sbt_file_head head = { .version = htole32(SBT_FILE_VERSION) };

	memcpy(head.magic, SBT_FILE_MAGIC, SBT_MAGIC_SIZE);
	head.checksum = htole64(XXH3_64bits(&head, 16));
	memcpy(file, &head, sizeof(head));
}

static inline void repair(struct memory *memory, int tail)
{
	size_t end = memory->size - (tail ? SBT_TAIL : 0), offset = SBT_FILE_HEAD, last = 0;
	struct sbt_tail t = { 0 };

	repair_head(memory->data);
	while (end - offset >= SBT_BLOCK_HEAD) {
		last = offset;
		offset = repair_block(memory->data, offset, end);
	}
	if (!tail)
		return;
	memory->size = offset + SBT_TAIL;
	t.index = htole64(last);
	t.offset = htole64(offset);
	t.checksum = htole64(XXH3_64bits(&t, 16));
	memcpy(t.magic, SBT_TAIL_MAGIC, SBT_MAGIC_SIZE);
	memcpy(memory->data + offset, &t, sizeof(t));
}

/* An input: the first byte says what is done with the rest: it is the file; or it is one once it is
 * repaired; with 2 it also gets a tail that makes its last block the index. To be freed. */
static inline struct memory made_of_input(const uint8_t *data, size_t size)
{
	struct memory memory = { .data = malloc(size), .size = size - 1 };
	int action = data[0] % 3;

	if (!memory.data)
		abort();
	memcpy(memory.data, data + 1, memory.size);
	if (action && memory.size >= SBT_FILE_HEAD + SBT_TAIL)
		repair(&memory, action == 2);
	return memory;
}

#endif
