/* pack.h: numbers of a few bits each, packed; the first in the lowest bits. */
#ifndef TS_CORE_SBT_PACK_H
#define TS_CORE_SBT_PACK_H

#include <endian.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline unsigned int bits_of(uint64_t value)
{
	return value ? 64 - (unsigned int)__builtin_clzll(value) : 0;
}

static inline size_t pack_size(size_t count, unsigned int width)
{
	return (count * width + 7) / 8;
}

/* Writes pack_size() bytes, and up to 8 meaningless ones. */
static inline uint8_t *pack_put(uint8_t *at, const uint64_t *value, size_t count,
				unsigned int width)
{
	uint8_t *end = at + pack_size(count, width);
	uint64_t bits = 0, word;
	unsigned int used = 0;

	for (size_t i = 0; i < count; i++) {
		bits |= value[i] << used;
		used += width;
		word = htole64(bits);
		memcpy(at, &word, sizeof(word));
		at += used / 8;
		bits >>= used / 8 * 8;
		used %= 8;
	}
	return end;
}

/* Also reads up to 8 bytes after the numbers. `width` is at most 56. */
static inline void pack_get(const uint8_t *at, uint64_t *value, size_t count, unsigned int width)
{
	uint64_t mask = (UINT64_C(1) << width) - 1, word;

	for (size_t i = 0, bit = 0; i < count; i++, bit += width) {
		memcpy(&word, at + bit / 8, sizeof(word));
		value[i] = le64toh(word) >> bit % 8 & mask;
	}
}

#endif
