/* column.h: one column of a chunk, `count` 64-bit values in the smallest of several encodings. */
#ifndef TS_CORE_SBT_COLUMN_H
#define TS_CORE_SBT_COLUMN_H

#include <stdbool.h>

#include "core/sbt/sbt.h"

#define SBT_DICTIONARY_MAX 255
#define SBT_VARINT_MAX	   10  /* bytes */
#define SBT_GROUP	   128 /* values that are packed with one width and read at once */
#define SBT_GROUP_COUNT	   (SBT_OPS_MAX / SBT_GROUP)
#define SBT_WIDTH_MAX	   56 /* bits of a packed value: it fits in eight bytes */

/* Numbers are stored. A varint is LEB128, least significant group first, never longer than needed.
 * All except SBT_CONSTANT start with a base (varint) and a shift (byte, below 64) and then encode
 * (value - base) >> shift for each value: addresses and sizes are alike at both ends. Packed
 * numbers come in groups of SBT_GROUP, the last with the rest: a byte w, then w bits each, the
 * first in the lowest bits of the first byte. */
enum sbt_encoding {
	SBT_CONSTANT = 1, /* one varint: every value */
	SBT_PLAIN = 2,	  /* a varint each */
	SBT_DELTA = 3, /* a varint each: zigzag of the difference to the one before, at first 0 */
	SBT_DICTIONARY = 4,   /* a byte n, n varints, then a byte each: which of the n */
	SBT_PACKED = 5,	      /* packed */
	SBT_PACKED_DELTA = 6, /* zigzag varint `least`; packed: the first value, then for each the
				 difference to the one before, minus `least` */
	SBT_PACKED_DICTIONARY = 7, /* like the other dictionary, but packed */
	/* A byte, the number of an earlier column that has a dictionary; for each of its entries a
	 * varint: the value where that column has this entry. */
	SBT_MAPPED = 8,
	SBT_ENCODING_COUNT
};

static inline bool sbt_has_dictionary(enum sbt_encoding encoding)
{
	return encoding == SBT_DICTIONARY || encoding == SBT_PACKED_DICTIONARY;
}

/* Which values there are, and their positions. */
struct sbt_dictionary {
	unsigned int count;
	uint64_t entry[SBT_DICTIONARY_MAX + 1];
	uint8_t index[SBT_OPS_MAX];
};

/* How a column can be written, and how long that is: in whole bytes, in which zstd finds
 * repetitions, and in bits. If both are the same there is no second way. The size in bytes of a
 * long column is an estimate, except for constants and mapped ones. */
struct sbt_plan {
	enum sbt_encoding bytes, packed;
	size_t bytes_size, packed_size;
	size_t guess; /* of the smaller one, with zstd */
	unsigned int shift;
	uint64_t base, least;
	uint8_t map; /* of SBT_MAPPED: the column */
	uint8_t width[SBT_GROUP_COUNT], delta_width[SBT_GROUP_COUNT];
	uint64_t scaled[SBT_OPS_MAX];
	struct sbt_dictionary dictionary; /* or what an entry is mapped to */
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
	return difference << 1 ^ -(difference >> 63);
}

static inline uint64_t unzigzag(uint64_t value)
{
	return value >> 1 ^ -(value & 1);
}

/* Returns what follows the varint, or NULL if there is none between `at` and `end`. */
const uint8_t *varint_get(const uint8_t *at, const uint8_t *end, uint64_t *ret);

void sbt_column_plan(const uint64_t *value, size_t count, struct sbt_plan *ret);
/* Whether each dictionary entry of `from`, column `number`, stands for one value. */
bool sbt_column_map(const struct sbt_dictionary *from, uint8_t number, const uint64_t *value,
		    size_t count, struct sbt_plan *ret);
/* Writes the plan at `at`, as `encoding`, and returns what follows. */
uint8_t *sbt_column_put(const struct sbt_plan *plan, enum sbt_encoding encoding, size_t count,
			uint8_t *at);

/* Reading, a group of values at a time. */
struct sbt_column {
	const uint8_t *at, *end;
	enum sbt_encoding encoding;
	unsigned int shift;
	uint64_t base, before, least;
	const struct sbt_column *map;
	unsigned int entry_count;
	uint64_t entry[SBT_DICTIONARY_MAX + 1]; /* as they are, not scaled */
	uint8_t index[SBT_GROUP];
};

/* -EBADMSG: `data` cannot be a column. `all` are the columns of the chunk by number; those that
 * this one may be mapped from are open (have an encoding). */
int sbt_column_open(unsigned int encoding, const uint8_t *data, size_t size,
		    const struct sbt_column *all, unsigned int number, struct sbt_column *ret);
/* The next values: SBT_GROUP, or the rest. Columns in ascending order. -EBADMSG */
int sbt_column_next(struct sbt_column *column, uint64_t *value, size_t count);
/* Whether all of it was read. */
static inline bool sbt_column_done(const struct sbt_column *column)
{
	return column->at == column->end;
}

#endif
