/* pb.h: writes protobuf fields to an out, without a schema.
 * https://protobuf.dev/programming-guides/encoding: a tag, then a varint or a length and bytes. */
#ifndef TS_CLIENT_PB_H
#define TS_CLIENT_PB_H

#include <string.h>

#include "client/output/out.h"

#define PB_VARINT  0
#define PB_FIXED64 1
#define PB_LENGTH  2

static inline void pb_varint(struct out *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		*out->at++ = (uint8_t)(value | 0x80);
	*out->at++ = (uint8_t)value;
}

/* For any integer type except sint and fixed; a negative int is passed as its 64 bits. */
static inline void pb_uint(struct out *out, uint32_t field, uint64_t value)
{
	pb_varint(out, field << 3 | PB_VARINT);
	pb_varint(out, value);
}

/* Of type fixed64. */
static inline void pb_fixed(struct out *out, uint32_t field, uint64_t value)
{
	pb_varint(out, field << 3 | PB_FIXED64);
	for (int i = 0; i < 64; i += 8)
		*out->at++ = (uint8_t)(value >> i);
}

static inline void pb_double(struct out *out, uint32_t field, double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	pb_fixed(out, field, bits);
}

static inline void pb_string(struct out *out, uint32_t field, const char *text)
{
	size_t length = strlen(text);

	pb_varint(out, field << 3 | PB_LENGTH);
	pb_varint(out, length);
	out_bytes(out, text, length);
}

/* A message field: pb_open(), its fields, then pb_close() with the result of pb_open(). One byte is
 * reserved for the length, which is enough for most; the body of a longer message is moved. */
static inline uint8_t *pb_open(struct out *out, uint32_t field)
{
	pb_varint(out, field << 3 | PB_LENGTH);
	return ++out->at;
}

static inline void pb_close(struct out *out, uint8_t *body)
{
	size_t length = out->at - body, more = 0;

	for (size_t rest = length >> 7; rest > 0; rest >>= 7)
		more++;
	if (more > 0)
		memmove(body + more, body, length);
	out->at = body - 1;
	pb_varint(out, length);
	out->at += length;
}

#endif
