/* Encode: ops into a chunk. Constant columns cost one pass over the ops together; for each other
 * one the encodings are measured, and the smallest is taken. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/sbt/codec.h"

#define LEVEL	   1	/* of zstd: higher levels gain little on columns and cost much */
#define COLUMN_OPS 2048 /* from this many ops on columns are compressed separately */
#define OP_WORDS   (sizeof(struct op) / sizeof(uint64_t))

int sbt_encoder_new(struct sbt_encoder **ret)
{
	_cleanup_(sbt_encoder_freep) struct sbt_encoder *encoder = calloc(1, sizeof(*encoder));

	if (!encoder)
		return -ENOMEM;
	encoder->compressor = ZSTD_createCCtx();
	if (!encoder->compressor)
		return -ENOMEM;
	*ret = TAKE(encoder);
	return 0;
}

struct sbt_encoder *sbt_encoder_free(struct sbt_encoder *encoder)
{
	if (encoder)
		ZSTD_freeCCtx(encoder->compressor);
	free(encoder);
	return NULL;
}

#define LOAD_LOOP(type)                                                                            \
	for (size_t i = 0; i < count; i++, at += sizeof(struct op)) {                              \
		type one;                                                                          \
                                                                                                   \
		memcpy(&one, at, sizeof(one));                                                     \
		value[i] = one;                                                                    \
	}                                                                                          \
	break

static void field_load(unsigned int number, const struct op *op, size_t count, uint64_t *value)
{
	const char *at = (const char *)op + sbt_fields[number].offset;

	switch (sbt_fields[number].width) {
	case 1:
		LOAD_LOOP(uint8_t);
	case 2:
		LOAD_LOOP(uint16_t);
	case 4:
		LOAD_LOOP(uint32_t);
	case 8:
		LOAD_LOOP(uint64_t);
	}
}

/* Adds which bits differ from the first op, so that most columns need no look. */
static void find_differences(const struct op *op, size_t begin, size_t end, uint64_t *ret)
{
	uint64_t first[OP_WORDS], word[OP_WORDS], all[OP_WORDS];

	memcpy(first, op, sizeof(first));
	memcpy(all, ret, sizeof(all));
	for (size_t i = begin; i < end; i++) {
		memcpy(word, &op[i], sizeof(word));
		/* An even number, so that it is done two at a time. */
		for (size_t k = 0; k < OP_WORDS / 2 * 2; k++)
			all[k] |= word[k] ^ first[k];
		if (OP_WORDS % 2)
			all[OP_WORDS - 1] |= word[OP_WORDS - 1] ^ first[OP_WORDS - 1];
	}
	memcpy(ret, all, sizeof(all));
}

static bool is_zero(const uint64_t *value, size_t count)
{
	uint64_t all = 0;

	for (size_t i = 0; i < count; i++)
		all |= value[i];
	return !all;
}

static void make_relative(const uint64_t *to, const uint64_t *value, size_t count, uint64_t *ret)
{
	for (size_t i = 0; i < count; i++)
		ret[i] = value[i] ? value[i] - to[i] + (value[i] >= to[i]) : 0;
}

static const uint64_t *chain(struct sbt_encoder *encoder, size_t count)
{
	const uint64_t *start = encoder->values[COLUMN_START];
	const uint64_t *gpu_end = encoder->values[COLUMN_GPU_END];
	uint64_t before = 0;

	for (size_t i = 0; i < count; i++) {
		encoder->chain[i] = start[i] > before ? start[i] : before;
		before = gpu_end[i];
	}
	return encoder->chain;
}

/* What the times of a column are relative to. */
static const uint64_t *reference(struct sbt_encoder *encoder, unsigned int number,
				 unsigned int mode, size_t count)
{
	if (mode == SBT_RELATIVE)
		return encoder->values[COLUMN_START];
	if (mode == SBT_FROM_END)
		return encoder->values[COLUMN_END];
	if (number == COLUMN_GPU_START)
		return chain(encoder, count);
	return encoder->values[number == COLUMN_SEEN ? COLUMN_GPU_END : COLUMN_GPU_START];
}

/* Plans a column in each of its modes, and returns the best. */
static const struct sbt_plan *plan_modes(struct sbt_encoder *encoder, unsigned int number,
					 size_t count, unsigned int *ret_mode)
{
	struct sbt_plan *best = &encoder->plan[0], *other = &encoder->plan[1], *swap;
	const uint64_t *value = encoder->values[number];

	*ret_mode = 0;
	sbt_column_plan(value, count, best);
	for (unsigned int mode = SBT_RELATIVE; mode <= SBT_FROM_END; mode += SBT_RELATIVE) {
		if (!(sbt_fields[number].modes & SBT_MODE_BIT(mode)) || best->guess < 2)
			continue;
		make_relative(reference(encoder, number, mode, count), value, count,
			      encoder->relative);
		sbt_column_plan(encoder->relative, count, other);
		if (other->guess >= best->guess)
			continue;
		swap = best;
		best = other;
		other = swap;
		*ret_mode = mode;
	}
	return best;
}

/* NULL: it does not follow from an earlier column. */
static const struct sbt_plan *plan_map(struct sbt_encoder *encoder, unsigned int number,
				       size_t count)
{
	for (unsigned int i = 0; i < encoder->dictionary_count; i++)
		if (sbt_column_map(&encoder->dictionary[i], encoder->dictionary_column[i],
				   encoder->values[number], count, &encoder->plan[1]))
			return &encoder->plan[1];
	return NULL;
}

static const struct sbt_plan *plan_column(struct sbt_encoder *encoder, unsigned int number,
					  size_t count, unsigned int *ret_mode)
{
	const struct sbt_plan *map, *plan;

	if (sbt_fields[number].modes)
		return plan_modes(encoder, number, count, ret_mode);
	*ret_mode = 0;
	map = plan_map(encoder, number, count);
	if (map && map->guess < count / 8)
		return map;
	plan = &encoder->plan[0];
	sbt_column_plan(encoder->values[number], count, &encoder->plan[0]);
	return map && map->guess < plan->guess ? map : plan;
}

/* Compresses the bytes of a column; the result with its header, or SIZE_MAX. */
static size_t compress_column(struct sbt_encoder *encoder, size_t bytes)
{
	uint8_t *at = varint_put(encoder->compressed, bytes);
	size_t size = ZSTD_compressCCtx(encoder->compressor, at,
					sizeof(encoder->compressed) - SBT_VARINT_MAX,
					encoder->column, bytes, LEVEL);

	return ZSTD_isError(size) ? SIZE_MAX : (size_t)(at - encoder->compressed) + size;
}

static uint8_t *column_head(unsigned int number, unsigned int encoding, size_t size, uint8_t *at)
{
	*at++ = (uint8_t)number;
	*at++ = (uint8_t)encoding;
	return varint_put(at, size);
}

static void keep_dictionary(struct sbt_encoder *encoder, unsigned int number,
			    const struct sbt_dictionary *dictionary, size_t count)
{
	struct sbt_dictionary *kept = &encoder->dictionary[encoder->dictionary_count];

	if (encoder->dictionary_count == SBT_DICTIONARIES_MAX)
		return;
	encoder->dictionary_column[encoder->dictionary_count++] = (uint8_t)number;
	kept->count = dictionary->count;
	memcpy(kept->index, dictionary->index, count);
}

static uint8_t *put_data(uint8_t *at, unsigned int number, unsigned int encoding,
			 const uint8_t *data, size_t size)
{
	at = column_head(number, encoding, size, at);
	memcpy(at, data, size);
	return at + size;
}

/* The smallest of its bytes, its compressed bytes, and its bits. */
static uint8_t *put_smallest(struct sbt_encoder *encoder, unsigned int number, size_t count,
			     const struct sbt_plan *plan, unsigned int mode, uint8_t *at)
{
	size_t packed = plan->packed_size, bytes, compressed = SIZE_MAX;

	bytes = (size_t)(sbt_column_put(plan, plan->bytes, count, encoder->column) -
			 encoder->column);
	if (count >= COLUMN_OPS)
		compressed = compress_column(encoder, bytes);
	if (compressed < bytes && compressed < packed)
		return put_data(at, number, plan->bytes | mode | SBT_COLUMN_COMPRESSED,
				encoder->compressed, compressed);
	if (bytes <= packed)
		return put_data(at, number, plan->bytes | mode, encoder->column, bytes);
	at = column_head(number, plan->packed | mode, packed, at);
	return sbt_column_put(plan, plan->packed, count, at);
}

static uint8_t *put_column(struct sbt_encoder *encoder, unsigned int number, size_t count,
			   uint8_t *at)
{
	unsigned int mode;
	const struct sbt_plan *plan = plan_column(encoder, number, count, &mode);
	uint8_t *head = at;

	if (plan->bytes == plan->packed || plan->packed_size < count / 16) {
		at = column_head(number, plan->packed | mode, plan->packed_size, at);
		at = sbt_column_put(plan, plan->packed, count, at);
	} else {
		at = put_smallest(encoder, number, count, plan, mode, at);
	}
	if (sbt_has_dictionary(head[1] & SBT_ENCODING_MASK) && !sbt_is_time(number))
		keep_dictionary(encoder, number, &plan->dictionary, count);
	return at;
}

/* A column that is the same in every op, and nonzero. */
static uint8_t *put_constant(unsigned int number, uint64_t value, uint8_t *at)
{
	return varint_put(column_head(number, SBT_CONSTANT, varint_size(value), at), value);
}

/* Some ops' values of the columns that differ, as far as known. One that starts to differ was the
 * same until here. */
static void load_columns(struct sbt_encoder *encoder, const struct op *op, size_t begin, size_t end)
{
	const struct op *differences = (const struct op *)encoder->difference;

	for (unsigned int i = 0; i < SBT_COLUMN_COUNT; i++) {
		uint64_t *value = encoder->values[i];
		uint64_t differs;

		field_load(i, differences, 1, &differs);
		if (!differs && !sbt_is_time(i))
			continue;
		if (!encoder->differs[i]) {
			field_load(i, op, 1, value);
			for (size_t k = 1; k < begin; k++)
				value[k] = value[0];
		}
		encoder->differs[i] = true;
		field_load(i, op + begin, end - begin, value + begin);
	}
}

/* Part of the ops at a time, so that it is in the cache while its columns are extracted. */
static void load_ops(struct sbt_encoder *encoder, const struct op *op, size_t count)
{
	memset(encoder->difference, 0, sizeof(encoder->difference));
	memset(encoder->differs, 0, sizeof(encoder->differs));
	for (size_t begin = 0; begin < count; begin += SBT_GROUP) {
		size_t end = count - begin < SBT_GROUP ? count : begin + SBT_GROUP;

		find_differences(op, begin, end, encoder->difference);
		load_columns(encoder, op, begin, end);
	}
}

static size_t put_body(struct sbt_encoder *encoder, const struct op *op, size_t count,
		       uint8_t *ret_columns)
{
	uint8_t *at = encoder->body;
	uint64_t first;

	*ret_columns = 0;
	encoder->dictionary_count = 0;
	load_ops(encoder, op, count);
	for (unsigned int i = 0; i < SBT_COLUMN_COUNT; i++) {
		field_load(i, op, 1, &first);
		if (!first && (!encoder->differs[i] || is_zero(encoder->values[i], count)))
			continue;
		at = encoder->differs[i] ? put_column(encoder, i, count, at)
					 : put_constant(i, first, at);
		++*ret_columns;
	}
	return (size_t)(at - encoder->body);
}

static void find_times(const struct sbt_encoder *encoder, size_t count, struct sbt_head *head)
{
	const uint64_t *start = encoder->values[COLUMN_START];
	const uint64_t *end = encoder->values[COLUMN_END];
	const uint64_t *gpu_end = encoder->values[COLUMN_GPU_END];
	uint64_t first = start[0], last = 0;

	for (size_t i = 0; i < count; i++) {
		first = start[i] < first ? start[i] : first;
		last = start[i] > last ? start[i] : last;
		last = end[i] > last ? end[i] : last;
		last = gpu_end[i] > last ? gpu_end[i] : last;
	}
	head->first_ns = htole64(first);
	head->last_ns = htole64(last);
}

/* Puts the body after the head, compressed if that was not done yet and is shorter; returns its
 * size there. */
static size_t close_body(struct sbt_encoder *encoder, size_t count, size_t body_size,
			 uint8_t *ret_flags)
{
	uint8_t *to = encoder->chunk + SBT_HEAD_SIZE;
	size_t size = body_size;

	if (count < COLUMN_OPS)
		size = ZSTD_compressCCtx(encoder->compressor, to, SBT_BODY_MAX, encoder->body,
					 body_size, LEVEL);
	*ret_flags = SBT_COMPRESSED;
	if (!ZSTD_isError(size) && size < body_size)
		return size;
	*ret_flags = 0;
	memcpy(to, encoder->body, body_size);
	return body_size;
}

int sbt_encode(struct sbt_codec *codec, const struct op *op, size_t count, const void **ret_data,
	       size_t *ret_size)
{
	struct sbt_head head = { .magic = htole32(SBT_MAGIC) };
	struct sbt_encoder *encoder;
	size_t body_size, size;
	int r = codec->encoder ? 0 : sbt_encoder_new(&codec->encoder);

	if (r < 0)
		return r;
	if (count < 1 || count > SBT_OPS_MAX)
		return -EINVAL;
	encoder = codec->encoder;
	body_size = put_body(encoder, op, count, &head.column_count);
	size = SBT_HEAD_SIZE + close_body(encoder, count, body_size, &head.flags);
	find_times(encoder, count, &head);
	head.size = htole32((uint32_t)size);
	head.process = htole32(op->process);
	head.stream = htole32(op->stream);
	head.kind = op->kind;
	head.count = htole32((uint32_t)count);
	head.body_size = htole32((uint32_t)body_size);
	memcpy(encoder->chunk, &head, SBT_HEAD_SIZE);
	head.checksum =
		htole64(XXH3_64bits(encoder->chunk + SBT_CHECKED_FROM, size - SBT_CHECKED_FROM));
	memcpy(encoder->chunk, &head, SBT_HEAD_SIZE);
	*ret_data = encoder->chunk;
	*ret_size = size;
	return 0;
}
