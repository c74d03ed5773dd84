/* Sbt_column: plans, writes and reads one column of a chunk.
 * Reading never looks past the bytes it was given, and takes nothing but what writing makes. */
#include "core/sbt_column.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define HASH_BITS 10 /* four slots for each dictionary entry */

static const uint8_t *varint_get_long(const uint8_t *at, const uint8_t *end, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; at < end && shift < 64; shift += 7) {
		uint64_t byte = *at++;

		value |= (byte & 0x7f) << shift;
		if (byte >= 0x80)
			continue;
		if (byte == 0 || (shift == 63 && byte > 1))
			return NULL;
		*ret = value;
		return at;
	}
	return NULL;
}

const uint8_t *varint_get(const uint8_t *at, const uint8_t *end, uint64_t *ret)
{
	if (end - at >= 1 && at[0] < 0x80) {
		*ret = at[0];
		return at + 1;
	}
	if (end - at >= 2 && at[1] < 0x80 && at[1]) {
		*ret = (at[0] & 0x7f) | (uint64_t)at[1] << 7;
		return at + 2;
	}
	return varint_get_long(at, end, ret);
}

static uint64_t scale(const struct sbt_plan *plan, uint64_t value)
{
	return (value - plan->base) >> plan->shift;
}

/* Which entry a value is; a new one is added. False: there is no room for it. */
static bool dictionary_add(struct sbt_plan *plan, uint16_t *slot, uint64_t value, uint8_t *ret)
{
	size_t at = value * 0x9e3779b97f4a7c15u >> (64 - HASH_BITS);

	while (slot[at] && plan->entry[slot[at] - 1] != value)
		at = (at + 1) % (1u << HASH_BITS);
	if (!slot[at]) {
		if (plan->entry_count == SBT_DICTIONARY_MAX)
			return false;
		plan->entry[plan->entry_count] = value;
		slot[at] = (uint16_t)++plan->entry_count;
	}
	*ret = (uint8_t)(slot[at] - 1);
	return true;
}

static bool dictionary_plan(const uint64_t *value, size_t count, struct sbt_plan *plan,
			    size_t *ret_size)
{
	uint16_t slot[1 << HASH_BITS] = { 0 };

	plan->entry_count = 0;
	for (size_t i = 0; i < count; i++)
		if (!dictionary_add(plan, slot, scale(plan, value[i]), &plan->index[i]))
			return false;
	*ret_size = 1 + count;
	for (unsigned int i = 0; i < plan->entry_count; i++)
		*ret_size += varint_size(plan->entry[i]);
	return true;
}

/* False: every value is the same. */
static bool find_scale(const uint64_t *value, size_t count, struct sbt_plan *plan)
{
	uint64_t differs = 0;

	plan->base = value[0];
	for (size_t i = 0; i < count; i++) {
		differs |= value[i] ^ value[0];
		plan->base = value[i] < plan->base ? value[i] : plan->base;
	}
	/* Bits below the lowest that differs are alike, and so gone in a difference. */
	plan->shift = differs ? (unsigned int)__builtin_ctzll(differs) : 0;
	return differs;
}

void sbt_column_plan(const uint64_t *value, size_t count, struct sbt_plan *ret)
{
	size_t plain = 0, delta = 0, dictionary;
	uint64_t before = 0;

	if (!find_scale(value, count, ret)) {
		ret->encoding = SBT_CONSTANT;
		ret->size = varint_size(value[0]);
		return;
	}
	for (size_t i = 0; i < count; i++) {
		uint64_t scaled = scale(ret, value[i]);

		plain += varint_size(scaled);
		delta += varint_size(zigzag(scaled - before));
		before = scaled;
	}
	ret->encoding = plain <= delta ? SBT_PLAIN : SBT_DELTA;
	ret->size = plain <= delta ? plain : delta;
	if (ret->size > count + 2 && dictionary_plan(value, count, ret, &dictionary) &&
	    dictionary < ret->size) {
		ret->encoding = SBT_DICTIONARY;
		ret->size = dictionary;
	}
	ret->size += varint_size(ret->base) + 1;
}

static uint8_t *plain_put(const struct sbt_plan *plan, const uint64_t *value, size_t count,
			  uint8_t *at)
{
	for (size_t i = 0; i < count; i++)
		at = varint_put(at, scale(plan, value[i]));
	return at;
}

static uint8_t *delta_put(const struct sbt_plan *plan, const uint64_t *value, size_t count,
			  uint8_t *at)
{
	uint64_t before = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t scaled = scale(plan, value[i]);

		at = varint_put(at, zigzag(scaled - before));
		before = scaled;
	}
	return at;
}

static uint8_t *dictionary_put(const struct sbt_plan *plan, const uint64_t *value, size_t count,
			       uint8_t *at)
{
	*at++ = (uint8_t)plan->entry_count;
	for (unsigned int i = 0; i < plan->entry_count; i++)
		at = varint_put(at, plan->entry[i]);
	memcpy(at, plan->index, count);
	return at + count;
}

static const uint8_t *plain_get(const uint8_t *at, const uint8_t *end, uint64_t *value,
				size_t count)
{
	for (size_t i = 0; at && i < count; i++)
		at = varint_get(at, end, &value[i]);
	return at;
}

static const uint8_t *delta_get(const uint8_t *at, const uint8_t *end, uint64_t *value,
				size_t count)
{
	uint64_t before = 0, difference = 0;

	for (size_t i = 0; i < count; i++) {
		at = varint_get(at, end, &difference);
		if (!at)
			return NULL;
		before += unzigzag(difference);
		value[i] = before;
	}
	return at;
}

static const uint8_t *dictionary_get(const uint8_t *at, const uint8_t *end, uint64_t *value,
				     size_t count)
{
	uint64_t entry[SBT_DICTIONARY_MAX];
	size_t entry_count;

	if (at == end)
		return NULL;
	entry_count = *at++;
	if (entry_count > SBT_DICTIONARY_MAX)
		return NULL;
	at = plain_get(at, end, entry, entry_count);
	if (!at || (size_t)(end - at) < count)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		if (at[i] >= entry_count)
			return NULL;
		value[i] = entry[at[i]];
	}
	return at + count;
}

static const struct {
	uint8_t *(*put)(const struct sbt_plan *plan, const uint64_t *value, size_t count,
			uint8_t *at);
	/* Returns what follows the values, NULL: they are not all there. */
	const uint8_t *(*get)(const uint8_t *at, const uint8_t *end, uint64_t *value, size_t count);
} encodings[] = {
	[SBT_PLAIN] = { plain_put, plain_get },
	[SBT_DELTA] = { delta_put, delta_get },
	[SBT_DICTIONARY] = { dictionary_put, dictionary_get },
};

uint8_t *sbt_column_put(const struct sbt_plan *plan, const uint64_t *value, size_t count,
			uint8_t *at)
{
	if (plan->encoding == SBT_CONSTANT)
		return varint_put(at, value[0]);
	at = varint_put(at, plan->base);
	*at++ = (uint8_t)plan->shift;
	return encodings[plan->encoding].put(plan, value, count, at);
}

static int constant_get(const uint8_t *at, const uint8_t *end, uint64_t *value, size_t count)
{
	if (varint_get(at, end, value) != end)
		return -EBADMSG;
	for (size_t i = 1; i < count; i++)
		value[i] = value[0];
	return 0;
}

int sbt_column_get(unsigned int encoding, const uint8_t *data, size_t size, uint64_t *value,
		   size_t count)
{
	const uint8_t *at = data, *end = data + size;
	unsigned int shift;
	uint64_t base;

	if (encoding == SBT_CONSTANT)
		return constant_get(at, end, value, count);
	if (encoding >= sizeof(encodings) / sizeof(encodings[0]) || !encodings[encoding].get)
		return -EBADMSG;
	at = varint_get(at, end, &base);
	if (!at || at == end || *at >= 64)
		return -EBADMSG;
	shift = *at++;
	if (encodings[encoding].get(at, end, value, count) != end)
		return -EBADMSG;
	for (size_t i = 0; i < count; i++)
		value[i] = (value[i] << shift) + base;
	return 0;
}
