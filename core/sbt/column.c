/* Column: plans and writes one column of a chunk; column_read.c reads it. */
#include "core/sbt/column.h"

#include <string.h>

#include "core/sbt/pack.h"

#define HASH_BITS   10 /* four slots for each dictionary entry */
#define SAMPLE_FROM 256
#define SAMPLE	    16 /* of a group */

/* Base, shift and the smallest difference. False: every value is the same. */
static bool find_scale(const uint64_t *value, size_t count, struct sbt_plan *plan)
{
	uint64_t differs = 0, base = value[0];
	int64_t least = INT64_MAX;

	for (size_t i = 1; i < count; i++) {
		int64_t difference = (int64_t)(value[i] - value[i - 1]);

		differs |= value[i] ^ value[0];
		base = value[i] < base ? value[i] : base;
		least = difference < least ? difference : least;
	}
	/* Bits below the lowest that differs are equal, and so vanish in a difference. */
	plan->shift = differs ? (unsigned int)__builtin_ctzll(differs) : 0;
	plan->base = base;
	plan->least = (uint64_t)(least >> plan->shift);
	return differs;
}

/* The entry of a value; a new one is added. False: no room. */
static bool dictionary_add(struct sbt_dictionary *dictionary, uint16_t *slot, uint64_t value,
			   uint8_t *ret)
{
	size_t at = value * 0x9e3779b97f4a7c15u >> (64 - HASH_BITS);

	while (slot[at] && dictionary->entry[slot[at] - 1] != value)
		at = (at + 1) % (1u << HASH_BITS);
	if (!slot[at]) {
		if (dictionary->count == SBT_DICTIONARY_MAX)
			return false;
		dictionary->entry[dictionary->count] = value;
		slot[at] = (uint16_t)++dictionary->count;
	}
	*ret = (uint8_t)(slot[at] - 1);
	return true;
}

static bool dictionary_fill(const uint64_t *value, size_t count, struct sbt_dictionary *dictionary)
{
	uint16_t slot[1 << HASH_BITS] = { 0 };

	dictionary->count = 0;
	for (size_t i = 0; i < count; i++)
		if (!dictionary_add(dictionary, slot, value[i], &dictionary->index[i]))
			return false;
	return true;
}

static size_t entries_size(const struct sbt_dictionary *dictionary)
{
	size_t size = 0;

	for (unsigned int i = 0; i < dictionary->count; i++)
		size += varint_size(dictionary->entry[i]);
	return size;
}

static size_t packed_size(const uint8_t *width, size_t count)
{
	size_t size = 0;

	for (size_t i = 0; i < count; i += SBT_GROUP) {
		size_t part = count - i < SBT_GROUP ? count - i : SBT_GROUP;

		if (width[i / SBT_GROUP] > SBT_WIDTH_MAX)
			return SIZE_MAX / 2; /* none */
		size += 1 + pack_size(part, width[i / SBT_GROUP]);
	}
	return size;
}

/* Scales the values, and finds how many bits those of each group need. */
static void scale(const uint64_t *value, size_t count, struct sbt_plan *plan)
{
	uint64_t before = -plan->least;

	for (size_t i = 0; i < count;) {
		uint64_t bits = 0, delta_bits = 0;
		size_t group = i / SBT_GROUP;
		size_t end = count - i < SBT_GROUP ? count : i + SBT_GROUP;

		for (; i < end; i++) {
			uint64_t scaled = (value[i] - plan->base) >> plan->shift;

			plan->scaled[i] = scaled;
			bits |= scaled;
			delta_bits |= scaled - before - plan->least;
			before = scaled;
		}
		plan->width[group] = (uint8_t)bits_of(bits);
		plan->delta_width[group] = (uint8_t)bits_of(delta_bits);
	}
}

/* Sizes of the encodings that take each value, or each difference, separately. */
struct sizes {
	size_t plain, delta;
	size_t same; /* values like the one before */
};

static void measure_part(const uint64_t *scaled, uint64_t before, size_t count, struct sizes *sizes)
{
	for (size_t i = 0; i < count; i++) {
		sizes->plain += varint_size(scaled[i]);
		sizes->delta += varint_size(zigzag(scaled[i] - before));
		sizes->same += scaled[i] == before;
		before = scaled[i];
	}
}

/* If there are many values, the first of each group are sampled. */
static struct sizes measure(const struct sbt_plan *plan, size_t count)
{
	size_t part = count > SAMPLE_FROM ? SAMPLE : SBT_GROUP, times = SBT_GROUP / part;
	struct sizes sizes = { 0 };

	for (size_t i = 0; i < count; i += SBT_GROUP)
		measure_part(&plan->scaled[i], i ? plan->scaled[i - 1] : 0,
			     count - i < part ? count - i : part, &sizes);
	sizes.plain *= times;
	sizes.delta *= times;
	sizes.same *= times;
	return sizes;
}

static void take_packed(struct sbt_plan *plan, enum sbt_encoding encoding, size_t size)
{
	if (size < plan->packed_size) {
		plan->packed = encoding;
		plan->packed_size = size;
	}
}

/* Worthwhile if a value takes more than a byte. */
static void plan_dictionary(struct sbt_plan *plan, size_t count)
{
	size_t entries, groups = (count + SBT_GROUP - 1) / SBT_GROUP;
	unsigned int width;

	if (!dictionary_fill(plan->scaled, count, &plan->dictionary))
		return;
	entries = 1 + entries_size(&plan->dictionary);
	width = bits_of(plan->dictionary.count - 1);
	if (entries + count < plan->bytes_size) {
		plan->bytes = SBT_DICTIONARY;
		plan->bytes_size = entries + count;
	}
	take_packed(plan, SBT_PACKED_DICTIONARY, entries + groups + pack_size(count, width));
}

void sbt_column_plan(const uint64_t *value, size_t count, struct sbt_plan *ret)
{
	struct sizes sizes;
	size_t head, same;

	if (!find_scale(value, count, ret)) {
		ret->bytes = ret->packed = SBT_CONSTANT;
		ret->bytes_size = ret->packed_size = ret->guess = varint_size(value[0]);
		return;
	}
	head = varint_size(ret->base) + 1;
	scale(value, count, ret);
	sizes = measure(ret, count);
	ret->bytes = sizes.plain <= sizes.delta ? SBT_PLAIN : SBT_DELTA;
	ret->bytes_size = sizes.plain <= sizes.delta ? sizes.plain : sizes.delta;
	ret->packed_size = SIZE_MAX / 2;
	take_packed(ret, SBT_PACKED, packed_size(ret->width, count));
	take_packed(ret, SBT_PACKED_DELTA,
		    packed_size(ret->delta_width, count) + varint_size(zigzag(ret->least)));
	if (ret->bytes_size > count + 2)
		plan_dictionary(ret, count);
	/* Runs cost almost nothing once they are compressed. */
	same = sizes.same < count ? sizes.same : count;
	ret->guess = ret->bytes_size * (count - same) / count + same / 16;
	if (ret->packed_size < ret->guess)
		ret->guess = ret->packed_size;
	ret->bytes_size += head;
	ret->packed_size += head;
}

bool sbt_column_map(const struct sbt_dictionary *from, uint8_t number, const uint64_t *value,
		    size_t count, struct sbt_plan *ret)
{
	uint64_t entry[SBT_DICTIONARY_MAX + 1] = { 0 };
	bool there[SBT_DICTIONARY_MAX + 1] = { false };

	for (size_t i = 0; i < count; i++) {
		uint8_t index = from->index[i];

		if (there[index] && entry[index] != value[i])
			return false;
		there[index] = true;
		entry[index] = value[i];
	}
	find_scale(entry, from->count, ret);
	for (unsigned int i = 0; i < from->count; i++)
		ret->dictionary.entry[i] = (entry[i] - ret->base) >> ret->shift;
	ret->dictionary.count = from->count;
	ret->map = number;
	ret->bytes = ret->packed = SBT_MAPPED;
	ret->bytes_size = varint_size(ret->base) + 2 + entries_size(&ret->dictionary);
	ret->packed_size = ret->guess = ret->bytes_size;
	return true;
}

static uint8_t *entries_put(const struct sbt_dictionary *dictionary, uint8_t *at)
{
	for (unsigned int i = 0; i < dictionary->count; i++)
		at = varint_put(at, dictionary->entry[i]);
	return at;
}

static uint8_t *plain_put(const struct sbt_plan *plan, size_t count, uint8_t *at)
{
	for (size_t i = 0; i < count; i++)
		at = varint_put(at, plan->scaled[i]);
	return at;
}

static uint8_t *delta_put(const struct sbt_plan *plan, size_t count, uint8_t *at)
{
	uint64_t before = 0;

	for (size_t i = 0; i < count; i++) {
		at = varint_put(at, zigzag(plan->scaled[i] - before));
		before = plan->scaled[i];
	}
	return at;
}

static uint8_t *dictionary_put(const struct sbt_plan *plan, size_t count, uint8_t *at)
{
	*at++ = (uint8_t)plan->dictionary.count;
	at = entries_put(&plan->dictionary, at);
	memcpy(at, plan->dictionary.index, count);
	return at + count;
}

static uint8_t *packed_put(const struct sbt_plan *plan, size_t count, uint8_t *at)
{
	for (size_t i = 0; i < count; i += SBT_GROUP) {
		size_t part = count - i < SBT_GROUP ? count - i : SBT_GROUP;

		*at++ = plan->width[i / SBT_GROUP];
		at = pack_put(at, &plan->scaled[i], part, plan->width[i / SBT_GROUP]);
	}
	return at;
}

static uint8_t *packed_delta_put(const struct sbt_plan *plan, size_t count, uint8_t *at)
{
	uint64_t before = -plan->least, difference[SBT_GROUP];

	at = varint_put(at, zigzag(plan->least));
	for (size_t i = 0; i < count;) {
		uint8_t width = plan->delta_width[i / SBT_GROUP];
		size_t part = 0;

		for (; part < SBT_GROUP && i < count; part++, i++) {
			difference[part] = plan->scaled[i] - before - plan->least;
			before = plan->scaled[i];
		}
		*at++ = width;
		at = pack_put(at, difference, part, width);
	}
	return at;
}

static uint8_t *packed_dictionary_put(const struct sbt_plan *plan, size_t count, uint8_t *at)
{
	uint8_t width = (uint8_t)bits_of(plan->dictionary.count - 1);
	uint64_t index[SBT_GROUP];

	*at++ = (uint8_t)plan->dictionary.count;
	at = entries_put(&plan->dictionary, at);
	for (size_t i = 0; i < count;) {
		size_t part = 0;

		for (; part < SBT_GROUP && i < count; part++, i++)
			index[part] = plan->dictionary.index[i];
		*at++ = width;
		at = pack_put(at, index, part, width);
	}
	return at;
}

static uint8_t *mapped_put(const struct sbt_plan *plan, size_t count, uint8_t *at)
{
	*at++ = plan->map;
	return entries_put(&plan->dictionary, at);
}

static uint8_t *(*const put[SBT_ENCODING_COUNT])(const struct sbt_plan *plan, size_t count,
						 uint8_t *at) = {
	[SBT_PLAIN] = plain_put,
	[SBT_DELTA] = delta_put,
	[SBT_DICTIONARY] = dictionary_put,
	[SBT_PACKED] = packed_put,
	[SBT_PACKED_DELTA] = packed_delta_put,
	[SBT_PACKED_DICTIONARY] = packed_dictionary_put,
	[SBT_MAPPED] = mapped_put,
};

uint8_t *sbt_column_put(const struct sbt_plan *plan, enum sbt_encoding encoding, size_t count,
			uint8_t *at)
{
	at = varint_put(at, plan->base);
	if (encoding == SBT_CONSTANT)
		return at;
	*at++ = (uint8_t)plan->shift;
	return put[encoding](plan, count, at);
}
