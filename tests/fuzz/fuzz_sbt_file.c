/* Fuzz_sbt_file: any bytes may be opened as an .sbt file, and all that is found in it read.
 * The first byte of an input says what is done with the rest: it is the file; or it is one once its
 * places and checksums are put right, so that what is behind them is reached, those of its chunks
 * too; with 2 it also gets a tail that makes its last block the index. */
#include <endian.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/sbt/file.h"
#include "core/sbt/format.h"
#include "core/sbt/rows.h"
#include "tests/fuzz/seed.h"

#define CHUNK_HEAD 52

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sbt_codec *codec;
static struct op ops[SBT_OPS_MAX];

struct memory {
	uint8_t *data;
	size_t size;
};

static int read_memory(void *data, uint64_t offset, void *bytes, size_t size)
{
	struct memory *memory = data;

	if (offset > memory->size || size > memory->size - offset)
		abort(); /* the reader promises not to ask for it */
	memcpy(bytes, memory->data + offset, size);
	return 0;
}

static void read_contents(const struct sbt_block *block, const void *data)
{
	struct sbt_info info;
	struct sbt_view *view;

	if (block->type == SBT_BLOCK_OPS) {
		sbt_decode(codec, data, block->size, SBT_ALL_COLUMNS, ops, &info);
	} else if (sbt_view_new(data, block->size, &view) == 0) {
		while (sbt_view_next(view))
			;
		sbt_view_free(view);
	}
}

static void read_file(struct memory *memory)
{
	struct sbt_source source = { read_memory, memory, memory->size };
	struct sbt_reader *reader;
	struct sbt_block block;
	const void *data;
	uint64_t last = 0;

	if (sbt_reader_new(&source, &reader) < 0)
		return;
	while (sbt_reader_next(reader, &block) == 0) {
		if (block.offset < last)
			abort(); /* they come in the order of the file */
		last = block.offset + 1;
		if (sbt_reader_get(reader, &block, &data) == 0)
			read_contents(&block, data);
	}
	sbt_reader_free(reader);
}

static void repair_chunk(uint8_t *chunk, size_t size)
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
static size_t repair_block(uint8_t *file, size_t offset, size_t size)
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

static void repair_head(uint8_t *file)
{
	struct sbt_file_head head = { .version = htole32(SBT_FILE_VERSION) };

	memcpy(head.magic, SBT_FILE_MAGIC, SBT_MAGIC_SIZE);
	head.checksum = htole64(XXH3_64bits(&head, 16));
	memcpy(file, &head, sizeof(head));
}

static void repair(struct memory *memory, int tail)
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory memory;
	int action;

	if (size < 1)
		return 0;
	action = data[0] % 3;
	memory.size = size - 1;
	memory.data = malloc(size);
	memcpy(memory.data, data + 1, memory.size);
	if (action && memory.size >= SBT_FILE_HEAD + SBT_TAIL)
		repair(&memory, action == 2);
	read_file(&memory);
	free(memory.data);
	return 0;
}

static int append(void *data, const void *bytes, size_t size)
{
	struct memory *memory = data;

	memory->data = realloc(memory->data, memory->size + size);
	if (!memory->data)
		abort();
	memcpy(memory->data + memory->size, bytes, size);
	memory->size += size;
	return 0;
}

static void add_rows(struct sbt_writer *writer)
{
	static const char *const names[] = { "key", "value" };
	struct sbt_value value[] = { { SBT_TEXT, 0, "host", 4 }, { .type = SBT_INTEGER } };
	struct sbt_rows *rows;
	const void *data;
	size_t size;

	if (sbt_rows_new(&rows) < 0 || sbt_rows_begin(rows, "recording", names, 2) < 0)
		abort();
	for (int i = 0; i < 3; i++)
		sbt_rows_add(rows, value);
	sbt_rows_end(rows, &data, &size);
	sbt_writer_add(writer, SBT_BLOCK_ROWS, data, size);
	sbt_rows_free(rows);
}

static void make_file(struct memory *file, size_t count)
{
	struct sbt_writer *writer;
	const void *data;
	size_t size;

	for (size_t i = 0; i < count; i++) {
		ops[i] = (struct op){ .start_ns = 1000 + i * 7, .tid = 5, .kind = 1 };
		ops[i].gpu_start_ns = ops[i].start_ns + i % 3;
		ops[i].handle = i % 5 * 4096;
		ops[i].name = ops[i].handle * 3;
	}
	if (sbt_writer_new(append, file, &writer) < 0)
		abort();
	add_rows(writer);
	sbt_encode(codec, ops, count, &data, &size);
	sbt_writer_add(writer, SBT_BLOCK_OPS, data, size);
	sbt_writer_add(writer, SBT_BLOCK_OPS, data, size);
	sbt_writer_end(writer);
	sbt_writer_free(writer);
}

/* Real files, whole and cut off. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *directory = getenv("TS_FUZZ_SEEDS");

	if (sbt_codec_new(&codec) < 0)
		abort();
	for (unsigned int i = 0; directory && i < 9; i++) {
		struct memory file = { 0 };

		make_file(&file, i < 3 ? 2 : 40 * i);
		write_seed(directory, i, (uint8_t)(i % 3), file.data,
			   file.size - (i == 4 ? 40 : 0));
		free(file.data);
	}
	return 0;
}
