/* Encodings of a chunk: each is used where it pays, is read as the format says, and is refused
 * where it has no use. */
#include <errno.h>
#include <zstd.h>

#include "core/base/array.h"
#include "core/sbt/column.h"
#include "tests/unit/sbt_fixture.h"

/* Adds the encodings of a chunk, whose body is not compressed, to a set of bits. */
static void add_encodings(const uint8_t *data, size_t size, uint64_t *ret)
{
	const uint8_t *at = data + HEAD_SIZE, *end = data + size;
	uint64_t length;

	assert_int_equal(data[49], 0);
	while (at < end) {
		uint8_t encoding = at[1];

		*ret |= UINT64_C(1) << (encoding & 15);
		*ret |= UINT64_C(1) << (16 + encoding / 16 % 4);
		*ret |= UINT64_C(1) << (24 + encoding / 64);
		at = varint_get(at + 2, end, &length);
		assert_non_null(at);
		at += length;
	}
	assert_ptr_equal(at, end);
}

static void make_varied(struct fixture *f, size_t count, bool busy)
{
	uint64_t now = 123456789012345, end = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t kernel = next(f) % 60, step = i % 97;
		uint64_t seen;

		now += 2000 + next(f) % 3000;
		f->in[i] = (struct op){
			.start_ns = now,
			.end_ns = now + 1000 + next(f) % 900,
			.process = 3,
			.stream = 9,
			.kind = OP_LAUNCH,
			.tid = (uint32_t)next(f), /* plain where it is random */
			.bytes = (step * 0x9e3779b97f4a7c15) >> 40,
			.handle = 0x7f0000000000 + kernel * 64,
			.name = kernel * 0x9e3779b97f4a7c15,
			.stack_id = step * 0x9e3779b97f4a7c15, /* over and over */
			.correlation = i + next(f) % 9,
			.device = (int16_t)(next(f) % 50 ? 0 : DEVICE_UNKNOWN),
			.grid = { (uint32_t)(next(f) % 1000), 1, (uint32_t)(1 + step % 2) },
		};
		f->in[i].gpu_start_ns = busy && end > now ? end + 500 : now + 3000;
		f->in[i].gpu_end_ns = end = f->in[i].gpu_start_ns + 3000 + next(f) % 1000;
		seen = busy ? f->in[i].gpu_end_ns : f->in[i].end_ns;
		f->in[i].seen_ns = i % 5 ? seen + 700 + next(f) % 30 : 0;
		if (!busy)
			f->in[i].gpu_end_ns = now + 100;
	}
}

static void every_encoding_is_used_and_comes_back(void **state)
{
	struct fixture *f = *state;
	uint64_t used = 0;
	size_t size;
	uint8_t *data;

	for (int round = 0; round < 2; round++) {
		make_varied(f, SBT_OPS_MAX, round);
		check_round_trip(f, SBT_OPS_MAX);
		data = encode(f, SBT_OPS_MAX, &size);
		add_encodings(data, size, &used);
		free(data);
	}
	memset(f->in, 0, sizeof(f->in[0]) * 9);
	for (size_t i = 0; i < 9; i++)
		f->in[i].address = i == 5 ? UINT64_MAX : i % 2; /* plain, and too wide to pack */
	data = encode(f, 9, &size);
	add_encodings(data, size, &used);
	free(data);
	/* 1 to 8, each mode, compressed and not. */
	assert_int_equal(used, 0x30f01fe);
}

/* Any mix of counts, widths and repetitions. */
static void random_columns_come_back(void **state)
{
	struct fixture *f = *state;

	for (int round = 0; round < 60; round++) {
		size_t count = 1 + next(f) % (round % 4 ? 400 : SBT_OPS_MAX);
		uint64_t width = next(f) % 64, period = 1 + next(f) % 300, offset = next(f);

		memset(f->in, 0, count * sizeof(f->in[0]));
		for (size_t i = 0; i < count; i++) {
			struct op *op = &f->in[i];
			uint64_t value = next(f) >> width, again = f->in[i % period].address;

			op->start_ns = (offset >> 2) + value / 4;
			op->end_ns = value % 3 ? op->start_ns + (value >> 8) : 0;
			op->gpu_start_ns = value % 5 ? op->start_ns + value % 1000 - 500 : 0;
			op->gpu_end_ns = value % 7 ? op->gpu_start_ns + value % 100 : 0;
			op->seen_ns = value % 11 ? op->gpu_end_ns + value % 10 : 0;
			op->address = i < period ? value : again;
			op->handle = op->address % 200 * 8 + offset;
			op->name = op->handle * 31;
			op->bytes = value << width;
			op->tid = (uint32_t)(value % 3);
			op->flags = (uint16_t)value;
			op->detail = (uint8_t)(op->handle >> 3);
			op->result = -(int32_t)(value % 2);
		}
		check_round_trip(f, count);
	}
}

static void packed_columns_made_by_hand_are_read(void **state)
{
	static const uint8_t body[] = {
		0,  6, 5, 98, 0, 4,  1,		 2,	  /* start_ns: 98, + 2 + 1 */
		12, 5, 4, 0,  0, 3,  5 | 6 << 3,	  /* bytes: 5, 6 */
		13, 7, 7, 8,  1, 2,  4,		 2, 1, 2, /* handle: 8 + 4 * 2, 8 + 2 * 2 */
		25, 8, 5, 1,  0, 13, 6,		 8,	  /* name: 1 + 6, 1 + 8 */
	};
	struct fixture *f = *state;

	assert_int_equal(decode_body(f, 2, 4, body, sizeof(body), ~0u), 0);
	assert_int_equal(f->out[0].start_ns, 98);
	assert_int_equal(f->out[1].start_ns, 101);
	assert_int_equal(f->out[0].bytes, 5);
	assert_int_equal(f->out[1].bytes, 6);
	assert_int_equal(f->out[0].handle, 16);
	assert_int_equal(f->out[1].handle, 12);
	assert_int_equal(f->out[0].name, 7);
	assert_int_equal(f->out[1].name, 9);
	/* What it is mapped from is read, but not given. */
	assert_int_equal(decode_body(f, 2, 4, body, sizeof(body), 1u << 25), 0);
	assert_int_equal(f->out[1].handle, 0);
	assert_int_equal(f->out[1].name, 9);
}

static const uint8_t chained[] = {
	0,  3,	    4, 100, 0, 0,  6, /* start_ns: 100, 103 */
	1,  16 + 2, 4, 0,   0, 6,  0, /* end_ns: 105, none */
	2,  32 + 2, 4, 0,   0, 8,  2, /* gpu_start_ns: 100 + 7, 117 + 1 */
	3,  32 + 2, 4, 0,   0, 11, 1, /* gpu_end_ns: 107 + 10, 118 */
	24, 48 + 2, 4, 0,   0, 4,  0, /* seen_ns: 105 + 3, none */
};

static void chained_times_made_by_hand_are_read(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(decode_body(f, 2, 5, chained, sizeof(chained), ~0u), 0);
	assert_int_equal(f->out[0].start_ns, 100);
	assert_int_equal(f->out[1].start_ns, 103);
	assert_int_equal(f->out[0].end_ns, 105);
	assert_int_equal(f->out[1].end_ns, 0);
	assert_int_equal(f->out[0].gpu_start_ns, 107);
	assert_int_equal(f->out[1].gpu_start_ns, 118);
	assert_int_equal(f->out[0].gpu_end_ns, 117);
	assert_int_equal(f->out[1].gpu_end_ns, 118);
	assert_int_equal(f->out[0].seen_ns, 108);
	assert_int_equal(f->out[1].seen_ns, 0);
}

static void a_time_is_right_without_what_it_refers_to(void **state)
{
	static const uint64_t wants[][2] = { { 2, 118 }, { 3, 118 } };
	struct fixture *f = *state;

	for (size_t i = 0; i < 2; i++) {
		struct op want = { .kind = OP_LAUNCH };

		if (wants[i][0] == 2)
			want.gpu_start_ns = wants[i][1];
		else
			want.gpu_end_ns = wants[i][1];
		assert_int_equal(decode_body(f, 2, 5, chained, sizeof(chained), 1u << wants[i][0]),
				 0);
		assert_memory_equal(&f->out[1], &want, sizeof(want));
	}
	assert_int_equal(decode_body(f, 2, 5, chained, sizeof(chained), 1u << 24), 0);
	assert_int_equal(f->out[0].seen_ns, 108);
	assert_int_equal(f->out[0].end_ns, 0);
}

/* A time of 0 in between is no end to go on from. */
static void chains_are_whole_over_groups(void **state)
{
	struct fixture *f = *state;

	make_varied(f, 1000, true);
	for (size_t i = 0; i < 1000; i++)
		f->in[i].gpu_end_ns = i % 128 == 127 || i % 50 == 3 ? 0 : f->in[i].gpu_end_ns;
	check_round_trip(f, 1000);
}

static size_t compressed_column(const uint8_t *data, size_t size, uint64_t said, uint8_t *body)
{
	uint8_t *length, *at = body;

	*at++ = 12;
	*at++ = 64 + SBT_PLAIN;
	length = at++;
	at = varint_put(at, said);
	at += ZSTD_compress(at, 100, data, size, 1);
	*length = (uint8_t)(at - length - 1);
	return (size_t)(at - body);
}

static void a_compressed_column_is_as_long_as_it_says(void **state)
{
	static const uint8_t data[] = { 0, 0, 7, 9 };
	struct fixture *f = *state;
	uint8_t body[256];
	size_t size = compressed_column(data, sizeof(data), sizeof(data), body);

	assert_int_equal(decode_body(f, 2, 1, body, size, ~0u), 0);
	assert_int_equal(f->out[0].bytes, 7);
	assert_int_equal(f->out[1].bytes, 9);
	for (uint64_t said = 0; said < 100000000; said = 2 * said + 1) {
		if (said == sizeof(data))
			continue;
		size = compressed_column(data, sizeof(data), said, body);
		assert_int_equal(decode_body(f, 2, 1, body, size, ~0u), -EBADMSG);
	}
	/* It is not even looked at where it is not wanted. */
	assert_int_equal(decode_body(f, 2, 1, body, size, 1), 0);
}

/* More than any column has. */
static void a_column_that_grows_without_end_is_refused(void **state)
{
	const size_t size = 8u << 20;
	struct fixture *f = *state;
	uint8_t body[1900] = { 12, 64 + SBT_PLAIN }, frame[1800], *at;
	uint8_t *zeros = calloc(1, size);
	size_t packed = ZSTD_compress(frame, sizeof(frame), zeros, size, 1);

	free(zeros);
	assert_false(ZSTD_isError(packed));
	at = varint_put(body + 2, varint_size(size) + packed);
	at = varint_put(at, size);
	memcpy(at, frame, packed);
	assert_int_equal(decode_body(f, 2, 1, body, (size_t)(at - body) + packed, ~0u), -EBADMSG);
}

/* The size of a column's data in a chunk whose body is not compressed. */
static uint64_t size_of(const uint8_t *data, size_t size, unsigned int number)
{
	const uint8_t *at = data + HEAD_SIZE, *end = data + size;
	uint64_t length = 0;

	for (; at < end; at += length) {
		unsigned int column = *at;

		at = varint_get(at + 2, end, &length);
		assert_non_null(at);
		if (column == number)
			return length;
	}
	return 0;
}

/* When it starts follows from when the one before ends, whatever the calls do. */
static void starts_on_a_busy_device_cost_nothing(void **state)
{
	struct fixture *f = *state;
	uint64_t start = 1000000, end = 1000000;
	uint8_t *data;
	size_t size;

	memset(f->in, 0, sizeof(f->in));
	for (size_t i = 0; i < SBT_OPS_MAX; i++) {
		start += 100 + next(f) % 100;
		f->in[i].start_ns = start;
		f->in[i].gpu_start_ns = end + 500;
		f->in[i].gpu_end_ns = end = end + 500 + 5000 + next(f) % 4096;
	}
	check_round_trip(f, SBT_OPS_MAX);
	data = encode(f, SBT_OPS_MAX, &size);
	assert_int_equal(data[49], 0);
	assert_true(size_of(data, size, 2) < 250);
	assert_true(size_of(data, size, 3) < SBT_OPS_MAX * 13 / 8);
	free(data);
}

/* They could be mapped from, but would not be there when only some columns are read. */
static void times_of_few_values_come_back(void **state)
{
	struct fixture *f = *state;

	memset(f->in, 0, sizeof(f->in));
	for (size_t i = 0; i < 3000; i++) {
		uint64_t which = next(f) % 50;

		f->in[i].start_ns = which * which * 1000003;
		f->in[i].gpu_start_ns = f->in[i].start_ns + 77 * which;
		f->in[i].name = which * 0x9e3779b97f4a7c15;
	}
	check_round_trip(f, 3000);
}

static void nonsense_is_refused(void **state)
{
	static const struct {
		const char *what;
		uint8_t count, columns, size, body[24];
	} cases[] = {
		{ "no width", 2, 1, 5, { 12, 5, 2, 0, 0 } },
		{ "a width too large", 1, 1, 14, { 12, 5, 11, 0, 0, 57, 1, 1, 1, 1, 1, 1, 1, 1 } },
		{ "packed values cut off", 2, 1, 7, { 12, 5, 4, 0, 0, 5, 1 } },
		{ "bytes behind packed values", 2, 1, 8, { 12, 5, 5, 0, 0, 3, 1, 1 } },
		{ "no least difference", 2, 1, 5, { 12, 6, 2, 0, 0 } },
		{ "no packed differences", 2, 1, 6, { 12, 6, 3, 0, 0, 1 } },
		{ "a packed index out of range", 2, 1, 9, { 12, 7, 6, 0, 0, 1, 9, 1, 2 } },
		{ "an index that is no byte", 1, 1, 10, { 12, 7, 7, 0, 0, 1, 9, 9, 0, 1 } },
		{ "a map cut off", 2, 1, 5, { 25, 8, 2, 0, 0 } },
		{ "mapped from nothing", 2, 1, 7, { 25, 8, 4, 0, 0, 13, 1 } },
		{ "mapped from what does not exist", 2, 1, 7, { 25, 8, 4, 0, 0, 200, 1 } },
		{ "mapped from itself", 2, 1, 7, { 25, 8, 4, 0, 0, 25, 1 } },
		{ "mapped from a column behind",
		  2,
		  2,
		  15,
		  { 13, 8, 4, 0, 0, 25, 1, 25, 4, 6, 0, 0, 1, 1, 0, 0 } },
		{ "mapped from no dictionary",
		  2,
		  2,
		  14,
		  { 13, 2, 4, 0, 0, 1, 2, 25, 8, 4, 0, 0, 13, 1 } },
		{ "mapped from a time",
		  2,
		  2,
		  16,
		  { 0, 4, 6, 0, 0, 1, 1, 0, 0, 25, 8, 4, 0, 0, 0, 1 } },
		{ "a map too short", 2, 2, 15, { 13, 4, 6, 0, 0, 1, 1, 0, 0, 25, 8, 3, 0, 0, 13 } },
		{ "a map too long",
		  2,
		  2,
		  17,
		  { 13, 4, 6, 0, 0, 1, 1, 0, 0, 25, 8, 5, 0, 0, 13, 1, 1 } },
		{ "a chained call", 1, 1, 4, { 1, 33, 1, 1 } },
		{ "a start from the end", 1, 1, 4, { 2, 49, 1, 1 } },
		{ "a chained size", 1, 1, 4, { 12, 33, 1, 1 } },
		{ "an encoding of the future", 1, 1, 4, { 12, 9, 1, 1 } },
		{ "a bit of the future", 1, 1, 4, { 12, 129, 1, 1 } },
		{ "a column compressed to nothing", 1, 1, 4, { 12, 65, 1, 1 } },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (decode_body(f, cases[i].count, cases[i].columns, cases[i].body, cases[i].size,
				~0u) != -EBADMSG)
			fail_msg("not refused: %s", cases[i].what);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_encoding_is_used_and_comes_back),
		TEST(random_columns_come_back),
		TEST(packed_columns_made_by_hand_are_read),
		TEST(chained_times_made_by_hand_are_read),
		TEST(a_time_is_right_without_what_it_refers_to),
		TEST(chains_are_whole_over_groups),
		TEST(a_compressed_column_is_as_long_as_it_says),
		TEST(a_column_that_grows_without_end_is_refused),
		TEST(starts_on_a_busy_device_cost_nothing),
		TEST(times_of_few_values_come_back),
		TEST(nonsense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
