/* sbt_fixture.h: chunks made by hand, for the tests of the codec. */
#ifndef TEST_SBT_FIXTURE_H
#define TEST_SBT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <xxhash.h>

#include "core/sbt/sbt.h"

#define HEAD_SIZE 52

struct fixture {
	struct sbt_codec *codec;
	struct op in[SBT_OPS_MAX], out[SBT_OPS_MAX];
	uint64_t seed;
};

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	f->seed = 88172645463325252u;
	*state = f;
	return sbt_codec_new(&f->codec);
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	sbt_codec_free(f->codec);
	free(f);
	return 0;
}

static inline uint64_t next(struct fixture *f)
{
	f->seed ^= f->seed << 13;
	f->seed ^= f->seed >> 7;
	f->seed ^= f->seed << 17;
	return f->seed;
}

/* A copy on the heap with nothing behind it, so that a sanitizer sees a read too far. */
static inline uint8_t *copy_of(const void *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	assert_non_null(copy);
	memcpy(copy, data, size);
	return copy;
}

static inline uint8_t *encode(struct fixture *f, size_t count, size_t *ret_size)
{
	const void *data;

	assert_int_equal(sbt_encode(f->codec, f->in, count, &data, ret_size), 0);
	return copy_of(data, *ret_size);
}

static inline void check_round_trip(struct fixture *f, size_t count)
{
	struct sbt_info info;
	size_t size;
	uint8_t *data = encode(f, count, &size);

	memset(f->out, 0xee, sizeof(f->out));
	assert_int_equal(sbt_decode(f->codec, data, size, SBT_ALL_COLUMNS, f->out, &info), 0);
	assert_int_equal(info.count, count);
	assert_int_equal(info.size, size);
	assert_memory_equal(f->in, f->out, count * sizeof(struct op));
	free(data);
}

static inline void put_le(uint8_t *at, uint64_t value, int bytes)
{
	for (int i = 0; i < bytes; i++)
		at[i] = (uint8_t)(value >> 8 * i);
}

/* A chunk of `count` ops with a body made by hand, as docs of the format say. */
static inline int decode_body(struct fixture *f, uint32_t count, uint8_t columns,
			      const uint8_t *body, size_t size, uint32_t wanted)
{
	uint8_t chunk[2048] = "SBT\1";
	uint8_t *copy;
	struct sbt_info info;
	int r;

	put_le(chunk + 4, HEAD_SIZE + size, 4);
	put_le(chunk + 40, count, 4);
	put_le(chunk + 44, size, 4);
	chunk[48] = OP_LAUNCH;
	chunk[50] = columns;
	memcpy(chunk + HEAD_SIZE, body, size);
	put_le(chunk + 8, XXH3_64bits(chunk + 16, HEAD_SIZE - 16 + size), 8);
	copy = copy_of(chunk, HEAD_SIZE + size);
	r = sbt_decode(f->codec, copy, HEAD_SIZE + size, wanted, f->out, &info);
	free(copy);
	return r;
}

#endif
