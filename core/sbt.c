/* Sbt: writes and reads chunks. Nothing of a chunk is believed before its checksum and its own
 * lengths agree; reading stays within the bytes given and the ops it has room for.
 *
 * A chunk is a head and a body; numbers are little-endian.
 *   offset size
 *	0    4	"SBT" and the version, 1
 *	4    4	size of the whole chunk in bytes
 *	8    8	XXH3_64bits of everything from offset 16 to the end
 *     16    4	process
 *     20    4	stream
 *     24    8	first_ns: the smallest start_ns
 *     32    8	last_ns: the largest of start_ns, end_ns and gpu_end_ns
 *     40    4	number of ops, 1 to SBT_OPS_MAX
 *     44    4	size of the body when it is not compressed
 *     48    1	kind (enum op_kind)
 *     49    1	flags: bit 0, the body is one zstd frame
 *     50    1	number of columns
 *     51    1	0
 *     52	the body
 * The body is the columns, by rising number, each: number (SBT_COLUMNS), encoding (enum
 * sbt_encoding, plus 16 where the values are relative), length of the data as a varint, data.
 * How the data of each encoding looks is in sbt_column.h.
 * A column that is not there is 0 in every op. Signed fields are stored as the unsigned number with
 * the same bits. A relative time is 0 where the time is 0, else the time minus start_ns, plus 1
 * where it is not before start_ns, modulo 2^64.
 */
#include "core/sbt.h"

#include <endian.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <zstd.h>

#include "core/base/cleanup.h"
#include "core/sbt_column.h"

#define SBT_MAGIC	    0x01544253 /* "SBT\1" */
#define SBT_HEAD_SIZE	    52
#define SBT_CHECKED_FROM    16
#define SBT_COMPRESSED	    1
#define SBT_RELATIVE	    16
#define SBT_LEVEL	    1  /* of zstd: higher ones gain little on columns, and cost much */
#define SBT_COLUMN_HEAD_MAX 16 /* number, encoding, length, base, shift */
#define SBT_BODY_MAX	    (SBT_COLUMN_COUNT * (SBT_COLUMN_HEAD_MAX + (size_t)SBT_OPS_MAX * 10))
#define OP_WORDS	    (sizeof(struct op) / sizeof(uint64_t))

_Static_assert(sizeof(struct op) % sizeof(uint64_t) == 0, "an op is whole words");

struct head {
	uint32_t magic, size;
	uint64_t checksum;
	uint32_t process, stream;
	uint64_t first_ns, last_ns;
	uint32_t count, body_size;
	uint8_t kind, flags, column_count, zero;
};
_Static_assert(offsetof(struct head, zero) == SBT_HEAD_SIZE - 1, "the head has no holes");

struct sbt_codec {
	ZSTD_CCtx *compressor;
	ZSTD_DCtx *decompressor;
	uint64_t start[SBT_OPS_MAX], value[SBT_OPS_MAX], relative[SBT_OPS_MAX];
	struct sbt_plan plan, relative_plan;
	uint8_t body[SBT_BODY_MAX];
	uint8_t chunk[SBT_HEAD_SIZE + SBT_BODY_MAX];
};

struct field {
	uint8_t offset, width;
	bool time; /* may be relative to start_ns */
};

#define X(number, name)                                                                            \
	[number] = { offsetof(struct op, name), sizeof(((struct op *)0)->name),                    \
		     ((number) >= 1 && (number) <= 3) || (number) == 24 },
static const struct field fields[SBT_COLUMN_COUNT] = { SBT_COLUMNS(X) };
#undef X

int sbt_codec_new(struct sbt_codec **ret)
{
	struct sbt_codec *codec = calloc(1, sizeof(*codec));

	if (!codec)
		return -ENOMEM;
	codec->compressor = ZSTD_createCCtx();
	codec->decompressor = ZSTD_createDCtx();
	if (!codec->compressor || !codec->decompressor) {
		sbt_codec_free(codec);
		return -ENOMEM;
	}
	*ret = codec;
	return 0;
}

struct sbt_codec *sbt_codec_free(struct sbt_codec *codec)
{
	if (codec) {
		ZSTD_freeCCtx(codec->compressor);
		ZSTD_freeDCtx(codec->decompressor);
	}
	free(codec);
	return NULL;
}

#define FIELD_LOOP(type, statement)                                                                \
	for (size_t i = 0; i < count; i++, at += sizeof(struct op)) {                              \
		type one;                                                                          \
		statement;                                                                         \
	}                                                                                          \
	break

static void field_load(const struct field *field, const struct op *op, size_t count,
		       uint64_t *value)
{
	const char *at = (const char *)op + field->offset;

#define LOAD (memcpy(&one, at, sizeof(one)), value[i] = one)
	switch (field->width) {
	case 1:
		FIELD_LOOP(uint8_t, LOAD);
	case 2:
		FIELD_LOOP(uint16_t, LOAD);
	case 4:
		FIELD_LOOP(uint32_t, LOAD);
	case 8:
		FIELD_LOOP(uint64_t, LOAD);
	}
#undef LOAD
}

static int field_store(const struct field *field, const uint64_t *value, size_t count,
		       struct op *op)
{
	char *at = (char *)op + field->offset;
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++)
		all |= value[i];
	if (field->width < 8 && all >> (8 * field->width))
		return -EBADMSG;
#define STORE (one = (__typeof__(one))value[i], memcpy(at, &one, sizeof(one)))
	switch (field->width) {
	case 1:
		FIELD_LOOP(uint8_t, STORE);
	case 2:
		FIELD_LOOP(uint16_t, STORE);
	case 4:
		FIELD_LOOP(uint32_t, STORE);
	case 8:
		FIELD_LOOP(uint64_t, STORE);
	}
#undef STORE
	return 0;
}

static void make_relative(const uint64_t *start, const uint64_t *value, size_t count, uint64_t *ret)
{
	for (size_t i = 0; i < count; i++)
		ret[i] = value[i] ? value[i] - start[i] + (value[i] >= start[i]) : 0;
}

static void make_absolute(const uint64_t *start, uint64_t *value, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t time = start[i] + value[i] - 1;

		if (value[i])
			value[i] = time + (time < start[i]);
	}
}

/* Which bits differ from op to op, so that most columns need not be looked at. */
static void find_differences(const struct op *op, size_t count, uint64_t *ret)
{
	uint64_t first[OP_WORDS], word[OP_WORDS];

	memcpy(first, op, sizeof(first));
	memset(ret, 0, sizeof(first));
	for (size_t i = 1; i < count; i++) {
		memcpy(word, &op[i], sizeof(word));
		for (size_t k = 0; k < OP_WORDS; k++)
			ret[k] |= word[k] ^ first[k];
	}
}

static uint8_t *put_column(struct sbt_codec *codec, unsigned int number, const struct op *op,
			   size_t count, uint8_t *at)
{
	const struct field *field = &fields[number];
	const struct sbt_plan *plan = &codec->plan;
	const uint64_t *value = codec->value;
	unsigned int relative = 0;

	field_load(field, op, count, codec->value);
	sbt_column_plan(codec->value, count, &codec->plan);
	if (field->time) {
		make_relative(codec->start, codec->value, count, codec->relative);
		sbt_column_plan(codec->relative, count, &codec->relative_plan);
		if (codec->relative_plan.size < plan->size) {
			plan = &codec->relative_plan;
			value = codec->relative;
			relative = SBT_RELATIVE;
		}
	}
	*at++ = (uint8_t)number;
	*at++ = (uint8_t)(plan->encoding | relative);
	at = varint_put(at, plan->size);
	return sbt_column_put(plan, value, count, at);
}

/* A column that is the same in every op, and not 0. */
static uint8_t *put_constant(unsigned int number, uint64_t value, uint8_t *at)
{
	*at++ = (uint8_t)number;
	*at++ = SBT_CONSTANT;
	at = varint_put(at, varint_size(value));
	return varint_put(at, value);
}

static size_t put_body(struct sbt_codec *codec, const struct op *op, size_t count,
		       uint8_t *ret_columns)
{
	uint64_t differences[OP_WORDS], differs, value;
	uint8_t *at = codec->body;

	*ret_columns = 0;
	field_load(&fields[0], op, count, codec->start);
	find_differences(op, count, differences);
	for (unsigned int i = 0; i < SBT_COLUMN_COUNT; i++) {
		field_load(&fields[i], (const struct op *)differences, 1, &differs);
		field_load(&fields[i], op, 1, &value);
		if (!differs && !value)
			continue;
		if (differs || fields[i].time)
			at = put_column(codec, i, op, count, at);
		else
			at = put_constant(i, value, at);
		++*ret_columns;
	}
	return (size_t)(at - codec->body);
}

static void find_times(const struct op *op, size_t count, struct head *head)
{
	uint64_t first = op->start_ns, last = 0;

	for (size_t i = 0; i < count; i++) {
		first = op[i].start_ns < first ? op[i].start_ns : first;
		last = op[i].start_ns > last ? op[i].start_ns : last;
		last = op[i].end_ns > last ? op[i].end_ns : last;
		last = op[i].gpu_end_ns > last ? op[i].gpu_end_ns : last;
	}
	head->first_ns = htole64(first);
	head->last_ns = htole64(last);
}

/* Puts the body behind the head, compressed where that is shorter; returns its size there. */
static size_t close_body(struct sbt_codec *codec, size_t body_size, uint8_t *ret_flags)
{
	uint8_t *to = codec->chunk + SBT_HEAD_SIZE;
	size_t size = ZSTD_compressCCtx(codec->compressor, to, SBT_BODY_MAX, codec->body, body_size,
					SBT_LEVEL);

	*ret_flags = SBT_COMPRESSED;
	if (!ZSTD_isError(size) && size < body_size)
		return size;
	*ret_flags = 0;
	memcpy(to, codec->body, body_size);
	return body_size;
}

int sbt_encode(struct sbt_codec *codec, const struct op *op, size_t count, const void **ret_data,
	       size_t *ret_size)
{
	struct head head = { .magic = htole32(SBT_MAGIC) };
	size_t body_size, size;

	if (count < 1 || count > SBT_OPS_MAX)
		return -EINVAL;
	body_size = put_body(codec, op, count, &head.column_count);
	size = SBT_HEAD_SIZE + close_body(codec, body_size, &head.flags);
	find_times(op, count, &head);
	head.size = htole32((uint32_t)size);
	head.process = htole32(op->process);
	head.stream = htole32(op->stream);
	head.kind = op->kind;
	head.count = htole32((uint32_t)count);
	head.body_size = htole32((uint32_t)body_size);
	memcpy(codec->chunk, &head, SBT_HEAD_SIZE);
	head.checksum =
		htole64(XXH3_64bits(codec->chunk + SBT_CHECKED_FROM, size - SBT_CHECKED_FROM));
	memcpy(codec->chunk, &head, SBT_HEAD_SIZE);
	*ret_data = codec->chunk;
	*ret_size = size;
	return 0;
}

static int read_head(const void *data, size_t size, struct head *ret)
{
	struct head head;

	if (size < SBT_HEAD_SIZE)
		return -ENODATA;
	memcpy(&head, data, SBT_HEAD_SIZE);
	head.magic = le32toh(head.magic);
	head.size = le32toh(head.size);
	head.checksum = le64toh(head.checksum);
	head.process = le32toh(head.process);
	head.stream = le32toh(head.stream);
	head.first_ns = le64toh(head.first_ns);
	head.last_ns = le64toh(head.last_ns);
	head.count = le32toh(head.count);
	head.body_size = le32toh(head.body_size);
	if (head.magic != SBT_MAGIC || head.size < SBT_HEAD_SIZE ||
	    head.size > SBT_HEAD_SIZE + SBT_BODY_MAX || head.count < 1 ||
	    head.count > SBT_OPS_MAX || head.body_size > SBT_BODY_MAX || head.zero)
		return -EBADMSG;
	if (head.size > size)
		return -ENODATA;
	*ret = head;
	return 0;
}

static void fill_info(const struct head *head, struct sbt_info *ret)
{
	*ret = (struct sbt_info){
		.process = head->process,
		.stream = head->stream,
		.kind = head->kind,
		.count = head->count,
		.first_ns = head->first_ns,
		.last_ns = head->last_ns,
		.size = head->size,
	};
}

int sbt_peek(const void *data, size_t size, struct sbt_info *ret)
{
	struct head head;
	int r = read_head(data, size, &head);

	if (r < 0)
		return r;
	fill_info(&head, ret);
	return 0;
}

/* The body of a chunk, decompressed. */
static int open_body(struct sbt_codec *codec, const struct head *head, const uint8_t *data,
		     const uint8_t **ret)
{
	size_t size = head->size - SBT_HEAD_SIZE;

	if (XXH3_64bits(data + SBT_CHECKED_FROM, head->size - SBT_CHECKED_FROM) != head->checksum)
		return -EBADMSG;
	if (head->flags & SBT_COMPRESSED) {
		size = ZSTD_decompressDCtx(codec->decompressor, codec->body, SBT_BODY_MAX,
					   data + SBT_HEAD_SIZE, size);
		*ret = codec->body;
	} else {
		*ret = data + SBT_HEAD_SIZE;
	}
	return ZSTD_isError(size) || size != head->body_size ? -EBADMSG : 0;
}

/* One column's data into the ops, where it is wanted. */
static int take_column(struct sbt_codec *codec, unsigned int number, unsigned int encoding,
		       const uint8_t *data, size_t size, uint32_t columns, struct op *op,
		       size_t count)
{
	bool relative = encoding & SBT_RELATIVE;
	uint64_t *value = number == 0 ? codec->start : codec->value;
	int r;

	if (number >= SBT_COLUMN_COUNT || (number && !(columns >> number & 1)))
		return 0;
	if (relative && !fields[number].time)
		return -EBADMSG;
	r = sbt_column_get(encoding & ~(unsigned int)SBT_RELATIVE, data, size, value, count);
	if (r < 0)
		return r;
	if (relative)
		make_absolute(codec->start, value, count);
	return columns >> number & 1 ? field_store(&fields[number], value, count, op) : 0;
}

static int take_body(struct sbt_codec *codec, const struct head *head, const uint8_t *at,
		     uint32_t columns, struct op *op)
{
	const uint8_t *end = at + head->body_size;
	int before = -1, r;
	uint64_t size;

	memset(codec->start, 0, head->count * sizeof(codec->start[0]));
	for (unsigned int i = 0; i < head->column_count; i++) {
		unsigned int number, encoding;

		if (end - at < 2)
			return -EBADMSG;
		number = *at++;
		encoding = *at++;
		at = varint_get(at, end, &size);
		if (!at || size > (size_t)(end - at) || (int)number <= before)
			return -EBADMSG;
		r = take_column(codec, number, encoding, at, size, columns, op, head->count);
		if (r < 0)
			return r;
		before = (int)number;
		at += size;
	}
	return at == end ? 0 : -EBADMSG;
}

int sbt_decode(struct sbt_codec *codec, const void *data, size_t size, uint32_t columns,
	       struct op *op, struct sbt_info *ret)
{
	struct head head;
	const uint8_t *body;
	int r = read_head(data, size, &head);

	if (r < 0)
		return r;
	r = open_body(codec, &head, data, &body);
	if (r < 0)
		return r;
	memset(op, 0, head.count * sizeof(*op));
	for (size_t i = 0; i < head.count; i++) {
		op[i].process = head.process;
		op[i].stream = head.stream;
		op[i].kind = head.kind;
	}
	r = take_body(codec, &head, body, columns, op);
	if (r < 0)
		return r;
	fill_info(&head, ret);
	return 0;
}
