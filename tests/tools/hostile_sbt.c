/* Hostile_sbt: `hostile_sbt FILE SEED OUT` reads a recording, changes a few things in it as the
 * seed says, and writes it anew with right checksums: what an .sbt file can say, but no daemon
 * would. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/sbt/file.h"
#include "core/sbt/rows.h"

#define GROUPS_MAX  12000
#define TABLES_MAX  256
#define ROWS_MAX    4096 /* of a table */
#define CHANGES_MAX 6
#define TEXT_MANY   ((size_t)300000)
#define MANY	    10000

/* A chunk. */
struct group {
	struct op *op;
	size_t count;
};

struct rows {
	char table[SBT_ROW_NAME_MAX + 1];
	char name[SBT_ROW_COLUMNS_MAX][SBT_ROW_NAME_MAX + 1];
	size_t columns, count;
	struct sbt_value *value; /* room for ROWS_MAX rows */
};

static struct group group[GROUPS_MAX];
static struct rows rows[TABLES_MAX];
static size_t groups, tables;
static struct sbt_codec *codec;
static uint64_t seed;

static void check(int r)
{
	if (r >= 0)
		return;
	fprintf(stderr, "hostile_sbt: %s\n", strerror(-r));
	exit(1);
}

static void *get(size_t count, size_t size)
{
	void *memory = calloc(count, size);

	check(memory ? 0 : -ENOMEM);
	return memory;
}

static uint64_t next(void)
{
	uint64_t value = seed += 0x9e3779b97f4a7c15;

	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9;
	value = (value ^ value >> 27) * 0x94d049bb133111eb;
	return value ^ value >> 31;
}

static size_t below(size_t count)
{
	return count ? next() % count : 0;
}

static uint64_t evil(void)
{
	static const uint64_t values[] = {
		0,
		1,
		2,
		UINT64_MAX,
		INT64_MAX,
		1ull << 63,
		1ull << 32,
		UINT32_MAX,
		INT32_MAX,
		1ull << 31,
		UINT16_MAX,
		255,
		13,
		10000,
		1ull << 53,
		1ull << 62,
		INT64_MAX / 4,
		INT64_MAX / 4 - 1,
		UINT64_MAX - 1000,
		1000000000,
	};
	size_t i = below(ARRAY_SIZE(values) + 2);

	return i < ARRAY_SIZE(values) ? values[i] : next() >> below(64);
}

static struct sbt_value evil_text(void)
{
	static const char *const texts[] = {
		"",
		"\n",
		"\x1b]0;title\x07\x1b[2J\x1b[31m",
		"\r\b\x7f\x01",
		"\xe2\x80\xae"
		"desrever",
		"\xc2\x9b"
		"31m",
		"</script><script>alert(1)</script>",
		"\"],\"x\":[\"\\",
		"'; DROP TABLE boot; --",
		"%s%n%d",
		"=1+1;;,\"\"",
		"a;b c 12\nd 13",
		"/proc/self/mem",
		"_Z",
		"_ZN1aILi1EEEvvvvvvvvvvvvvvvvvvvvvvv",
		"9223372036854775808",
		"<!-- ]]> &amp; -->",
	};
	size_t i = below(ARRAY_SIZE(texts) + 2);
	char *text;

	if (i < ARRAY_SIZE(texts))
		return (struct sbt_value){ .type = SBT_TEXT,
					   .text = texts[i],
					   .size = strlen(texts[i]) };
	text = get(TEXT_MANY + 1, 1);
	memset(text, i % 2 ? 'v' : '(', TEXT_MANY);
	if (i % 2)
		memcpy(text, "_ZN1a", 5);
	return (struct sbt_value){ .type = SBT_TEXT, .text = text, .size = TEXT_MANY };
}

static void set_field(struct op *op, size_t number, uint64_t value)
{
	switch (number) {
#define X(column, identifier, name)                                                                \
	case column:                                                                               \
		op->name = (__typeof__(op->name))value;                                            \
		break;
		SBT_COLUMNS(X)
#undef X
	}
}

/* What one change does to the ops. */
static void change_field(struct group *in)
{
	set_field(&in->op[below(in->count)], below(SBT_COLUMN_COUNT), evil());
}

static void change_column(struct group *in)
{
	size_t number = below(SBT_COLUMN_COUNT);
	uint64_t value = evil();

	for (size_t i = 0; i < in->count; i++)
		set_field(&in->op[i], number, value);
}

static void change_many(struct group *in)
{
	size_t part = 1 + below(4);

	for (size_t i = 0; i < in->count; i++)
		if (below(part) == 0)
			set_field(&in->op[i], below(SBT_COLUMN_COUNT), evil());
}

static uint64_t get_field(const struct op *op, size_t number)
{
	switch (number) {
#define X(column, identifier, name)                                                                \
	case column:                                                                               \
		return (uint64_t)op->name;
		SBT_COLUMNS(X)
#undef X
	default:
		return 0;
	}
}

/* What others have: ids that exist, times of the same seconds. */
static void borrow(struct group *in)
{
	size_t part = 1 + below(4), number = below(SBT_COLUMN_COUNT);
	bool times = below(3) == 0;

	for (size_t i = 0; i < in->count; i++) {
		const struct group *other = &group[below(groups)];
		const struct op *from = &other->op[below(other->count)];

		if (times)
			number = (size_t[]){ 0, 1, 2, 3, 24 }[below(5)];
		if (below(part) == 0)
			set_field(&in->op[i], number, get_field(from, number));
	}
}

/* As numbers that count up are, there are more of them than anybody expects. */
static void count_up(struct group *in)
{
	size_t number = below(SBT_COLUMN_COUNT);
	uint64_t value = evil(), step = 1 + (below(2) ? next() >> below(64) : 0);

	for (size_t i = 0; i < in->count; i++)
		set_field(&in->op[i], number, value + i * step);
}

static void reverse_times(struct group *in)
{
	for (size_t i = 0; i < in->count; i++) {
		struct op *op = &in->op[i];
		uint64_t time = op->start_ns;

		op->start_ns = op->end_ns;
		op->end_ns = time;
		if (below(2)) {
			time = op->gpu_start_ns;
			op->gpu_start_ns = op->gpu_end_ns;
			op->gpu_end_ns = time;
		}
	}
}

static void shift_times(struct group *in)
{
	uint64_t by = evil();
	bool all = below(2);

	for (size_t k = 0; k < groups; k++)
		for (size_t i = 0; (all || &group[k] == in) && i < group[k].count; i++) {
			struct op *op = &group[k].op[i];

			op->start_ns += by;
			op->end_ns += by;
			op->gpu_start_ns += by;
			op->gpu_end_ns += by;
			op->seen_ns += by;
		}
}

static void all_flags(struct group *in)
{
	uint16_t flags = below(2) ? UINT16_MAX : (uint16_t)next();

	for (size_t i = 0; i < in->count; i++)
		in->op[i].flags = flags;
}

static void all_at_once(struct group *in)
{
	for (size_t i = 1; i < in->count; i++) {
		in->op[i].start_ns = in->op[0].start_ns;
		in->op[i].end_ns = in->op[0].end_ns;
		in->op[i].gpu_start_ns = in->op[0].gpu_start_ns;
		in->op[i].gpu_end_ns = below(2) ? in->op[0].gpu_end_ns : in->op[0].gpu_start_ns;
		in->op[i].correlation = in->op[0].correlation;
	}
}

static void shuffle(struct group *in)
{
	for (size_t i = 1; i < in->count; i++) {
		size_t other = below(i + 1);
		struct op op = in->op[i];

		in->op[i] = in->op[other];
		in->op[other] = op;
	}
}

static void change_head(struct group *in)
{
	size_t what = below(3);
	uint64_t value = what == 2 ? below(20) : evil();

	for (size_t i = 0; i < in->count; i++) {
		if (what == 0)
			in->op[i].process = (uint32_t)value;
		else if (what == 1)
			in->op[i].stream = (uint32_t)value;
		else
			in->op[i].kind = (uint8_t)value;
	}
}

static void drop_group(struct group *in)
{
	*in = group[--groups];
}

static void copy_group(struct group *in)
{
	struct group *copy = &group[groups];

	if (groups == GROUPS_MAX)
		return;
	copy->op = get(SBT_OPS_MAX, sizeof(*copy->op));
	copy->count = in->count;
	memcpy(copy->op, in->op, in->count * sizeof(*in->op));
	groups++;
}

/* One op each, all of other streams, processes or devices. */
static void many_heads(struct group *in)
{
	size_t what = below(4);

	for (size_t i = 0; i < MANY && groups < GROUPS_MAX; i++) {
		struct op *op = get(1, sizeof(*op));

		*op = in->op[i % in->count];
		if (what < 2)
			op->stream = (uint32_t)(1000 + i);
		if (what == 1 || what == 2)
			op->process = (uint32_t)(1000 + i);
		if (what == 3) {
			op->device = (int16_t)i;
			op->tid = (uint32_t)(1000 + i);
		}
		group[groups++] = (struct group){ .op = op, .count = 1 };
	}
}

static void change_ops(void)
{
	static void (*const changes[])(struct group *) = {
		change_field,  change_column, change_column, change_many, count_up, count_up,
		reverse_times, shift_times,   all_flags,     all_at_once, shuffle,  change_head,
		drop_group,    copy_group,    borrow,	     borrow,	  borrow,
	};

	if (groups == 0)
		return;
	if (below(25) == 0)
		many_heads(&group[below(groups)]);
	else
		changes[below(ARRAY_SIZE(changes))](&group[below(groups)]);
}

static struct sbt_value evil_value(const struct sbt_value *as)
{
	struct sbt_value null = { .type = SBT_NULL };

	if (below(12) == 0)
		return null;
	if (as->type == SBT_TEXT)
		return evil_text();
	return (struct sbt_value){ .type = SBT_INTEGER, .integer = (int64_t)evil() };
}

static void change_rows(struct rows *in)
{
	size_t column = below(in->columns), part = 1 + below(3);
	struct sbt_value *row = &in->value[below(in->count) * in->columns], value;
	bool same = below(2);

	switch (below(7)) {
	case 0: /* a value */
	case 1:
		row[column] = evil_value(&row[column]);
		break;
	case 2: /* a column */
		value = evil_value(&row[column]);
		for (size_t i = 0; i < in->count; i++)
			if (below(part) == 0)
				in->value[i * in->columns + column] =
					same ? value : evil_value(&row[column]);
		break;
	case 3: /* not there */
		if (below(3) == 0)
			*in = rows[--tables];
		else if (below(2))
			snprintf(in->name[column], sizeof(in->name[column]), "x%zu", column);
		else
			in->count = below(in->count);
		break;
	case 4: /* many rows that are the same but for a column */
		for (; in->count < ROWS_MAX; in->count++) {
			value = row[column];
			memcpy(&in->value[in->count * in->columns], row,
			       in->columns * sizeof(*row));
			if (value.type == SBT_INTEGER)
				in->value[in->count * in->columns + column].integer =
					(int64_t)(below(2) ? in->count : evil());
		}
		break;
	case 5: /* two rows, one but for a value */
		if (in->count == ROWS_MAX)
			break;
		memcpy(&in->value[in->count * in->columns], row, in->columns * sizeof(*row));
		in->value[in->count * in->columns + column] = evil_value(&row[column]);
		in->count++;
		break;
	default: /* all texts, or all numbers */
		for (size_t i = 0; i < in->count * in->columns; i++)
			if (in->value[i].type == (same ? SBT_TEXT : SBT_INTEGER) &&
			    below(part) == 0)
				in->value[i] = evil_value(&in->value[i]);
	}
}

/* Read. */

static void add_ops(const void *data, size_t size)
{
	struct sbt_info info;
	struct op *op = get(SBT_OPS_MAX, sizeof(*op));

	check(sbt_decode(codec, data, size, SBT_ALL_COLUMNS, op, &info));
	if (groups < GROUPS_MAX)
		group[groups++] = (struct group){ .op = op, .count = info.count };
}

static struct sbt_value keep(const struct sbt_value *value)
{
	struct sbt_value kept = *value;
	char *text;

	if (value->type != SBT_TEXT)
		return kept;
	text = get(value->size + 1, 1);
	memcpy(text, value->text, value->size);
	kept.text = text;
	return kept;
}

static void add_rows(const void *data, size_t size)
{
	struct rows *to = &rows[tables];
	const struct sbt_value *value;
	struct sbt_view *view;

	check(tables < TABLES_MAX ? 0 : -E2BIG);
	check(sbt_view_new(data, size, &view));
	snprintf(to->table, sizeof(to->table), "%s", sbt_view_table(view));
	to->columns = sbt_view_column_count(view);
	to->count = 0;
	to->value = get(ROWS_MAX * to->columns, sizeof(*to->value));
	for (size_t i = 0; i < to->columns; i++)
		snprintf(to->name[i], sizeof(to->name[i]), "%s", sbt_view_column(view, i));
	while (to->count < ROWS_MAX && (value = sbt_view_next(view))) {
		for (size_t i = 0; i < to->columns; i++)
			to->value[to->count * to->columns + i] = keep(&value[i]);
		to->count++;
	}
	tables += to->count > 0;
	sbt_view_free(view);
}

static int read_bytes(void *data, uint64_t offset, void *bytes, size_t size)
{
	if (fseek(data, (long)offset, SEEK_SET) < 0)
		return -errno;
	return fread(bytes, 1, size, data) == size ? 0 : -EIO;
}

static void read_file(FILE *file)
{
	struct sbt_source source = { .read = read_bytes, .data = file };
	struct sbt_reader *reader;
	struct sbt_block block;
	const void *data;

	fseek(file, 0, SEEK_END);
	source.size = (uint64_t)ftell(file);
	check(sbt_reader_new(&source, &reader));
	while (sbt_reader_next(reader, &block) == 0) {
		check(sbt_reader_get(reader, &block, &data));
		if (block.type == SBT_BLOCK_OPS)
			add_ops(data, block.size);
		else
			add_rows(data, block.size);
	}
	sbt_reader_free(reader);
}

/* Write. */

static int append(void *data, const void *bytes, size_t size)
{
	return fwrite(bytes, 1, size, data) == size ? 0 : -EIO;
}

static void end_rows(struct sbt_writer *writer, struct sbt_rows *block)
{
	const void *data;
	size_t size;

	check(sbt_rows_end(block, &data, &size));
	check(sbt_writer_add(writer, SBT_BLOCK_ROWS, data, size));
}

static void write_rows(struct sbt_writer *writer, struct sbt_rows *block, const struct rows *from)
{
	const char *names[SBT_ROW_COLUMNS_MAX];
	int r;

	for (size_t i = 0; i < from->columns; i++)
		names[i] = from->name[i];
	check(sbt_rows_begin(block, from->table, names, from->columns));
	for (size_t i = 0; i < from->count; i++) {
		r = sbt_rows_add(block, &from->value[i * from->columns]);
		if (r == -ENOSPC) {
			end_rows(writer, block);
			check(sbt_rows_begin(block, from->table, names, from->columns));
			r = sbt_rows_add(block, &from->value[i * from->columns]);
		}
		check(r);
	}
	end_rows(writer, block);
}

static void write_file(FILE *file)
{
	struct sbt_writer *writer;
	struct sbt_rows *block;
	const void *data;
	size_t size;

	check(sbt_rows_new(&block));
	check(sbt_writer_new(append, file, &writer));
	for (size_t i = 0; i < tables; i++)
		if (rows[i].count > 0)
			write_rows(writer, block, &rows[i]);
	for (size_t i = 0; i < groups; i++) {
		check(sbt_encode(codec, group[i].op, group[i].count, &data, &size));
		check(sbt_writer_add(writer, SBT_BLOCK_OPS, data, size));
	}
	if (below(10))
		check(sbt_writer_end(writer));
	sbt_writer_free(writer);
	sbt_rows_free(block);
}

int main(int argc, char **argv)
{
	FILE *from = argc == 4 ? fopen(argv[1], "rb") : NULL;
	FILE *to = argc == 4 ? fopen(argv[3], "wb") : NULL;
	size_t changes;

	if (!from || !to) {
		fprintf(stderr, "usage: hostile_sbt FILE SEED OUT\n");
		return 2;
	}
	seed = strtoull(argv[2], NULL, 10);
	check(sbt_codec_new(&codec));
	read_file(from);
	changes = seed ? 1 + below(CHANGES_MAX) : 0;
	for (size_t i = 0; i < changes; i++) {
		if (below(3))
			change_ops();
		else if (tables > 0)
			change_rows(&rows[below(tables)]);
	}
	write_file(to);
	sbt_codec_free(codec);
	return fclose(from) == 0 && fclose(to) == 0 ? 0 : 1;
}
