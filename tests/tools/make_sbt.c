/* Make_sbt: `make_sbt make FILE` makes a recording with every encoding in it, `make_sbt dump FILE`
 * prints what our reader finds in one, as tests/tools/sbt_read.py does. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sbt/file.h"
#include "core/sbt/rows.h"

static struct op ops[SBT_OPS_MAX];
static uint64_t seed = 88172645463325252u;

static void check(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "make_sbt: %s\n", strerror(-r));
	exit(1);
}

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static int append(void *data, const void *bytes, size_t size)
{
	return fwrite(bytes, 1, size, data) == size ? 0 : -EIO;
}

/* Busy: the device is behind the calls, and each starts when the one before has ended. */
static void make_ops(size_t count, uint32_t process, bool busy)
{
	uint64_t now = 123456789012345, end = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t kernel = next() % 60, step = i % 97;
		struct op *op = &ops[i];

		now += 2000 + next() % 3000;
		*op = (struct op){
			.start_ns = now,
			.end_ns = now + 1000 + next() % 900,
			.process = process,
			.stream = 9,
			.kind = OP_LAUNCH,
			.tid = (uint32_t)next(),
			.device = (int16_t)(next() % 50 ? 0 : DEVICE_UNKNOWN),
			.result = -(int32_t)(next() % 70 == 0),
			.address = i == 5 ? UINT64_MAX : i % 2,
			.bytes = (step * 0x9e3779b97f4a7c15) >> 40,
			.handle = 0x7f0000000000 + kernel * 64,
			.name = kernel * 0x9e3779b97f4a7c15,
			.stack_id = step * 0x9e3779b97f4a7c15,
			.correlation = i + next() % 9,
			.grid = { (uint32_t)(next() % 1000), 1, (uint32_t)(1 + step % 2) },
			.registers = 32 + (uint32_t)kernel % 4 * 8,
		};
		op->gpu_start_ns = busy && end > now ? end + 500 : now - 100 * (i % 9 == 0);
		op->gpu_end_ns = end = op->gpu_start_ns + 3000 + next() % 1000;
		op->seen_ns = i % 5 ? (busy ? end : op->end_ns) + 700 + next() % 30 : 0;
		if (!busy && i % 11)
			op->gpu_end_ns = now + 100;
	}
}

static void add_rows(struct sbt_writer *writer, size_t count)
{
	static const char *const names[] = { "id", "text", "mixed", "nothing", "time_ns" };
	struct sbt_rows *rows;
	const void *data;
	size_t size;

	check(sbt_rows_new(&rows));
	check(sbt_rows_begin(rows, "name", names, 5));
	for (size_t i = 0; i < count; i++) {
		char text[64];
		struct sbt_value value[5] = {
			{ .type = SBT_INTEGER, .integer = (int64_t)(next() - next()) },
			{ .type = SBT_TEXT, .text = text },
			{ .type = (enum sbt_value_type)(i % 3), .integer = -5, .text = "a \"b\"" },
			{ .type = SBT_NULL },
			{ .type = SBT_INTEGER, .integer = (int64_t)(1000000 * i) },
		};

		value[1].size = (size_t)snprintf(text, sizeof(text), "k\xc3\xa9rnel_%" PRIu64 "<>",
						 next() % 40);
		value[2].size = 5;
		check(sbt_rows_add(rows, value));
	}
	check(sbt_rows_end(rows, &data, &size));
	check(sbt_writer_add(writer, SBT_BLOCK_ROWS, data, size));
	sbt_rows_free(rows);
}

static int make(FILE *file)
{
	static const size_t counts[] = { 1, 9, 129, 2500 };
	struct sbt_writer *writer;
	struct sbt_codec *codec;
	const void *data;
	size_t size;

	check(sbt_codec_new(&codec));
	check(sbt_writer_new(append, file, &writer));
	for (uint32_t i = 0; i < 8; i++) {
		add_rows(writer, counts[i % 4] / 3);
		make_ops(counts[i % 4], i, i / 4);
		check(sbt_encode(codec, ops, counts[i % 4], &data, &size));
		check(sbt_writer_add(writer, SBT_BLOCK_OPS, data, size));
	}
	check(sbt_writer_end(writer));
	sbt_writer_free(writer);
	sbt_codec_free(codec);
	return 0;
}

static void dump_op(const struct op *op)
{
	const char *between = "[";

#define X(number, identifier, name)                                                                \
	printf(_Generic(op->name, int16_t                                                          \
			: "%s%" PRId64, int32_t                                                    \
			: "%s%" PRId64, default                                                    \
			: "%s%" PRIu64),                                                           \
	       between, (uint64_t)op->name);                                                       \
	between = ", ";
	SBT_COLUMNS(X)
#undef X
	puts("]");
}

static void dump_ops(struct sbt_codec *codec, const void *data, size_t size)
{
	struct sbt_info info;

	check(sbt_decode(codec, data, size, SBT_ALL_COLUMNS, ops, &info));
	printf("[\"ops\", %" PRIu32 ", %" PRIu32 ", %u]\n", info.process, info.stream, info.kind);
	for (uint32_t i = 0; i < info.count; i++)
		dump_op(&ops[i]);
}

static void dump_text(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

static void dump_value(const struct sbt_value *value)
{
	if (value->type == SBT_TEXT)
		dump_text(value->text);
	else if (value->type == SBT_INTEGER)
		printf("%" PRId64, value->integer);
	else
		printf("null");
}

static void dump_rows(const void *data, size_t size)
{
	const struct sbt_value *value;
	struct sbt_view *view;

	check(sbt_view_new(data, size, &view));
	printf("[\"rows\", \"%s\", [", sbt_view_table(view));
	for (size_t i = 0; i < sbt_view_column_count(view); i++)
		printf("%s\"%s\"", i ? ", " : "", sbt_view_column(view, i));
	puts("]]");
	while ((value = sbt_view_next(view))) {
		for (size_t i = 0; i < sbt_view_column_count(view); i++) {
			printf(i ? ", " : "[");
			dump_value(&value[i]);
		}
		puts("]");
	}
	sbt_view_free(view);
}

static int read_bytes(void *data, uint64_t offset, void *bytes, size_t size)
{
	if (fseek(data, (long)offset, SEEK_SET) < 0)
		return -errno;
	return fread(bytes, 1, size, data) == size ? 0 : -EIO;
}

static int dump(FILE *file)
{
	static const char *const states[] = { NULL, "whole", "cut", "damaged" };
	struct sbt_source source = { .read = read_bytes, .data = file };
	struct sbt_reader *reader;
	struct sbt_block block;
	struct sbt_codec *codec;
	const void *data;

	fseek(file, 0, SEEK_END);
	source.size = (uint64_t)ftell(file);
	check(sbt_codec_new(&codec));
	check(sbt_reader_new(&source, &reader));
	while (sbt_reader_next(reader, &block) == 0) {
		check(sbt_reader_get(reader, &block, &data));
		if (block.type == SBT_BLOCK_OPS)
			dump_ops(codec, data, block.size);
		else
			dump_rows(data, block.size);
	}
	printf("[\"%s\"]\n", states[sbt_reader_state(reader)]);
	sbt_reader_free(reader);
	sbt_codec_free(codec);
	return 0;
}

int main(int argc, char **argv)
{
	bool makes = argc == 3 && strcmp(argv[1], "make") == 0;
	FILE *file = argc == 3 ? fopen(argv[2], makes ? "wb" : "rb") : NULL;
	int r;

	if (!file) {
		fprintf(stderr, "usage: make_sbt make|dump FILE\n");
		return 2;
	}
	r = makes ? make(file) : dump(file);
	return fclose(file) == 0 ? r : 1;
}
