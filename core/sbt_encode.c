/* Sbt_encode: ops into a chunk. Columns that do not differ cost one pass over the ops together; of
 * each other one the ways to write it are measured, and the smallest is taken. */
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "core/sbt_codec.h"

#define LEVEL	   1   /* of zstd: higher ones gain little on columns, and cost much */
#define COLUMN_OPS 512 /* from so many ops on columns are compressed one by one, else together */
#define OP_WORDS   (sizeof(struct op) / sizeof(uint64_t))

_Static_assert(sizeof(struct op) % sizeof(uint64_t) == 0, "an op is whole words");

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

static void make_relative(const uint64_t *to, const uint64_t *value, size_t count, uint64_t *ret)
{
	for (size_t i = 0; i < count; i++)
		ret[i] = value[i] ? value[i] - to[i] + (value[i] >= to[i]) : 0;
}

static const uint64_t *chained_to(struct sbt_encoder *encoder, unsigned int number, size_t count)
{
	uint64_t before = 0;

	if (number == COLUMN_GPU_END)
		return encoder->gpu_start;
	if (number == COLUMN_SEEN)
		return encoder->gpu_end;
	for (size_t i = 0; i < count; i++) {
		uint64_t start = encoder->start[i];

		encoder->chain[i] = start > before ? start : before;
		before = encoder->gpu_end[i];
	}
	return encoder->chain;
}

/* Plans the column in encoder->value as each of its modes, and returns the best. */
static const struct sbt_plan *plan_modes(struct sbt_encoder *encoder, unsigned int number,
					 size_t count, unsigned int *ret_mode)
{
	struct sbt_plan *best = &encoder->plan[0], *other = &encoder->plan[1], *swap;
	static const uint8_t modes[] = { SBT_RELATIVE, SBT_CHAINED };

	*ret_mode = 0;
	sbt_column_plan(encoder->value, count, best);
	for (size_t i = 0; i < sizeof(modes) && best->guess > 1; i++) {
		if (!(sbt_fields[number].modes & modes[i]))
			continue;
		make_relative(modes[i] == SBT_RELATIVE ? encoder->start
						       : chained_to(encoder, number, count),
			      encoder->value, count, encoder->relative);
		sbt_column_plan(encoder->relative, count, other);
		if (other->guess >= best->guess)
			continue;
		swap = best;
		best = other;
		other = swap;
		*ret_mode = modes[i];
	}
	return best;
}

/* NULL: it does not follow from a column before. */
static const struct sbt_plan *plan_map(struct sbt_encoder *encoder, size_t count)
{
	for (unsigned int i = 0; i < encoder->dictionary_count; i++)
		if (sbt_column_map(&encoder->dictionary[i], encoder->dictionary_column[i],
				   encoder->value, count, &encoder->plan[1]))
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
	map = plan_map(encoder, count);
	if (map && map->guess < count / 8)
		return map;
	plan = &encoder->plan[0];
	sbt_column_plan(encoder->value, count, &encoder->plan[0]);
	return map && map->guess < plan->guess ? map : plan;
}

/* Compresses the bytes of a column; its size, with that of what was compressed, or SIZE_MAX. */
static size_t compress_column(struct sbt_encoder *encoder, const struct sbt_plan *plan,
			      size_t count)
{
	uint8_t *end = sbt_column_put(plan, plan->bytes, count, encoder->column);
	uint8_t *at = varint_put(encoder->compressed, plan->bytes_size);
	size_t size = ZSTD_compressCCtx(encoder->compressor, at,
					sizeof(encoder->compressed) - SBT_VARINT_MAX,
					encoder->column, (size_t)(end - encoder->column), LEVEL);

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

static uint8_t *put_column(struct sbt_encoder *encoder, unsigned int number, size_t count,
			   uint8_t *at)
{
	unsigned int mode;
	const struct sbt_plan *plan = plan_column(encoder, number, count, &mode);
	bool bytes = plan->bytes_size <= plan->packed_size;
	enum sbt_encoding encoding = bytes ? plan->bytes : plan->packed;
	size_t size = bytes ? plan->bytes_size : plan->packed_size, compressed = SIZE_MAX;

	if (count >= COLUMN_OPS && size > count / 16)
		compressed = compress_column(encoder, plan, count);
	if (compressed < size)
		encoding = plan->bytes;
	if (sbt_has_dictionary(encoding) && !sbt_is_time(number))
		keep_dictionary(encoder, number, &plan->dictionary, count);
	if (compressed < size) {
		at = column_head(number, encoding | mode | SBT_COLUMN_COMPRESSED, compressed, at);
		memcpy(at, encoder->compressed, compressed);
		return at + compressed;
	}
	at = column_head(number, encoding | mode, size, at);
	return sbt_column_put(plan, encoding, count, at);
}

/* A column that is the same in every op, and not 0. */
static uint8_t *put_constant(unsigned int number, uint64_t value, uint8_t *at)
{
	return varint_put(column_head(number, SBT_CONSTANT, varint_size(value), at), value);
}

static size_t put_body(struct sbt_encoder *encoder, const struct op *op, size_t count,
		       uint8_t *ret_columns)
{
	uint64_t differences[OP_WORDS], differs, value;
	uint8_t *at = encoder->body;

	*ret_columns = 0;
	encoder->dictionary_count = 0;
	field_load(COLUMN_START, op, count, encoder->start);
	field_load(COLUMN_GPU_START, op, count, encoder->gpu_start);
	field_load(COLUMN_GPU_END, op, count, encoder->gpu_end);
	find_differences(op, count, differences);
	for (unsigned int i = 0; i < SBT_COLUMN_COUNT; i++) {
		field_load(i, (const struct op *)differences, 1, &differs);
		field_load(i, op, 1, &value);
		if (!differs && !value)
			continue;
		if (differs || sbt_fields[i].modes) {
			field_load(i, op, count, encoder->value);
			at = put_column(encoder, i, count, at);
		} else {
			at = put_constant(i, value, at);
		}
		++*ret_columns;
	}
	return (size_t)(at - encoder->body);
}

static void find_times(const struct op *op, size_t count, struct sbt_head *head)
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

/* Puts the body behind the head, compressed where that was not done yet and is shorter; returns its
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
	find_times(op, count, &head);
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
