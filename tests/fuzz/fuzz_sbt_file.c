/* Fuzz_sbt_file: any bytes may be opened as an .sbt file, and all that is found in it read. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/sbt/file.h"
#include "core/sbt/rows.h"
#include "tests/fuzz/sbt_made.h"
#include "tests/fuzz/seed.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct sbt_codec *codec;
static struct op ops[SBT_OPS_MAX];

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct memory memory;

	if (size < 1)
		return 0;
	memory = made_of_input(data, size);
	read_file(&memory);
	free(memory.data);
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
	if (sbt_writer_new(memory_append, file, &writer) < 0)
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
