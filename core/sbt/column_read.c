/* Column_read: reads one column of a chunk, a group of values at a time. It never looks beyond the
 * given bytes, and accepts only what the writer produces. */
#include <errno.h>
#include <string.h>

#include "core/sbt/column.h"
#include "core/sbt/pack.h"

static const uint8_t *varint_get_long(const uint8_t *at, const uint8_t *end, uint64_t *ret)
{
	uint64_t value = 0;

	for (unsigned int shift = 0; at < end && shift < 64; shift += 7) {
		uint64_t byte = *at++;

		value |= (byte & 0x7f) << shift;
		if (byte >= 0x80)
			continue;
		if ((byte == 0 && shift) || (shift == 63 && byte > 1))
			return NULL;
		*ret = value;
		return at;
	}
	return NULL;
}

static inline const uint8_t *varint_next(const uint8_t *at, const uint8_t *end, uint64_t *ret)
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

const uint8_t *varint_get(const uint8_t *at, const uint8_t *end, uint64_t *ret)
{
	return varint_next(at, end, ret);
}

static void unscale(const struct sbt_column *column, uint64_t *value, size_t count)
{
	for (size_t i = 0; i < count; i++)
		value[i] = (value[i] << column->shift) + column->base;
}

static int varints_get(struct sbt_column *column, uint64_t *value, size_t count)
{
	const uint8_t *at = column->at;

	for (size_t i = 0; i < count; i++) {
		at = varint_next(at, column->end, &value[i]);
		if (!at)
			return -EBADMSG;
	}
	column->at = at;
	return 0;
}

/* One group. */
static int packed_get(struct sbt_column *column, uint64_t *value, size_t count)
{
	uint8_t copy[SBT_GROUP * SBT_WIDTH_MAX / 8 + 8];
	const uint8_t *at = column->at;
	unsigned int width;
	size_t size;

	if (at == column->end)
		return -EBADMSG;
	width = *at++;
	size = pack_size(count, width);
	if (width > SBT_WIDTH_MAX || size > (size_t)(column->end - at))
		return -EBADMSG;
	column->at = at + size;
	if (size + 8 > (size_t)(column->end - at)) {
		memcpy(copy, at, size);
		memset(copy + size, 0, 8);
		at = copy;
	}
	pack_get(at, value, count, width);
	return 0;
}

static int constant_next(struct sbt_column *column, uint64_t *value, size_t count)
{
	for (size_t i = 0; i < count; i++)
		value[i] = column->base;
	return 0;
}

static int plain_next(struct sbt_column *column, uint64_t *value, size_t count)
{
	int r = varints_get(column, value, count);

	if (r == 0)
		unscale(column, value, count);
	return r;
}

static int delta_next(struct sbt_column *column, uint64_t *value, size_t count)
{
	int r = varints_get(column, value, count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		column->before += unzigzag(value[i]);
		value[i] = (column->before << column->shift) + column->base;
	}
	return 0;
}

static int packed_next(struct sbt_column *column, uint64_t *value, size_t count)
{
	int r = packed_get(column, value, count);

	if (r == 0)
		unscale(column, value, count);
	return r;
}

static int packed_delta_next(struct sbt_column *column, uint64_t *value, size_t count)
{
	uint64_t before = column->before, least = column->least;
	int r = packed_get(column, value, count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		before += value[i] + least;
		value[i] = (before << column->shift) + column->base;
	}
	column->before = before;
	return 0;
}

/* The entries that column->index selects; -EBADMSG: one does not exist. */
static int look_up(struct sbt_column *column, uint64_t *value, size_t count)
{
	uint8_t largest = 0;

	for (size_t i = 0; i < count; i++) {
		largest = column->index[i] > largest ? column->index[i] : largest;
		value[i] = column->entry[column->index[i]];
	}
	return largest < column->entry_count ? 0 : -EBADMSG;
}

static int dictionary_next(struct sbt_column *column, uint64_t *value, size_t count)
{
	if ((size_t)(column->end - column->at) < count)
		return -EBADMSG;
	memcpy(column->index, column->at, count);
	column->at += count;
	return look_up(column, value, count);
}

static int packed_dictionary_next(struct sbt_column *column, uint64_t *value, size_t count)
{
	uint64_t all = 0;
	int r = packed_get(column, value, count);

	if (r < 0)
		return r;
	for (size_t i = 0; i < count; i++) {
		all |= value[i];
		column->index[i] = (uint8_t)value[i];
	}
	return all <= UINT8_MAX ? look_up(column, value, count) : -EBADMSG;
}

/* The other column's entries were checked when its own values were read. */
static int mapped_next(struct sbt_column *column, uint64_t *value, size_t count)
{
	for (size_t i = 0; i < count; i++)
		value[i] = column->entry[column->map->index[i]];
	return 0;
}

static int (*const next[SBT_ENCODING_COUNT])(struct sbt_column *column, uint64_t *value,
					     size_t count) = {
	[SBT_CONSTANT] = constant_next,
	[SBT_PLAIN] = plain_next,
	[SBT_DELTA] = delta_next,
	[SBT_DICTIONARY] = dictionary_next,
	[SBT_PACKED] = packed_next,
	[SBT_PACKED_DELTA] = packed_delta_next,
	[SBT_PACKED_DICTIONARY] = packed_dictionary_next,
	[SBT_MAPPED] = mapped_next,
};

int sbt_column_next(struct sbt_column *column, uint64_t *value, size_t count)
{
	return next[column->encoding](column, value, count);
}

static int open_entries(struct sbt_column *column, unsigned int count)
{
	int r;

	if (count > SBT_DICTIONARY_MAX)
		return -EBADMSG;
	column->entry_count = count;
	r = varints_get(column, column->entry, count);
	if (r == 0)
		unscale(column, column->entry, count);
	return r;
}

static int open_mapped(struct sbt_column *column, unsigned int from, const struct sbt_column *all,
		       unsigned int number)
{
	if (from >= number || !sbt_has_dictionary(all[from].encoding))
		return -EBADMSG;
	column->map = &all[from];
	return open_entries(column, column->map->entry_count);
}

int sbt_column_open(unsigned int encoding, const uint8_t *data, size_t size,
		    const struct sbt_column *all, unsigned int number, struct sbt_column *ret)
{
	const uint8_t *end = data + size, *at;

	if (encoding < SBT_CONSTANT || encoding >= SBT_ENCODING_COUNT)
		return -EBADMSG;
	ret->encoding = (enum sbt_encoding)encoding;
	ret->before = 0;
	ret->end = end;
	at = varint_get(data, end, &ret->base);
	if (at && encoding != SBT_CONSTANT) {
		if (at == end || *at >= 64)
			return -EBADMSG;
		ret->shift = *at++;
	}
	if (!at)
		return -EBADMSG;
	ret->at = at;
	switch (encoding) {
	case SBT_PACKED_DELTA:
		ret->at = varint_get(at, end, &ret->least);
		ret->least = unzigzag(ret->least);
		ret->before = -ret->least;
		return ret->at ? 0 : -EBADMSG;
	case SBT_DICTIONARY:
	case SBT_PACKED_DICTIONARY:
	case SBT_MAPPED:
		if (at == end)
			return -EBADMSG;
		ret->at++;
		return encoding == SBT_MAPPED ? open_mapped(ret, *at, all, number)
					      : open_entries(ret, *at);
	}
	return 0;
}
