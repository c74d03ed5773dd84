/* sbt_column.h: one column of a chunk, `count` 64-bit values in the smallest of a few encodings.
 */
#ifndef TS_CORE_SBT_COLUMN_H
#define TS_CORE_SBT_COLUMN_H

#include "core/sbt.h"

#define SBT_DICTIONARY_MAX 255
#define SBT_VARINT_MAX	   10 /* bytes */

/* Numbers are stored. A varint is LEB128, least significant group first, never longer than needed.
 * All but SBT_CONSTANT begin with a base (varint) and a shift (byte, below 64) and then encode, of
 * each value, (value - base) >> shift: addresses and sizes are alike at both ends. */
enum sbt_encoding {
	SBT_CONSTANT = 1, /* one varint: every value */
	SBT_PLAIN = 2,	  /* a varint each */
	SBT_DELTA = 3, /* a varint each: zigzag of the difference to the one before, at first 0 */
	SBT_DICTIONARY = 4, /* a byte n, n varints, then a byte each: which of the n */
};

/* How a column will be written, and how long that is. */
struct sbt_plan {
	enum sbt_encoding encoding;
	unsigned int shift;
	uint64_t base;
	size_t size;
	unsigned int entry_count;
	uint64_t entry[SBT_DICTIONARY_MAX];
	uint8_t index[SBT_OPS_MAX];
};

static inline size_t varint_size(uint64_t value)
{
	return ((63 - (unsigned int)__builtin_clzll(value | 1)) * 9 + 73) / 64;
}

static inline uint8_t *varint_put(uint8_t *at, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*at++ = (uint8_t)value | 0x80;
	*at++ = (uint8_t)value;
	return at;
}

static inline uint64_t zigzag(uint64_t difference)
{
	return difference << 1 ^ (uint64_t)((int64_t)difference >> 63);
}

static inline uint64_t unzigzag(uint64_t value)
{
	return value >> 1 ^ -(value & 1);
}

/* Returns what follows the varint, or NULL where there is none between `at` and `end`. */
const uint8_t *varint_get(const uint8_t *at, const uint8_t *end, uint64_t *ret);

void sbt_column_plan(const uint64_t *value, size_t count, struct sbt_plan *ret);
/* Writes plan->size bytes at `at` and returns what follows. */
uint8_t *sbt_column_put(const struct sbt_plan *plan, const uint64_t *value, size_t count,
			uint8_t *at);
/* -EBADMSG: `data` is not exactly `count` values. */
int sbt_column_get(unsigned int encoding, const uint8_t *data, size_t size, uint64_t *value,
		   size_t count);

#endif
