/* Writer: frames chunks and rows into an .sbt file, and indexes them. Its memory does not grow with
 * the file: an index block is written whenever one is full. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/sbt/format.h"
#include "core/sbt/rows.h"

struct sbt_writer {
	sbt_write_fn *write;
	void *data;
	uint64_t size;	       /* written */
	uint64_t index, first; /* as in the head of an index block */
	struct sbt_rows *rows; /* of the index */
	XXH3_state_t *hash;
};

static int write_bytes(struct sbt_writer *writer, const void *bytes, size_t size)
{
	int r = writer->write(writer->data, bytes, size);

	if (r < 0)
		return r;
	writer->size += size;
	return 0;
}

static int write_head(struct sbt_writer *writer)
{
	struct sbt_file_head head = { .version = htole32(SBT_FILE_VERSION) };

	memcpy(head.magic, SBT_FILE_MAGIC, SBT_MAGIC_SIZE);
	head.checksum = htole64(XXH3_64bits(&head, offsetof(struct sbt_file_head, checksum)));
	return write_bytes(writer, &head, sizeof(head));
}

static int begin_index(struct sbt_writer *writer)
{
	static const char *const columns[] = SBT_INDEX_NAMES;

	writer->first = writer->size;
	return sbt_rows_begin(writer->rows, SBT_INDEX_TABLE, columns, INDEX_COLUMNS);
}

int sbt_writer_new(sbt_write_fn *write, void *data, struct sbt_writer **ret)
{
	_cleanup_(sbt_writer_freep) struct sbt_writer *writer = calloc(1, sizeof(*writer));
	int r;

	if (!writer)
		return -ENOMEM;
	writer->write = write;
	writer->data = data;
	writer->hash = XXH3_createState();
	if (!writer->hash)
		return -ENOMEM;
	if ((r = sbt_rows_new(&writer->rows)) < 0 || (r = write_head(writer)) < 0 ||
	    (r = begin_index(writer)) < 0)
		return r;
	*ret = TAKE(writer);
	return 0;
}

struct sbt_writer *sbt_writer_free(struct sbt_writer *writer)
{
	if (writer) {
		sbt_rows_free(writer->rows);
		XXH3_freeState(writer->hash);
	}
	free(writer);
	return NULL;
}

/* A block, whose contents are two consecutive pieces. */
static int write_block(struct sbt_writer *writer, uint32_t type, const void *begin,
		       size_t begin_size, const void *data, size_t size)
{
	const size_t checked = offsetof(struct sbt_block_head, offset);
	struct sbt_block_head head = {
		.magic = htole32(SBT_BLOCK_MAGIC),
		.size = htole32((uint32_t)(begin_size + size)),
		.offset = htole64(writer->size),
		.type = htole32(type),
	};
	int r;

	XXH3_64bits_reset(writer->hash);
	XXH3_64bits_update(writer->hash, (const char *)&head + checked, sizeof(head) - checked);
	if (begin_size)
		XXH3_64bits_update(writer->hash, begin, begin_size);
	XXH3_64bits_update(writer->hash, data, size);
	head.checksum = htole64(XXH3_64bits_digest(writer->hash));
	r = write_bytes(writer, &head, sizeof(head));
	if (r == 0 && begin_size)
		r = write_bytes(writer, begin, begin_size);
	return r == 0 ? write_bytes(writer, data, size) : r;
}

static int write_index(struct sbt_writer *writer)
{
	struct sbt_index_head head = {
		.before = htole64(writer->index),
		.first = htole64(writer->first),
	};
	uint64_t offset = writer->size;
	const void *data;
	size_t size;
	int r = sbt_rows_end(writer->rows, &data, &size);

	if (r == 0)
		r = write_block(writer, SBT_BLOCK_INDEX, &head, sizeof(head), data, size);
	if (r < 0)
		return r;
	writer->index = offset;
	return begin_index(writer);
}

static int add_entry(struct sbt_writer *writer, uint32_t type, size_t size,
		     const struct sbt_info *info)
{
	struct sbt_value value[INDEX_COLUMNS] = { 0 };

#define SET(column, number)                                                                        \
	value[column] = (struct sbt_value){ .type = SBT_INTEGER, .integer = (int64_t)(number) }
	SET(INDEX_TYPE, type);
	SET(INDEX_SIZE, size);
	if (type == SBT_BLOCK_OPS) {
		SET(INDEX_PROCESS, info->process);
		SET(INDEX_STREAM, info->stream);
		SET(INDEX_KIND, info->kind);
		SET(INDEX_OPS, info->count);
		SET(INDEX_FIRST_NS, info->first_ns);
		SET(INDEX_LAST_NS, info->last_ns);
	}
#undef SET
	return sbt_rows_add(writer->rows, value);
}

int sbt_writer_add(struct sbt_writer *writer, enum sbt_block_type type, const void *data,
		   size_t size)
{
	struct sbt_info info = { 0 };
	int r;

	if (size > SBT_BLOCK_MAX || (type != SBT_BLOCK_OPS && type != SBT_BLOCK_ROWS))
		return -EBADMSG;
	if (type == SBT_BLOCK_OPS && (sbt_peek(data, size, &info) < 0 || info.size != size))
		return -EBADMSG;
	r = write_block(writer, type, NULL, 0, data, size);
	if (r == 0)
		r = add_entry(writer, type, size, &info);
	if (r == 0 && sbt_rows_count(writer->rows) == SBT_INDEX_ENTRIES)
		r = write_index(writer);
	return r;
}

int sbt_writer_end(struct sbt_writer *writer)
{
	struct sbt_tail tail = { 0 };
	int r = write_index(writer);

	if (r < 0)
		return r;
	tail.index = htole64(writer->index);
	tail.offset = htole64(writer->size);
	tail.checksum = htole64(XXH3_64bits(&tail, offsetof(struct sbt_tail, checksum)));
	memcpy(tail.magic, SBT_TAIL_MAGIC, SBT_MAGIC_SIZE);
	return write_bytes(writer, &tail, sizeof(tail));
}

uint64_t sbt_writer_size(const struct sbt_writer *writer)
{
	return writer->size;
}
