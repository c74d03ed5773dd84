/* cursor.h: reads the encoded numbers of DWARF from bytes that may be anything. A read beyond the
 * end gives 0 and is remembered, so it is enough to look at `bad` at the end.
 */
#ifndef TS_UNWIND_CURSOR_H
#define TS_UNWIND_CURSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct span {
	const uint8_t *at; /* NULL: none */
	size_t size;
};

struct cursor {
	const uint8_t *at, *end;
	bool bad;
};

static inline struct cursor cursor_of(struct span span)
{
	static const uint8_t none;

	if (!span.at)
		span = (struct span){ &none, 0 };
	return (struct cursor){ span.at, span.at + span.size, false };
}

static inline size_t cursor_left(const struct cursor *cursor)
{
	return (size_t)(cursor->end - cursor->at);
}

/* The next `size` bytes; a span of none if there are fewer. */
static inline struct span cursor_take(struct cursor *cursor, uint64_t size)
{
	struct span span = { cursor->at, size };

	if (cursor->bad || size > cursor_left(cursor)) {
		cursor->bad = true;
		return (struct span){ cursor->end, 0 };
	}
	cursor->at += size;
	return span;
}

/* A number of 1, 2, 4 or 8 bytes. */
static inline uint64_t cursor_number(struct cursor *cursor, size_t size)
{
	struct span span = cursor_take(cursor, size);
	uint64_t number = 0;

	memcpy(&number, span.at, span.size);
	return number;
}

static inline uint64_t cursor_sign(uint64_t number, unsigned int bits)
{
	if (bits < 64 && number >> (bits - 1) & 1)
		number |= ~0ull << bits;
	return number;
}

/* LEB128; bits beyond the 64th are dropped. `ret_bits`: how many it had. */
static inline uint64_t cursor_leb(struct cursor *cursor, unsigned int *ret_bits)
{
	uint64_t number = 0;
	unsigned int bits = 0;
	uint8_t byte;

	do {
		byte = (uint8_t)cursor_number(cursor, 1);
		if (bits < 64)
			number |= (uint64_t)(byte & 127) << bits;
		if (bits < 70)
			bits += 7;
	} while (byte & 128);
	*ret_bits = bits;
	return number;
}

static inline uint64_t cursor_unsigned(struct cursor *cursor)
{
	unsigned int bits;

	return cursor_leb(cursor, &bits);
}

static inline int64_t cursor_signed(struct cursor *cursor)
{
	unsigned int bits;
	uint64_t number = cursor_leb(cursor, &bits);

	return (int64_t)cursor_sign(number, bits);
}

#endif
