/* Reader: finds the blocks of an .sbt file, by its index or one after another. An index is trusted
 * if it and every index before it have correct checksums and together cover all bytes of the file;
 * a block if its own checksum is correct. */
#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/base/vector.h"
#include "core/sbt/format.h"
#include "core/sbt/rows.h"

struct sbt_reader {
	struct sbt_source source;
	enum sbt_state state;
	uint64_t position; /* of the next block */
	/* One block, with its head. */
	uint8_t *data;
	size_t room;
	/* Offsets of the index blocks, the last first; none: there is no index. */
	uint64_t *index;
	size_t index_count, index_room;
	size_t index_left;     /* not started */
	struct sbt_view *view; /* entries of the one started last */
};

static int read_bytes(struct sbt_reader *reader, uint64_t offset, void *bytes, size_t size)
{
	return reader->source.read(reader->source.data, offset, bytes, size);
}

static int read_file_head(struct sbt_reader *reader)
{
	struct sbt_file_head head;
	size_t there = sizeof(head);
	int r;

	if (there > reader->source.size)
		there = reader->source.size;
	r = read_bytes(reader, 0, &head, there);
	if (r < 0)
		return r;
	if (memcmp(head.magic, SBT_FILE_MAGIC, there < SBT_MAGIC_SIZE ? there : SBT_MAGIC_SIZE))
		return -EBADMSG;
	if (there < sizeof(head))
		return -ENODATA;
	if (le64toh(head.checksum) != XXH3_64bits(&head, offsetof(struct sbt_file_head, checksum)))
		return -EBADMSG;
	return le32toh(head.version) == SBT_FILE_VERSION ? 0 : -EPROTO;
}

static bool head_valid(const struct sbt_block_head *head, uint64_t offset)
{
	return head->magic == SBT_BLOCK_MAGIC && head->offset == offset &&
	       head->size <= SBT_BLOCK_MAX && !head->zero;
}

/* -EBADMSG: none there could be whole. */
static int read_head(struct sbt_reader *reader, uint64_t offset, struct sbt_block_head *ret)
{
	uint64_t size = reader->source.size;
	struct sbt_block_head head;
	int r;

	if (offset > size || size - offset < sizeof(head))
		return -EBADMSG;
	r = read_bytes(reader, offset, &head, sizeof(head));
	if (r < 0)
		return r;
	head.magic = le32toh(head.magic);
	head.size = le32toh(head.size);
	head.checksum = le64toh(head.checksum);
	head.offset = le64toh(head.offset);
	head.type = le32toh(head.type);
	if (!head_valid(&head, offset))
		return -EBADMSG;
	*ret = head;
	return 0;
}

/* A block with its contents, whole. */
static int read_block(struct sbt_reader *reader, uint64_t offset, struct sbt_block_head *ret,
		      const uint8_t **ret_data)
{
	const size_t checked = offsetof(struct sbt_block_head, offset);
	struct sbt_block_head head;
	size_t size;
	int r = read_head(reader, offset, &head);

	if (r < 0)
		return r;
	size = sizeof(head) + head.size;
	if (size > reader->source.size - offset)
		return -EBADMSG;
	if ((r = VECTOR_ROOM(reader->data, reader->room, size)) < 0 ||
	    (r = read_bytes(reader, offset, reader->data, size)) < 0)
		return r;
	if (XXH3_64bits(reader->data + checked, size - checked) != head.checksum)
		return -EBADMSG;
	*ret = head;
	*ret_data = reader->data + sizeof(head);
	return 0;
}

static bool in_range(const struct sbt_value *value, uint64_t max)
{
	return value->type == SBT_INTEGER && (uint64_t)value->integer <= max;
}

/* A row of an index; false: it is invalid. */
static bool read_entry(const struct sbt_value *value, uint64_t offset, struct sbt_block *ret)
{
	struct sbt_block block = { .offset = offset };

	if (!in_range(&value[INDEX_TYPE], UINT32_MAX) ||
	    !in_range(&value[INDEX_SIZE], SBT_BLOCK_MAX))
		return false;
	block.type = (enum sbt_block_type)value[INDEX_TYPE].integer;
	block.size = (uint32_t)value[INDEX_SIZE].integer;
	if (block.type == SBT_BLOCK_OPS) {
		if (!in_range(&value[INDEX_PROCESS], UINT32_MAX) ||
		    !in_range(&value[INDEX_STREAM], UINT32_MAX) ||
		    !in_range(&value[INDEX_KIND], UINT8_MAX) ||
		    !in_range(&value[INDEX_OPS], SBT_OPS_MAX) ||
		    !in_range(&value[INDEX_FIRST_NS], UINT64_MAX) ||
		    !in_range(&value[INDEX_LAST_NS], UINT64_MAX))
			return false;
		block.info = (struct sbt_info){
			.process = (uint32_t)value[INDEX_PROCESS].integer,
			.stream = (uint32_t)value[INDEX_STREAM].integer,
			.kind = (uint8_t)value[INDEX_KIND].integer,
			.count = (uint32_t)value[INDEX_OPS].integer,
			.first_ns = (uint64_t)value[INDEX_FIRST_NS].integer,
			.last_ns = (uint64_t)value[INDEX_LAST_NS].integer,
			.size = block.size,
		};
	}
	*ret = block;
	return true;
}

static bool is_index(const struct sbt_view *view)
{
	static const char *const columns[] = SBT_INDEX_NAMES;

	if (strcmp(sbt_view_table(view), SBT_INDEX_TABLE) != 0 ||
	    sbt_view_column_count(view) < INDEX_COLUMNS)
		return false;
	for (size_t i = 0; i < INDEX_COLUMNS; i++)
		if (strcmp(sbt_view_column(view, i), columns[i]) != 0)
			return false;
	return true;
}

/* An index block: its entries, its head and where it ends. */
static int read_index(struct sbt_reader *reader, uint64_t offset, struct sbt_view **ret,
		      struct sbt_index_head *ret_head, uint64_t *ret_end)
{
	_cleanup_(sbt_view_freep) struct sbt_view *view = NULL;
	struct sbt_index_head head;
	struct sbt_block_head block;
	const uint8_t *data;
	int r = read_block(reader, offset, &block, &data);

	if (r < 0)
		return r;
	if (block.type != SBT_BLOCK_INDEX || block.size < sizeof(head))
		return -EBADMSG;
	memcpy(&head, data, sizeof(head));
	head.before = le64toh(head.before);
	head.first = le64toh(head.first);
	r = sbt_view_new(data + sizeof(head), block.size - sizeof(head), &view);
	if (r < 0)
		return r;
	if (!is_index(view))
		return -EBADMSG;
	*ret = TAKE(view);
	*ret_head = head;
	*ret_end = offset + SBT_BLOCK_HEAD + block.size;
	return 0;
}

/* Whether the blocks of an index fill the file from `first` to itself. */
static bool fills(struct sbt_view *view, uint64_t first, uint64_t offset)
{
	const struct sbt_value *value;
	struct sbt_block block;

	while ((value = sbt_view_next(view))) {
		if (!read_entry(value, first, &block))
			return false;
		first += SBT_BLOCK_HEAD + block.size;
	}
	return first == offset;
}

static int add_index(struct sbt_reader *reader, uint64_t offset)
{
	if (VECTOR_ROOM(reader->index, reader->index_room, reader->index_count + 1) < 0)
		return -ENOMEM;
	reader->index[reader->index_count++] = offset;
	return 0;
}

/* From the last index block to the first: each must end where the known part starts, and so comes
 * before it. */
static int follow_index(struct sbt_reader *reader, uint64_t offset, uint64_t end)
{
	struct sbt_index_head head = { .before = offset, .first = end };

	do {
		_cleanup_(sbt_view_freep) struct sbt_view *view = NULL;
		uint64_t begin = head.first, at = head.before;
		int r = read_index(reader, at, &view, &head, &end);

		if (r < 0)
			return r;
		if (end != begin || !fills(view, head.first, at))
			return -EBADMSG;
		r = add_index(reader, at);
		if (r < 0)
			return r;
	} while (head.before);
	return head.first == SBT_FILE_HEAD ? 0 : -EBADMSG;
}

/* -EBADMSG: there is no whole index. */
static int find_index(struct sbt_reader *reader)
{
	uint64_t offset = reader->source.size - SBT_TAIL;
	struct sbt_tail tail;
	int r;

	if (reader->source.size < SBT_FILE_HEAD + SBT_TAIL)
		return -EBADMSG;
	r = read_bytes(reader, offset, &tail, sizeof(tail));
	if (r < 0)
		return r;
	if (memcmp(tail.magic, SBT_TAIL_MAGIC, SBT_MAGIC_SIZE) != 0 ||
	    le64toh(tail.checksum) != XXH3_64bits(&tail, offsetof(struct sbt_tail, checksum)) ||
	    le64toh(tail.offset) != offset)
		return -EBADMSG;
	return follow_index(reader, le64toh(tail.index), offset);
}

int sbt_reader_new(const struct sbt_source *source, struct sbt_reader **ret)
{
	_cleanup_(sbt_reader_freep) struct sbt_reader *reader = calloc(1, sizeof(*reader));
	int r;

	if (!reader)
		return -ENOMEM;
	reader->source = *source;
	r = read_file_head(reader);
	if (r < 0)
		return r;
	r = find_index(reader);
	if (r < 0 && r != -EBADMSG)
		return r;
	reader->state = r == 0 ? SBT_WHOLE : SBT_CUT;
	if (r < 0)
		reader->index_count = 0;
	sbt_reader_rewind(reader);
	*ret = TAKE(reader);
	return 0;
}

struct sbt_reader *sbt_reader_free(struct sbt_reader *reader)
{
	if (reader) {
		sbt_view_free(reader->view);
		free(reader->index);
		free(reader->data);
	}
	free(reader);
	return NULL;
}

void sbt_reader_rewind(struct sbt_reader *reader)
{
	reader->view = sbt_view_free(reader->view);
	reader->index_left = reader->index_count;
	reader->position = SBT_FILE_HEAD;
}

static bool known(enum sbt_block_type type)
{
	return type == SBT_BLOCK_OPS || type == SBT_BLOCK_ROWS;
}

/* By the index: its entries were checked when it was opened. */
static int next_entry(struct sbt_reader *reader, struct sbt_block *ret)
{
	const struct sbt_value *value;
	struct sbt_index_head head;
	uint64_t end;
	int r;

	while (!reader->view || !(value = sbt_view_next(reader->view))) {
		reader->view = sbt_view_free(reader->view);
		if (!reader->index_left) {
			reader->position = reader->source.size;
			return SBT_READER_END;
		}
		r = read_index(reader, reader->index[--reader->index_left], &reader->view, &head,
			       &end);
		if (r < 0)
			return r;
		reader->position = head.first;
	}
	if (!read_entry(value, reader->position, ret))
		return -EBADMSG; /* the file was changed after it was opened */
	reader->position += SBT_BLOCK_HEAD + ret->size;
	return 0;
}

/* What follows the whole blocks: the start of another one, or something else. */
static int judge_end(struct sbt_reader *reader)
{
	uint64_t left = reader->source.size - reader->position;
	struct sbt_block_head head;
	int r = left < SBT_BLOCK_HEAD ? 0 : read_head(reader, reader->position, &head);

	if (r < 0 && r != -EBADMSG)
		return r;
	reader->state = SBT_CUT;
	if (r < 0 || (left >= SBT_BLOCK_HEAD && left - SBT_BLOCK_HEAD >= head.size))
		reader->state = SBT_DAMAGED;
	return SBT_READER_END;
}

/* Without an index: the block at the position, if it is whole. */
static int next_block(struct sbt_reader *reader, struct sbt_block *ret)
{
	struct sbt_block block = { .offset = reader->position };
	struct sbt_block_head head;
	const uint8_t *data;
	int r = read_block(reader, reader->position, &head, &data);

	if (r == 0 && head.type == SBT_BLOCK_OPS &&
	    (sbt_peek(data, head.size, &block.info) < 0 || block.info.size != head.size))
		r = -EBADMSG;
	if (r < 0)
		return r == -EBADMSG ? judge_end(reader) : r;
	block.type = (enum sbt_block_type)head.type;
	block.size = head.size;
	reader->position += SBT_BLOCK_HEAD + head.size;
	*ret = block;
	return 0;
}

int sbt_reader_next(struct sbt_reader *reader, struct sbt_block *ret)
{
	struct sbt_block block;
	int r;

	do
		r = reader->index_count ? next_entry(reader, &block) : next_block(reader, &block);
	while (r == 0 && !known(block.type));
	if (r == 0)
		*ret = block;
	return r;
}

enum sbt_state sbt_reader_state(const struct sbt_reader *reader)
{
	return reader->state;
}

uint64_t sbt_reader_position(const struct sbt_reader *reader)
{
	return reader->position;
}

int sbt_reader_get(struct sbt_reader *reader, const struct sbt_block *block, const void **ret_data)
{
	struct sbt_block_head head;
	const uint8_t *data;
	int r = read_block(reader, block->offset, &head, &data);

	if (r < 0)
		return r;
	if (head.type != (uint32_t)block->type || head.size != block->size)
		return -EBADMSG;
	*ret_data = data;
	return 0;
}
