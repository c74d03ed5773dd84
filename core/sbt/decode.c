/* Decode: a chunk into ops. The wanted columns, and those that they refer to, are read side by
 * side, a group of values at a time, so that the ops are written while they are in the cache. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/sbt/codec.h"

int sbt_decoder_new(struct sbt_decoder **ret)
{
	_cleanup_(sbt_decoder_freep) struct sbt_decoder *decoder = calloc(1, sizeof(*decoder));

	if (!decoder)
		return -ENOMEM;
	decoder->decompressor = ZSTD_createDCtx();
	if (!decoder->decompressor)
		return -ENOMEM;
	*ret = TAKE(decoder);
	return 0;
}

struct sbt_decoder *sbt_decoder_free(struct sbt_decoder *decoder)
{
	if (decoder)
		ZSTD_freeDCtx(decoder->decompressor);
	free(decoder);
	return NULL;
}

/* The body of a chunk, decompressed. */
static int open_body(struct sbt_decoder *decoder, const struct sbt_head *head, const uint8_t *data,
		     const uint8_t **ret)
{
	size_t size = head->size - SBT_HEAD_SIZE;

	if (XXH3_64bits(data + SBT_CHECKED_FROM, head->size - SBT_CHECKED_FROM) != head->checksum)
		return -EBADMSG;
	if (head->flags & SBT_COMPRESSED) {
		size = ZSTD_decompressDCtx(decoder->decompressor, decoder->body, SBT_BODY_MAX,
					   data + SBT_HEAD_SIZE, size);
		*ret = decoder->body;
	} else {
		*ret = data + SBT_HEAD_SIZE;
	}
	return ZSTD_isError(size) || size != head->body_size ? -EBADMSG : 0;
}

/* Where in the body each column is. */
static int find_parts(struct sbt_decoder *decoder, const struct sbt_head *head, const uint8_t *at,
		      uint32_t columns)
{
	const uint8_t *end = at + head->body_size;
	int before = -1;
	uint64_t size;

	memset(decoder->part, 0, sizeof(decoder->part));
	for (unsigned int i = 0; i < head->column_count; i++) {
		unsigned int number;
		uint8_t encoding;

		if (end - at < 2)
			return -EBADMSG;
		number = *at++;
		encoding = *at++;
		at = varint_get(at, end, &size);
		if (!at || size > (size_t)(end - at) || (int)number <= before)
			return -EBADMSG;
		if (number < SBT_COLUMN_COUNT) {
			bool wanted = columns >> number & 1;

			if (!encoding)
				return -EBADMSG;
			decoder->part[number] =
				(struct sbt_part){ at, size, encoding, wanted, wanted };
		}
		before = (int)number;
		at += size;
	}
	return at == end ? 0 : -EBADMSG;
}

/* Which column another's times are relative to, besides start_ns. */
static unsigned int reference(const struct sbt_part *part, unsigned int number)
{
	switch (part->encoding & SBT_MODE_MASK) {
	case SBT_CHAINED:
		return number == COLUMN_GPU_END ? COLUMN_GPU_START : COLUMN_GPU_END;
	case SBT_FROM_END:
		return COLUMN_END;
	}
	return COLUMN_START;
}

/* References go to lower columns, except gpu_start_ns: from there a second step. */
static void find_needed(struct sbt_decoder *decoder)
{
	static const uint8_t order[] = { COLUMN_SEEN,	 COLUMN_GPU_END,   COLUMN_GPU_START,
					 COLUMN_GPU_END, COLUMN_GPU_START, COLUMN_END };
	struct sbt_part *part = decoder->part;

	for (size_t i = 0; i < sizeof(order); i++) {
		struct sbt_part *one = &part[order[i]];

		if (!one->needed || !(one->encoding & SBT_MODE_MASK))
			continue;
		part[COLUMN_START].needed = true;
		part[reference(one, order[i])].needed = true;
	}
}

/* The data of a column, decompressed to *room, which advances. */
static int open_data(struct sbt_decoder *decoder, struct sbt_part *part, uint8_t **room)
{
	const uint8_t *end = part->data + part->size, *at;
	uint64_t size;

	if (!(part->encoding & SBT_COLUMN_COMPRESSED))
		return 0;
	at = varint_get(part->data, end, &size);
	if (!at || size > SBT_COLUMN_MAX ||
	    ZSTD_decompressDCtx(decoder->decompressor, *room, size, at, (size_t)(end - at)) != size)
		return -EBADMSG;
	part->data = *room;
	part->size = size;
	part->encoding &= (uint8_t)~SBT_COLUMN_COMPRESSED;
	*room += size;
	return 0;
}

/* A mapped column needs the one that it is mapped from. */
static int need_map(struct sbt_decoder *decoder, unsigned int number)
{
	const struct sbt_part *part = &decoder->part[number];
	const uint8_t *end = part->data + part->size, *at;
	uint64_t base;

	if ((part->encoding & SBT_ENCODING_MASK) != SBT_MAPPED)
		return 0;
	at = varint_get(part->data, end, &base);
	if (!at || end - at < 2 || at[1] >= number || sbt_is_time(at[1]) ||
	    !decoder->part[at[1]].encoding)
		return -EBADMSG;
	decoder->part[at[1]].needed = true;
	return 0;
}

static int open_part(struct sbt_decoder *decoder, unsigned int number, uint8_t **room)
{
	struct sbt_part *part = &decoder->part[number];
	unsigned int mode = part->encoding & SBT_MODE_MASK;
	int r;

	if (mode && !(sbt_fields[number].modes & SBT_MODE_BIT(mode)))
		return -EBADMSG;
	r = open_data(decoder, part, room);
	return r < 0 ? r : need_map(decoder, number);
}

static int open_columns(struct sbt_decoder *decoder)
{
	uint8_t *room = decoder->data;
	int r = 0;

	find_needed(decoder);
	for (unsigned int i = SBT_COLUMN_COUNT; r == 0 && i-- > 0;) {
		struct sbt_part *part = &decoder->part[i];

		part->needed &= part->encoding != 0;
		if (part->needed)
			r = open_part(decoder, i, &room);
		else if (sbt_is_time(i))
			memset(decoder->value[i], 0, sizeof(decoder->value[i]));
	}
	for (unsigned int i = 0; r == 0 && i < SBT_COLUMN_COUNT; i++) {
		const struct sbt_part *part = &decoder->part[i];

		decoder->column[i].encoding = 0;
		if (part->needed)
			r = sbt_column_open(part->encoding & ~SBT_MODE_MASK, part->data, part->size,
					    decoder->column, i, &decoder->column[i]);
	}
	return r;
}

#define STORE_LOOP(type)                                                                           \
	for (size_t i = 0; i < count; i++, at += sizeof(struct op)) {                              \
		type one = (type)value[i];                                                         \
                                                                                                   \
		memcpy(at, &one, sizeof(one));                                                     \
	}                                                                                          \
	break

static int field_store(unsigned int number, const uint64_t *value, size_t count, struct op *op)
{
	const struct sbt_field *field = &sbt_fields[number];
	char *at = (char *)op + field->offset;
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++)
		all |= value[i];
	if (field->width < 8 && all >> (8 * field->width))
		return -EBADMSG;
	switch (field->width) {
	case 1:
		STORE_LOOP(uint8_t);
	case 2:
		STORE_LOOP(uint16_t);
	case 4:
		STORE_LOOP(uint32_t);
	case 8:
		STORE_LOOP(uint64_t);
	}
	return 0;
}

static inline uint64_t absolute(uint64_t value, uint64_t to)
{
	uint64_t time = to + value - 1;

	return value ? time + (time < to) : 0;
}

static void make_absolute(struct sbt_decoder *decoder, unsigned int number, size_t count)
{
	const struct sbt_part *part = &decoder->part[number];
	const uint64_t *to = decoder->value[reference(part, number)];
	uint64_t *value = decoder->value[number];

	if (part->needed && part->encoding & SBT_MODE_MASK)
		for (size_t i = 0; i < count; i++)
			value[i] = absolute(value[i], to[i]);
}

/* The start on the device depends on the end of the op before, which may depend on its start. */
static void follow_chain(struct sbt_decoder *decoder, size_t count)
{
	const uint64_t *start = decoder->value[COLUMN_START];
	uint64_t *gpu_start = decoder->value[COLUMN_GPU_START];
	uint64_t *gpu_end = decoder->value[COLUMN_GPU_END];
	const struct sbt_part *end = &decoder->part[COLUMN_GPU_END];
	const uint64_t *to = decoder->value[reference(end, COLUMN_GPU_END)];
	bool is_absolute = !(end->encoding & SBT_MODE_MASK);
	uint64_t before = decoder->last_gpu_end;

	for (size_t i = 0; i < count; i++) {
		gpu_start[i] = absolute(gpu_start[i], start[i] > before ? start[i] : before);
		if (!is_absolute)
			gpu_end[i] = absolute(gpu_end[i], to[i]);
		before = gpu_end[i];
	}
	decoder->last_gpu_end = before;
}

static bool is_chained(const struct sbt_part *part)
{
	return (part->encoding & SBT_MODE_MASK) == SBT_CHAINED;
}

static void find_times(struct sbt_decoder *decoder, size_t count)
{
	const struct sbt_part *part = decoder->part;

	make_absolute(decoder, COLUMN_END, count);
	if (part[COLUMN_GPU_START].needed && is_chained(&part[COLUMN_GPU_START])) {
		follow_chain(decoder, count);
	} else {
		make_absolute(decoder, COLUMN_GPU_START, count);
		make_absolute(decoder, COLUMN_GPU_END, count);
	}
	make_absolute(decoder, COLUMN_SEEN, count);
}

/* What is the same in every op: one is the template. */
static int make_first(struct sbt_decoder *decoder, const struct sbt_head *head, struct op *ret)
{
	*ret = (struct op){
		.process = head->process,
		.stream = head->stream,
		.kind = head->kind,
	};
	for (unsigned int i = 0; i < SBT_COLUMN_COUNT; i++) {
		struct sbt_part *part = &decoder->part[i];
		const struct sbt_column *column = &decoder->column[i];
		int r;

		if (!part->needed || column->encoding != SBT_CONSTANT)
			continue;
		if (!sbt_column_done(column))
			return -EBADMSG;
		if (sbt_is_time(i) || !part->wanted)
			continue;
		r = field_store(i, &column->base, 1, ret);
		if (r < 0)
			return r;
		part->needed = part->wanted = false;
	}
	return 0;
}

static int read_group(struct sbt_decoder *decoder, size_t count, struct op *op)
{
	int r = 0;

	for (unsigned int i = 0; r == 0 && i < SBT_COLUMN_COUNT; i++)
		if (decoder->part[i].needed)
			r = sbt_column_next(&decoder->column[i], decoder->value[i], count);
	if (r < 0)
		return r;
	find_times(decoder, count);
	for (unsigned int i = 0; r == 0 && i < SBT_COLUMN_COUNT; i++)
		if (decoder->part[i].wanted)
			r = field_store(i, decoder->value[i], count, op);
	return r;
}

static int read_ops(struct sbt_decoder *decoder, const struct sbt_head *head, struct op *op)
{
	struct op first;
	int r = make_first(decoder, head, &first);

	decoder->last_gpu_end = 0;
	for (size_t i = 0; r == 0 && i < head->count; i += SBT_GROUP) {
		size_t count = head->count - i < SBT_GROUP ? head->count - i : SBT_GROUP;

		for (size_t k = 0; k < count; k++)
			op[i + k] = first;
		r = read_group(decoder, count, &op[i]);
	}
	for (unsigned int i = 0; r == 0 && i < SBT_COLUMN_COUNT; i++)
		if (decoder->part[i].needed && !sbt_column_done(&decoder->column[i]))
			r = -EBADMSG;
	return r;
}

int sbt_decode(struct sbt_codec *codec, const void *data, size_t size, uint32_t columns,
	       struct op *op, struct sbt_info *ret)
{
	struct sbt_head head;
	struct sbt_decoder *decoder;
	const uint8_t *body;
	int r = codec->decoder ? 0 : sbt_decoder_new(&codec->decoder);

	if (r == 0)
		r = sbt_head_read(data, size, &head);
	if (r < 0)
		return r;
	decoder = codec->decoder;
	if ((r = open_body(decoder, &head, data, &body)) < 0 ||
	    (r = find_parts(decoder, &head, body, columns)) < 0 ||
	    (r = open_columns(decoder)) < 0 || (r = read_ops(decoder, &head, op)) < 0)
		return r;
	sbt_head_info(&head, ret);
	return 0;
}
