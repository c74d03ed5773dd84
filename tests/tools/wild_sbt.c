/* Wild_sbt: `wild_sbt FILE` makes a recording that no daemon would write, for the page to show: a
 * hundred thousand streams and threads, times and sizes at the edges of what a number holds, and
 * names that are markup. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/sbt/file.h"
#include "core/sbt/rows.h"

#define STREAMS	   100000
#define PROCESSES  300
#define NAMES	   300
#define STACKS	   60
#define FRAMES	   12
#define LOSSES	   1000
#define ALLOCS	   2000
#define OVERLAPS   400 /* ops that last as long as a number can say */
#define LONG_BYTES 5000
#define BEGIN_NS   UINT64_C(25920000000000000) /* after 300 days */
#define STEP_NS	   UINT64_C(10000)
#define END_NS	   (BEGIN_NS + STREAMS * STEP_NS)
#define WILD	   1 /* the process of the wild ops; the others' are as they should be */
#define TAME	   2

#define INTEGER(value)                                                                             \
	{                                                                                          \
		.type = SBT_INTEGER, .integer = (int64_t)(value)                                   \
	}
#define TEXT(value)                                                                                \
	{                                                                                          \
		.type = SBT_TEXT, .text = (value), .size = strlen(value)                           \
	}
#define TABLE(name, ...)                                                                           \
	begin(name, (const char *const[]){ __VA_ARGS__ },                                          \
	      ARRAY_SIZE(((const char *const[]){ __VA_ARGS__ })))
#define ROW(...) add((const struct sbt_value[]){ __VA_ARGS__ })

static const uint64_t edges[] = {
	0,	    1,		BEGIN_NS,      END_NS,	   INT64_MAX,
	1ull << 63, UINT64_MAX, INT64_MAX / 4, 1ull << 53, END_NS + 3600000000000
};

static struct sbt_writer *writer;
static struct sbt_codec *codec;
static struct sbt_rows *rows;
static struct {
	const char *name;
	const char *const *column;
	size_t count;
} table;

static void check(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "wild_sbt: %s\n", strerror(-r));
	exit(1);
}

static void end(void)
{
	const void *data;
	size_t size;

	check(sbt_rows_end(rows, &data, &size));
	check(sbt_writer_add(writer, SBT_BLOCK_ROWS, data, size));
}

static void begin(const char *name, const char *const *column, size_t count)
{
	table.name = name;
	table.column = column;
	table.count = count;
	check(sbt_rows_begin(rows, name, column, count));
}

static void add(const struct sbt_value *value)
{
	int r = sbt_rows_add(rows, value);

	if (r == -ENOSPC) {
		end();
		check(sbt_rows_begin(rows, table.name, table.column, table.count));
		r = sbt_rows_add(rows, value);
	}
	check(r);
}

/* Another one for each number; valid until the next call. */
static const char *name_of(size_t number)
{
	static const char *const texts[] = {
		"<script>document.title = 1</script>",
		"<img src=x onerror=document.title=1>",
		"\"><svg onload=document.title=1>",
		"NaN",
		"__proto__",
		"\xe2\x80\xaeradar",
		"</title>&lt;&#60;",
		"`${document.title = 1}`",
	};
	static char text[LONG_BYTES + 1];
	int size =
		snprintf(text, sizeof(text), "%s %zu", texts[number % ARRAY_SIZE(texts)], number);

	if (number % 50 == 7) {
		memset(text + size, 'v', sizeof(text) - 1 - (size_t)size);
		text[sizeof(text) - 1] = '\0';
	}
	return text;
}

static void write_programs(void)
{
	TABLE("recording", "key", "value");
	ROW(TEXT("until_ns"), INTEGER(END_NS));
	ROW(TEXT("told_ns"), INTEGER(END_NS));
	ROW(TEXT("wall_offset_ns"), INTEGER(INT64_MAX / 4 - 1));
	end();
	TABLE("boot", "id", "boot_id", "wall_offset_ns");
	ROW(INTEGER(1), TEXT("a100495a-ee80-4983-9bda-263703c6907b"), INTEGER(INT64_MAX));
	end();
	TABLE("process", "id", "boot", "pid", "comm", "user", "command", "first_ns", "exit_ns");
	for (size_t i = 1; i <= PROCESSES; i++)
		ROW(INTEGER(i), INTEGER(1), INTEGER(1000 + i), TEXT(name_of(i)), TEXT("<b>root"),
		    TEXT("<b>"), INTEGER(i == WILD ? 0 : BEGIN_NS),
		    INTEGER(i == WILD ? INT64_MAX : END_NS));
	end();
	TABLE("function", "id", "name", "kind", "effect");
	ROW(INTEGER(1), TEXT("<script>document.title = 1</script>"), INTEGER(OP_LAUNCH),
	    INTEGER(1));
	end();
	TABLE("name", "id", "text", "symbol", "boot", "told_ns");
	for (size_t i = 1; i <= NAMES; i++)
		ROW(INTEGER(i), TEXT(name_of(i)), TEXT("<b>"), INTEGER(1), INTEGER(BEGIN_NS));
	end();
	TABLE("device", "process", "ordinal", "uuid", "name", "memory_bytes");
	for (size_t i = 0; i < 32; i++)
		ROW(INTEGER(TAME), INTEGER(i), TEXT("<b>"), INTEGER(i + 1), INTEGER(INT64_MAX));
	end();
}

static void write_stacks(void)
{
	TABLE("stack", "id", "process");
	for (size_t i = 1; i <= STACKS; i++)
		ROW(INTEGER(i), INTEGER(TAME));
	end();
	TABLE("frame", "stack", "depth", "address", "file", "offset", "symbol");
	for (size_t i = 0; i < STACKS * FRAMES; i++)
		ROW(INTEGER(1 + i / FRAMES), INTEGER(i % FRAMES), INTEGER(4096 + i), TEXT("<b>"),
		    INTEGER(i), TEXT(name_of(i % 2 ? i : 50 * i + 7)));
	end();
}

static void write_sums(void)
{
	TABLE("loss", "boot", "second", "process", "reason", "start_ns", "end_ns", "count");
	for (size_t i = 0; i < LOSSES; i++)
		ROW(INTEGER(1), INTEGER(BEGIN_NS / 1000000000 + i), INTEGER(i % 3), INTEGER(i % 40),
		    INTEGER(i % 2 ? edges[i / 2 % ARRAY_SIZE(edges)] : BEGIN_NS),
		    INTEGER(i % 3 ? edges[i / 3 % ARRAY_SIZE(edges)] : END_NS),
		    INTEGER(i % 5 ? 1 : INT64_MAX));
	end();
	TABLE("work", "boot", "second", "process", "device", "stream", "kind", "detail", "name",
	      "graph", "stack", "bucket", "count", "total_ns", "min_ns", "max_ns");
	for (size_t i = 1; i <= NAMES; i++)
		ROW(INTEGER(1), INTEGER(BEGIN_NS / 1000000000), INTEGER(TAME), INTEGER(i % 32),
		    INTEGER(i), INTEGER(OP_KERNEL), INTEGER(0), INTEGER(i), INTEGER(0),
		    INTEGER(1 + i % STACKS), INTEGER(50), INTEGER(i), INTEGER(20000 * i),
		    INTEGER(20000), INTEGER(i % 7 ? 20000 : INT64_MAX));
	end();
	TABLE("busy", "boot", "second", "process", "device", "state", "kernels", "copies", "ns");
	for (size_t i = 0; i < 200; i++)
		ROW(INTEGER(1), INTEGER(BEGIN_NS / 1000000000), INTEGER(TAME), INTEGER(i / 6),
		    INTEGER(i % 6), INTEGER(0), INTEGER(0), INTEGER(i % 7 ? 1000000 : 1ull << 55));
	end();
	TABLE("memory", "process", "device", "kind", "live_bytes", "live_count", "peak_bytes");
	ROW(INTEGER(TAME), INTEGER(0), INTEGER(1), INTEGER(INT64_MAX), INTEGER(-1), INTEGER(5));
	end();
}

static void write_op(struct op op)
{
	const void *data;
	size_t size;

	check(sbt_encode(codec, &op, 1, &data, &size));
	check(sbt_writer_add(writer, SBT_BLOCK_OPS, data, size));
}

static struct op launch(size_t number)
{
	uint64_t start = BEGIN_NS + number * STEP_NS;

	return (struct op){
		.start_ns = start,
		.end_ns = start + 2000,
		.gpu_start_ns = start + 5000,
		.gpu_end_ns = start + 30000,
		.process = TAME,
		.stream = (uint32_t)number + 1,
		.kind = OP_LAUNCH,
		.flags = OP_RETURNED | OP_EXACT,
		.tid = (uint32_t)number + 1,
		.fn = 1,
		.device = (int16_t)(number % 32),
		.name = 1 + number % NAMES,
		.stack_id = 1 + number % STACKS,
		.correlation = number + 1,
	};
}

/* Every pair of edges as the start and end of a call, of its work, and of what it allocates. */
static void write_edges(void)
{
	for (size_t i = 0; i < ARRAY_SIZE(edges) * ARRAY_SIZE(edges) * 3; i++) {
		uint64_t start = edges[i / 3 % ARRAY_SIZE(edges)];
		uint64_t stop = edges[i / 3 / ARRAY_SIZE(edges)];
		struct op op = launch(i);

		op.process = i % 2 ? WILD : TAME;
		op.kind = i % 3 == 2 ? OP_ALLOC : OP_LAUNCH;
		op.detail = op.kind == OP_ALLOC;
		op.bytes = start;
		if (i % 3 != 1) {
			op.start_ns = start;
			op.end_ns = stop;
		}
		if (i % 3 != 0) {
			op.gpu_start_ns = start;
			op.gpu_end_ns = stop;
		}
		write_op(op);
	}
	for (size_t i = 0; i < OVERLAPS; i++) {
		struct op op = launch(0);

		op.process = WILD;
		op.start_ns = op.gpu_start_ns = 1;
		op.end_ns = op.gpu_end_ns = INT64_MAX - 1;
		write_op(op);
	}
}

static void write_ops(void)
{
	for (size_t i = 0; i < STREAMS; i++)
		write_op(launch(i));
	for (size_t i = 0; i < ALLOCS; i++) {
		struct op op = launch(i);

		op.kind = i % 5 ? OP_ALLOC : OP_FREE;
		op.detail = 1;
		op.address = 4096 * i;
		op.bytes = i % 100 ? 4096 : INT64_MAX;
		op.stack_id = 1 + i % STACKS;
		write_op(op);
	}
	write_edges();
}

static int append(void *data, const void *bytes, size_t size)
{
	return fwrite(bytes, 1, size, data) == size ? 0 : -EIO;
}

int main(int argc, char **argv)
{
	FILE *file = argc == 2 ? fopen(argv[1], "wb") : NULL;

	if (!file) {
		fprintf(stderr, "usage: wild_sbt FILE\n");
		return 2;
	}
	check(sbt_codec_new(&codec));
	check(sbt_rows_new(&rows));
	check(sbt_writer_new(append, file, &writer));
	write_programs();
	write_stacks();
	write_sums();
	write_ops();
	check(sbt_writer_end(writer));
	sbt_writer_free(writer);
	sbt_rows_free(rows);
	sbt_codec_free(codec);
	return fclose(file) == 0 ? 0 : 1;
}
