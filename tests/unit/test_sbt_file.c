/* Files: what was added comes back in order, of a file cut off up to the last whole block, and what
 * is damaged is never taken for something else. */
#include <errno.h>
#include <stdbool.h>

#include "core/base/array.h"
#include "core/sbt/file.h"
#include "core/sbt/format.h"
#include "core/sbt/rows.h"
#include "tests/unit/sbt_fixture.h"

#define FILE_BYTES (4u << 20)
#define BLOCKS_MAX 64

struct kept {
	enum sbt_block_type type;
	size_t offset, size;
};

struct file {
	struct fixture *codec;
	uint8_t bytes[FILE_BYTES], good[FILE_BYTES];
	size_t size, good_size;
	struct kept kept[BLOCKS_MAX]; /* of the good file */
	size_t kept_count;
	int error; /* of the next call of read or write */
};

static int write_bytes(void *data, const void *bytes, size_t size)
{
	struct file *f = data;

	if (f->error)
		return f->error;
	assert_true(f->size + size <= FILE_BYTES);
	memcpy(f->bytes + f->size, bytes, size);
	f->size += size;
	return 0;
}

static int read_bytes(void *data, uint64_t offset, void *bytes, size_t size)
{
	struct file *f = data;

	if (f->error)
		return f->error;
	assert_true(offset <= f->size && size <= f->size - offset);
	memcpy(bytes, f->bytes + offset, size);
	return 0;
}

static void add(struct file *f, struct sbt_writer *writer, enum sbt_block_type type,
		const void *data, size_t size)
{
	f->kept[f->kept_count++] = (struct kept){ type, f->size + SBT_BLOCK_HEAD, size };
	assert_int_equal(sbt_writer_add(writer, type, data, size), 0);
}

static void add_ops(struct file *f, struct sbt_writer *writer, uint32_t process, size_t count)
{
	const void *data;
	size_t size;

	memset(f->codec->in, 0, count * sizeof(struct op));
	for (size_t i = 0; i < count; i++) {
		f->codec->in[i].start_ns = 1000 * process + i;
		f->codec->in[i].process = process;
		f->codec->in[i].stream = 7;
		f->codec->in[i].kind = OP_LAUNCH;
	}
	assert_int_equal(sbt_encode(f->codec->codec, f->codec->in, count, &data, &size), 0);
	add(f, writer, SBT_BLOCK_OPS, data, size);
}

static void add_rows(struct file *f, struct sbt_writer *writer, int64_t first)
{
	static const char *const names[] = { "id", "text" };
	struct sbt_rows *rows;
	const void *data;
	size_t size;

	assert_int_equal(sbt_rows_new(&rows), 0);
	assert_int_equal(sbt_rows_begin(rows, "name", names, 2), 0);
	for (int64_t i = 0; i < 5; i++) {
		struct sbt_value value[] = { { .type = SBT_INTEGER, .integer = first + i },
					     { SBT_TEXT, 0, "hello", 5 } };

		assert_int_equal(sbt_rows_add(rows, value), 0);
	}
	assert_int_equal(sbt_rows_end(rows, &data, &size), 0);
	add(f, writer, SBT_BLOCK_ROWS, data, size);
	sbt_rows_free(rows);
}

/* Three blocks of ops and two of rows. */
static void make_file(struct file *f, bool end)
{
	struct sbt_writer *writer;

	f->size = f->kept_count = 0;
	assert_int_equal(sbt_writer_new(write_bytes, f, &writer), 0);
	add_rows(f, writer, 10);
	add_ops(f, writer, 3, 20);
	add_ops(f, writer, 4, 100);
	add_rows(f, writer, 20);
	add_ops(f, writer, 5, 1);
	if (end)
		assert_int_equal(sbt_writer_end(writer), 0);
	assert_int_equal(sbt_writer_size(writer), f->size);
	sbt_writer_free(writer);
	memcpy(f->good, f->bytes, f->size);
	f->good_size = f->size;
}

static int setup_file(void **state)
{
	struct file *f = calloc(1, sizeof(*f));
	void *codec;

	if (!f || setup(&codec) < 0)
		return -1;
	f->codec = codec;
	make_file(f, true);
	*state = f;
	return 0;
}

static int teardown_file(void **state)
{
	struct file *f = *state;
	void *codec = f->codec;

	free(f);
	return teardown(&codec);
}

static int open_file(struct file *f, struct sbt_reader **ret)
{
	struct sbt_source source = { read_bytes, f, f->size };

	return sbt_reader_new(&source, ret);
}

/* The block is one of those that were written; which is returned. */
static size_t assert_kept(struct file *f, const struct sbt_block *block, const void *data)
{
	for (size_t i = 0; i < f->kept_count; i++) {
		const struct kept *kept = &f->kept[i];

		if (kept->offset != block->offset + SBT_BLOCK_HEAD)
			continue;
		assert_int_equal(kept->type, block->type);
		assert_int_equal(kept->size, block->size);
		assert_memory_equal(f->good + kept->offset, data, kept->size);
		return i;
	}
	fail_msg("a block at %llu", (unsigned long long)block->offset);
	return 0;
}

/* Reads all that can be read, and returns how many blocks. */
static size_t read_file(struct file *f, struct sbt_reader *reader)
{
	struct sbt_block block;
	const void *data;
	size_t count = 0;
	int r;

	while ((r = sbt_reader_next(reader, &block)) == 0) {
		r = sbt_reader_get(reader, &block, &data);
		if (r < 0) {
			assert_int_equal(r, -EBADMSG);
			continue;
		}
		assert_kept(f, &block, data);
		count++;
	}
	assert_int_equal(r, SBT_READER_END);
	return count;
}

/* How it opens, or what it is; how many whole blocks are in `ret`. */
static int try_file(struct file *f, size_t *ret)
{
	struct sbt_reader *reader;
	int r = open_file(f, &reader);

	if (r < 0)
		return r;
	*ret = read_file(f, reader);
	r = (int)sbt_reader_state(reader);
	sbt_reader_free(reader);
	return r;
}

static void blocks_come_back_in_order(void **state)
{
	struct file *f = *state;
	struct sbt_reader *reader;
	struct sbt_block block;
	const void *data;

	assert_int_equal(open_file(f, &reader), 0);
	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < f->kept_count; i++) {
			assert_int_equal(sbt_reader_next(reader, &block), 0);
			assert_int_equal(sbt_reader_get(reader, &block, &data), 0);
			assert_int_equal(assert_kept(f, &block, data), i);
		}
		assert_int_equal(block.info.process, 5);
		assert_int_equal(block.info.stream, 7);
		assert_int_equal(block.info.kind, OP_LAUNCH);
		assert_int_equal(block.info.count, 1);
		assert_int_equal(block.info.first_ns, 5000);
		assert_int_equal(block.info.last_ns, 5000);
		assert_int_equal(block.info.size, block.size);
		assert_int_equal(sbt_reader_next(reader, &block), SBT_READER_END);
		assert_int_equal(sbt_reader_next(reader, &block), SBT_READER_END);
		assert_int_equal(sbt_reader_state(reader), SBT_WHOLE);
		assert_int_equal(sbt_reader_position(reader), f->size);
		sbt_reader_rewind(reader);
	}
	sbt_reader_free(reader);
}

static void a_file_without_blocks_is_one(void **state)
{
	struct file *f = *state;
	struct sbt_writer *writer;
	size_t count;

	f->size = 0;
	assert_int_equal(sbt_writer_new(write_bytes, f, &writer), 0);
	assert_int_equal(sbt_writer_end(writer), 0);
	sbt_writer_free(writer);
	assert_int_equal(try_file(f, &count), SBT_WHOLE);
	assert_int_equal(count, 0);
}

/* More than an index block lists. */
static void the_index_goes_on(void **state)
{
	const size_t many = 2 * SBT_INDEX_ENTRIES + 3;
	struct file *f = *state;
	struct sbt_writer *writer;
	struct sbt_reader *reader;
	struct sbt_block block;
	size_t ends[] = { 0, 0 }, last = 0;

	for (int cut = 0; cut < 2; cut++) {
		f->size = 0;
		assert_int_equal(sbt_writer_new(write_bytes, f, &writer), 0);
		for (size_t i = 0; i < many; i++)
			assert_int_equal(sbt_writer_add(writer, SBT_BLOCK_ROWS, "x", i % 2), 0);
		if (!cut)
			assert_int_equal(sbt_writer_end(writer), 0);
		sbt_writer_free(writer);
		assert_int_equal(open_file(f, &reader), 0);
		for (size_t i = 0; i < many; i++) {
			assert_int_equal(sbt_reader_next(reader, &block), 0);
			assert_int_equal(block.size, i % 2);
			/* An index block lies between. */
			if (i % SBT_INDEX_ENTRIES == 0)
				assert_true(i == 0 || block.offset > last + SBT_BLOCK_HEAD + 1);
			last = block.offset;
		}
		ends[cut] = block.offset;
		assert_int_equal(sbt_reader_next(reader, &block), SBT_READER_END);
		assert_int_equal(sbt_reader_state(reader), cut ? SBT_CUT : SBT_WHOLE);
		sbt_reader_free(reader);
	}
	assert_int_equal(ends[0], ends[1]);
}

static void a_file_cut_off_is_read_to_the_last_whole_block(void **state)
{
	struct file *f = *state;
	size_t count, whole = 0;

	for (size_t cut = 0; cut < f->good_size; cut++) {
		f->size = cut;
		if (cut < SBT_FILE_HEAD) {
			assert_int_equal(try_file(f, &count), -ENODATA);
			continue;
		}
		while (whole < f->kept_count && f->kept[whole].offset + f->kept[whole].size <= cut)
			whole++;
		assert_int_equal(try_file(f, &count), SBT_CUT);
		assert_int_equal(count, whole);
	}
}

static void a_changed_byte_is_never_taken_as_right(void **state)
{
	struct file *f = *state;
	size_t count;

	for (size_t i = 0; i < f->good_size; i++) {
		for (int bit = 0; bit < 8; bit++) {
			int r;

			f->bytes[i] ^= (uint8_t)(1 << bit);
			r = try_file(f, &count); /* which looks at what it gets */
			if (i < SBT_FILE_HEAD)
				assert_true(r < 0);
			else
				assert_true(r > 0 && (count < f->kept_count || r != SBT_WHOLE));
			f->bytes[i] ^= (uint8_t)(1 << bit);
		}
	}
}

static void a_damaged_block_does_not_hide_the_others(void **state)
{
	struct file *f = *state;
	size_t count;

	f->bytes[f->kept[1].offset + 20] ^= 1;
	assert_int_equal(try_file(f, &count), SBT_WHOLE);
	assert_int_equal(count, f->kept_count - 1);
	f->size--; /* no index any more */
	assert_int_equal(try_file(f, &count), SBT_DAMAGED);
	assert_int_equal(count, 1);
}

static void other_files_are_refused(void **state)
{
	static const char *const others[] = { "SQLite format 3", "\x89PNG\r\n\x1a\nmore of it...",
					      "\x89SBT\n\x1a\n as text was copied" };
	struct file *f = *state;
	size_t count;

	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		f->size = strlen(others[i]);
		memcpy(f->bytes, others[i], f->size);
		assert_int_equal(try_file(f, &count), -EBADMSG);
	}
	f->size = 0;
	assert_int_equal(try_file(f, &count), -ENODATA);
}

static void repair_head(struct file *f)
{
	put_le(f->bytes + 16, XXH3_64bits(f->bytes, 16), 8);
}

static void repair_block(struct file *f, size_t offset, size_t size)
{
	put_le(f->bytes + offset + 8, XXH3_64bits(f->bytes + offset + 16, 16 + size), 8);
}

static void a_later_version_is_refused(void **state)
{
	struct file *f = *state;
	size_t count;

	f->bytes[8]++;
	repair_head(f);
	assert_int_equal(try_file(f, &count), -EPROTO);
	f->bytes[8] = 0;
	repair_head(f);
	assert_int_equal(try_file(f, &count), -EPROTO);
}

static void blocks_of_other_types_are_skipped(void **state)
{
	struct file *f = *state;
	struct sbt_reader *reader;
	struct sbt_block block;

	for (int round = 0; round < 2; round++) {
		make_file(f, false);
		f->bytes[f->kept[0].offset - 8] = 99;
		repair_block(f, f->kept[0].offset - SBT_BLOCK_HEAD, f->kept[0].size);
		assert_int_equal(open_file(f, &reader), 0);
		assert_int_equal(sbt_reader_next(reader, &block), 0);
		assert_int_equal(block.offset + SBT_BLOCK_HEAD, f->kept[1].offset);
		sbt_reader_free(reader);
	}
}

/* Where it is in the file belongs to a block. */
static void a_block_in_another_place_is_refused(void **state)
{
	struct file *f = *state;
	struct kept *first = &f->kept[0], *last = &f->kept[3];
	size_t count;

	assert_int_equal(first->size, last->size);
	memcpy(f->bytes + last->offset - SBT_BLOCK_HEAD, f->good + first->offset - SBT_BLOCK_HEAD,
	       SBT_BLOCK_HEAD + first->size);
	assert_int_equal(try_file(f, &count), SBT_WHOLE);
	assert_int_equal(count, f->kept_count - 1);
}

static void only_the_block_that_was_asked_for_is_given(void **state)
{
	struct file *f = *state;
	struct sbt_reader *reader;
	struct sbt_block block, other;
	const void *data;

	assert_int_equal(open_file(f, &reader), 0);
	assert_int_equal(sbt_reader_next(reader, &block), 0);
	other = block;
	other.size++;
	assert_int_equal(sbt_reader_get(reader, &other, &data), -EBADMSG);
	other = block;
	other.type = SBT_BLOCK_OPS;
	assert_int_equal(sbt_reader_get(reader, &other, &data), -EBADMSG);
	for (uint64_t offset = 0; offset < f->size + 100; offset++) {
		other = block;
		other.offset = offset;
		if (offset + SBT_BLOCK_HEAD == f->kept[3].offset)
			continue; /* of the same type and size */
		assert_int_equal(sbt_reader_get(reader, &other, &data),
				 offset == block.offset ? 0 : -EBADMSG);
	}
	other.offset = UINT64_MAX - 8;
	assert_int_equal(sbt_reader_get(reader, &other, &data), -EBADMSG);
	sbt_reader_free(reader);
}

/* An index with right checksums that tells something else. */
static int try_index(struct file *f, const int64_t (*entry)[2], size_t count, uint64_t before,
		     uint64_t first)
{
	static const char *const names[] = SBT_INDEX_NAMES;
	size_t offset = f->kept[4].offset + f->kept[4].size, at = offset + SBT_BLOCK_HEAD, size;
	struct sbt_rows *rows;
	const void *data;
	size_t blocks;

	assert_int_equal(sbt_rows_new(&rows), 0);
	assert_int_equal(sbt_rows_begin(rows, "index", names, INDEX_COLUMNS), 0);
	for (size_t i = 0; i < count; i++) {
		struct sbt_value value[INDEX_COLUMNS] = { 0 };

		for (size_t k = 0; k < 2; k++)
			value[k] =
				(struct sbt_value){ .type = SBT_INTEGER, .integer = entry[i][k] };
		assert_int_equal(sbt_rows_add(rows, value), 0);
	}
	assert_int_equal(sbt_rows_end(rows, &data, &size), 0);
	put_le(f->bytes + at, before, 8);
	put_le(f->bytes + at + 8, first, 8);
	memcpy(f->bytes + at + 16, data, size);
	sbt_rows_free(rows);
	size += 16;
	put_le(f->bytes + offset + 4, size, 4);
	repair_block(f, offset, size);
	at += size;
	put_le(f->bytes + at, offset, 8);
	put_le(f->bytes + at + 8, at, 8);
	put_le(f->bytes + at + 16, XXH3_64bits(f->bytes + at, 16), 8);
	memcpy(f->bytes + at + 24, SBT_TAIL_MAGIC, 8);
	f->size = at + SBT_TAIL;
	return try_file(f, &blocks) == SBT_WHOLE ? (int)blocks : -1;
}

static void an_index_that_does_not_fit_is_not_believed(void **state)
{
	struct file *f = *state;
	int64_t whole = (int64_t)(f->kept[4].offset + f->kept[4].size - SBT_FILE_HEAD);
	const int64_t good[][2] = { { 99, whole - 32 } };
	const int64_t bad[][1][2] = { { { 99, whole } },
				      { { 99, whole - 33 } },
				      { { 99, -1 } },
				      { { -1, whole - 32 } },
				      { { 99, INT64_MAX } },
				      { { SBT_BLOCK_OPS, whole - 32 } },
				      { { 1ll << 32, whole - 32 } } };
	uint64_t index = f->kept[4].offset + f->kept[4].size;

	assert_int_equal(try_index(f, good, 1, 0, SBT_FILE_HEAD), 0); /* one of no known type */
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(try_index(f, bad[i], 1, 0, SBT_FILE_HEAD), -1);
	assert_int_equal(try_index(f, good, 0, 0, SBT_FILE_HEAD), -1);
	assert_int_equal(try_index(f, good, 0, 0, index), -1);
	assert_int_equal(try_index(f, good, 1, index, SBT_FILE_HEAD), -1);
	assert_int_equal(try_index(f, good, 1, index + 1, SBT_FILE_HEAD), -1);
	assert_int_equal(try_index(f, good, 1, UINT64_MAX, SBT_FILE_HEAD), -1);
	assert_int_equal(try_index(f, good, 1, SBT_FILE_HEAD, SBT_FILE_HEAD), -1);
	assert_int_equal(try_index(f, good, 1, 0, UINT64_MAX - 5), -1);
	assert_int_equal(try_index(f, good, 1, f->kept[4].offset - 32, SBT_FILE_HEAD), -1);
}

static void only_blocks_are_written(void **state)
{
	struct file *f = *state;
	struct sbt_writer *writer;
	size_t size;

	f->size = 0;
	assert_int_equal(sbt_writer_new(write_bytes, f, &writer), 0);
	size = f->size;
	assert_int_equal(sbt_writer_add(writer, SBT_BLOCK_OPS, "no chunk", 8), -EBADMSG);
	assert_int_equal(sbt_writer_add(writer, SBT_BLOCK_OPS, f->good + f->kept[1].offset,
					f->kept[1].size + 1),
			 -EBADMSG);
	assert_int_equal(sbt_writer_add(writer, SBT_BLOCK_INDEX, "x", 1), -EBADMSG);
	assert_int_equal(sbt_writer_add(writer, SBT_BLOCK_ROWS, "x", SBT_BLOCK_MAX + 1), -EBADMSG);
	assert_int_equal(f->size, size);
	f->error = -ENOSPC;
	assert_int_equal(sbt_writer_add(writer, SBT_BLOCK_ROWS, "x", 1), -ENOSPC);
	assert_int_equal(sbt_writer_end(writer), -ENOSPC);
	sbt_writer_free(writer);
	assert_int_equal(sbt_writer_new(write_bytes, f, &writer), -ENOSPC);
}

static void a_source_that_fails_is_an_error(void **state)
{
	struct file *f = *state;
	struct sbt_reader *reader;
	struct sbt_block block;
	const void *data;

	for (size_t cut = 0; cut < 2; cut++) {
		f->size = f->good_size - cut;
		f->error = 0;
		assert_int_equal(open_file(f, &reader), 0);
		assert_int_equal(sbt_reader_next(reader, &block), 0);
		f->error = -EIO;
		assert_int_equal(sbt_reader_get(reader, &block, &data), -EIO);
		sbt_reader_rewind(reader);
		assert_int_equal(sbt_reader_next(reader, &block), -EIO);
		sbt_reader_free(reader);
		assert_int_equal(open_file(f, &reader), -EIO);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_file, teardown_file)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(blocks_come_back_in_order),
		TEST(a_file_without_blocks_is_one),
		TEST(the_index_goes_on),
		TEST(a_file_cut_off_is_read_to_the_last_whole_block),
		TEST(a_changed_byte_is_never_taken_as_right),
		TEST(a_damaged_block_does_not_hide_the_others),
		TEST(other_files_are_refused),
		TEST(a_later_version_is_refused),
		TEST(blocks_of_other_types_are_skipped),
		TEST(a_block_in_another_place_is_refused),
		TEST(only_the_block_that_was_asked_for_is_given),
		TEST(an_index_that_does_not_fit_is_not_believed),
		TEST(only_blocks_are_written),
		TEST(a_source_that_fails_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
