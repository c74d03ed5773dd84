/* Chunks: what was encoded comes back, wanted columns only, and damaged bytes are told apart. */
#include <errno.h>

#include "core/base/array.h"
#include "tests/unit/sbt_fixture.h"

static void make_launches(struct fixture *f, size_t count)
{
	uint64_t now = 123456789012345;

	for (size_t i = 0; i < count; i++) {
		now += 2000 + next(f) % 3000;
		f->in[i] = (struct op){
			.start_ns = now,
			.gpu_start_ns = i % 5 ? now : 0,
			.gpu_end_ns = i % 7 ? now + next(f) % 100000 : 0,
			.process = 3,
			.stream = 9,
			.tid = 4711,
			.kind = OP_LAUNCH,
			.fn = (uint16_t)(1 + next(f) % 3),
			.flags = OP_BOUNDS,
			.device = DEVICE_UNKNOWN,
			.result = i % 1000 ? 0 : -1,
			.handle = 0x7f0000000000 + next(f) % 64 * 64,
			.stack_id = next(f) % 30 ? 0 : next(f),
			.grid = { (uint32_t)(next(f) % 4), 1, 1 },
		};
	}
}

static void launches_come_back(void **state)
{
	static const size_t counts[] = { 1, 2, 3, 100, SBT_OPS_MAX };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		make_launches(f, counts[i]);
		check_round_trip(f, counts[i]);
	}
}

static void the_largest_values_come_back(void **state)
{
	struct fixture *f = *state;

	for (size_t i = 0; i < 512; i++) {
		memset(&f->in[i], i % 2 ? 0xff : 0x00, sizeof(struct op));
		f->in[i].process = f->in[i].stream = UINT32_MAX;
		f->in[i].kind = 255;
		f->in[i].reserved = 0;
		f->in[i].start_ns = i % 3 ? INT64_MAX : 1;
	}
	check_round_trip(f, 512);
}

static void random_ops_come_back(void **state)
{
	struct fixture *f = *state;

	for (int round = 0; round < 50; round++) {
		size_t count = 1 + next(f) % 300;

		for (size_t i = 0; i < count; i++) {
			uint8_t *bytes = (uint8_t *)&f->in[i];

			for (size_t k = 0; k < sizeof(struct op); k++)
				bytes[k] = next(f) % 3 ? 0 : (uint8_t)next(f);
			f->in[i].start_ns |= 1; /* a time of 0 is none */
			f->in[i].process = f->in[i].stream = f->in[i].kind = 5;
			f->in[i].reserved = 0;
		}
		check_round_trip(f, count);
	}
}

static void times_before_the_start_come_back(void **state)
{
	struct fixture *f = *state;

	make_launches(f, 100);
	for (size_t i = 0; i < 100; i++) {
		f->in[i].gpu_start_ns = f->in[i].start_ns - 1 - i;
		f->in[i].gpu_end_ns = i % 2 ? f->in[i].start_ns : 0;
		f->in[i].end_ns = i;
	}
	check_round_trip(f, 100);
}

static void make_exact(struct fixture *f, size_t count)
{
	make_launches(f, count);
	for (size_t i = 0; i < count; i++) {
		struct op *op = &f->in[i];

		op->gpu_start_ns = op->start_ns + 5000 + next(f) % 2000;
		op->gpu_end_ns = op->gpu_start_ns + 10000 + next(f) % 500;
		op->seen_ns = i % 9 ? op->gpu_end_ns + next(f) % 100000 : 0;
		op->flags = OP_EXACT;
		op->correlation = 100 + i;
		op->name = next(f) % 50 * 0x9e3779b97f4a7c15;
		op->node = i % 3;
		op->graph = i % 2;
		op->static_bytes = 4096;
		op->local_bytes = i % 4 * 16;
		op->registers = 32 + i % 4 * 8;
	}
}

static void exact_launches_come_back(void **state)
{
	static const size_t counts[] = { 1, 2, 100, SBT_OPS_MAX };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		make_exact(f, counts[i]);
		check_round_trip(f, counts[i]);
	}
}

/* Three bytes more than its number, encoding and length, where the time itself takes seven. */
static void the_time_seen_is_kept_relative_to_the_start(void **state)
{
	struct fixture *f = *state;
	size_t without, size;

	make_launches(f, 1);
	free(encode(f, 1, &without));
	f->in[0].seen_ns = f->in[0].start_ns + 77777;
	free(encode(f, 1, &size));
	assert_int_equal(size, without + 3 + 3);
}

static void starts_of_zero_come_back_after_other_chunks(void **state)
{
	struct fixture *f = *state;

	make_launches(f, 100);
	check_round_trip(f, 100);
	for (size_t i = 0; i < 100; i++)
		f->in[i].start_ns = 0;
	check_round_trip(f, 100);
}

static void the_head_says_what_is_inside(void **state)
{
	struct fixture *f = *state;
	struct sbt_info info;
	size_t size;
	uint8_t *data;

	make_launches(f, 50);
	f->in[3].start_ns = 77;
	f->in[4].gpu_end_ns = f->in[49].start_ns + 1000000;
	data = encode(f, 50, &size);
	assert_int_equal(sbt_peek(data, size, &info), 0);
	assert_int_equal(info.process, 3);
	assert_int_equal(info.stream, 9);
	assert_int_equal(info.kind, OP_LAUNCH);
	assert_int_equal(info.count, 50);
	assert_int_equal(info.first_ns, 77);
	assert_int_equal(info.last_ns, f->in[4].gpu_end_ns);
	assert_int_equal(info.size, size);
	free(data);
}

static void chunks_in_a_row_are_told_apart_by_their_size(void **state)
{
	struct fixture *f = *state;
	struct sbt_info info;
	size_t first, second;
	uint8_t *a, *b, *both;

	make_launches(f, 20);
	a = encode(f, 20, &first);
	b = encode(f, 10, &second);
	both = malloc(first + second);
	memcpy(both, a, first);
	memcpy(both + first, b, second);
	assert_int_equal(sbt_peek(both, first + second, &info), 0);
	assert_int_equal(info.size, first);
	assert_int_equal(sbt_decode(f->codec, both + info.size, second, 1, f->out, &info), 0);
	assert_int_equal(info.count, 10);
	free(a);
	free(b);
	free(both);
}

static void only_wanted_columns_are_filled(void **state)
{
	struct fixture *f = *state;
	struct sbt_info info;
	size_t size;
	uint8_t *data;

	make_launches(f, 100);
	data = encode(f, 100, &size);
	/* gpu_end_ns is stored relative to start_ns, which is not wanted here. */
	assert_int_equal(sbt_decode(f->codec, data, size, 1 << 3 | 1 << 13, f->out, &info), 0);
	for (size_t i = 0; i < 100; i++) {
		struct op want = { .process = 3,
				   .stream = 9,
				   .kind = OP_LAUNCH,
				   .gpu_end_ns = f->in[i].gpu_end_ns,
				   .handle = f->in[i].handle };

		assert_memory_equal(&f->out[i], &want, sizeof(want));
	}
	free(data);
}

static void a_launch_takes_less_than_ten_bytes(void **state)
{
	struct fixture *f = *state;
	size_t size;

	make_launches(f, SBT_OPS_MAX);
	free(encode(f, SBT_OPS_MAX, &size));
	assert_true(size < 10 * SBT_OPS_MAX);
}

static void a_chunk_cut_off_is_refused(void **state)
{
	struct fixture *f = *state;
	struct sbt_info info;
	size_t size;
	uint8_t *data;

	make_launches(f, 100);
	data = encode(f, 100, &size);
	for (size_t cut = 0; cut < size; cut++) {
		uint8_t *part = copy_of(data, cut);

		assert_int_equal(sbt_peek(part, cut, &info), -ENODATA);
		assert_int_equal(sbt_decode(f->codec, part, cut, ~0u, f->out, &info), -ENODATA);
		free(part);
	}
	free(data);
}

static void a_changed_byte_is_noticed(void **state)
{
	struct fixture *f = *state;
	struct sbt_info info;
	size_t size;
	uint8_t *data;

	make_launches(f, 100);
	data = encode(f, 100, &size);
	for (size_t i = 0; i < size; i++) {
		data[i] ^= 0x10;
		assert_true(sbt_decode(f->codec, data, size, ~0u, f->out, &info) < 0);
		data[i] ^= 0x10;
	}
	assert_int_equal(sbt_decode(f->codec, data, size, ~0u, f->out, &info), 0);
	free(data);
}

static void a_chunk_made_by_hand_is_read(void **state)
{
	static const uint8_t body[] = {
		0,  3,	4, 98, 0, 4, 4,		 /* start_ns: 98 + 2, + 2 */
		1,  18, 4, 0,  0, 0, 6,		 /* end_ns, relative: none, 107 */
		5,  1,	1, 7,			 /* fn: 7 */
		12, 4,	7, 0,  2, 2, 3, 4, 1, 0, /* bytes, shifted by 2: 16, 12 */
		99, 9,	1, 0,			 /* a column of the future */
	};
	struct fixture *f = *state;

	assert_int_equal(decode_body(f, 2, 5, body, sizeof(body), ~0u), 0);
	assert_int_equal(f->out[0].start_ns, 100);
	assert_int_equal(f->out[1].start_ns, 102);
	assert_int_equal(f->out[0].end_ns, 0);
	assert_int_equal(f->out[1].end_ns, 107);
	assert_int_equal(f->out[1].fn, 7);
	assert_int_equal(f->out[0].bytes, 16);
	assert_int_equal(f->out[1].bytes, 12);
}

/* One of a former version has no columns behind the 23rd. */
static void columns_that_are_not_there_are_zero(void **state)
{
	static const uint8_t body[] = { 0, 1, 1, 100, 23, 1, 1, 9 };
	struct fixture *f = *state;
	struct op want = { .start_ns = 100, .shared_bytes = 9, .kind = OP_LAUNCH };

	memset(f->out, 0xee, sizeof(f->out));
	assert_int_equal(decode_body(f, 1, 2, body, sizeof(body), ~0u), 0);
	assert_memory_equal(&f->out[0], &want, sizeof(want));
}

static void nonsense_with_a_right_checksum_is_refused(void **state)
{
	static const struct {
		const char *what;
		uint32_t count;
		uint8_t columns;
		uint8_t size, body[16];
	} cases[] = {
		{ "no ops", 0, 0, 0, { 0 } },
		{ "too many ops", SBT_OPS_MAX + 1, 0, 0, { 0 } },
		{ "a column missing", 2, 1, 0, { 0 } },
		{ "bytes behind the last column", 2, 0, 1, { 0 } },
		{ "an unknown encoding", 2, 1, 4, { 5, 9, 1, 0 } },
		{ "encoding 0", 2, 1, 4, { 5, 0, 1, 0 } },
		{ "a length behind the end", 2, 1, 4, { 5, 1, 2, 0 } },
		{ "too few values", 3, 1, 7, { 5, 2, 4, 0, 0, 1, 1 } },
		{ "too many values", 1, 1, 7, { 5, 2, 4, 0, 0, 1, 1 } },
		{ "a constant twice", 1, 1, 5, { 5, 1, 2, 1, 1 } },
		{ "no base", 1, 1, 3, { 5, 2, 0 } },
		{ "no shift", 1, 1, 4, { 5, 2, 1, 0 } },
		{ "a shift too far", 1, 1, 6, { 5, 2, 3, 0, 64, 1 } },
		{ "a varint cut off", 1, 1, 6, { 5, 2, 3, 0, 0, 0x80 } },
		{ "a varint longer than needed", 1, 1, 7, { 5, 2, 4, 0, 0, 0x80, 0 } },
		{ "a varint over 64 bits",
		  1,
		  1,
		  13,
		  { 12, 1, 10, 255, 255, 255, 255, 255, 255, 255, 255, 255, 2 } },
		{ "a value too large for its field", 1, 1, 6, { 5, 1, 3, 0x80, 0x80, 4 } },
		{ "a dictionary index out of range", 2, 1, 9, { 5, 4, 6, 0, 0, 1, 9, 0, 1 } },
		{ "a dictionary cut off", 2, 1, 7, { 5, 4, 4, 0, 0, 9, 1 } },
		{ "an empty dictionary", 1, 1, 7, { 5, 4, 4, 0, 0, 0, 0 } },
		{ "columns out of order", 1, 2, 8, { 6, 1, 1, 1, 5, 1, 1, 1 } },
		{ "a column twice", 1, 2, 8, { 5, 1, 1, 1, 5, 1, 1, 1 } },
		{ "a size relative to a time", 1, 1, 4, { 12, 17, 1, 1 } },
		{ "a name relative to a time", 1, 1, 4, { 25, 17, 1, 1 } },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (decode_body(f, cases[i].count, cases[i].columns, cases[i].body, cases[i].size,
				~0u) != -EBADMSG)
			fail_msg("not refused: %s", cases[i].what);
}

static void counts_out_of_range_are_not_encoded(void **state)
{
	struct fixture *f = *state;
	const void *data;
	size_t size;

	assert_int_equal(sbt_encode(f->codec, f->in, 0, &data, &size), -EINVAL);
	assert_int_equal(sbt_encode(f->codec, f->in, SBT_OPS_MAX + 1, &data, &size), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(launches_come_back),
		TEST(the_largest_values_come_back),
		TEST(random_ops_come_back),
		TEST(times_before_the_start_come_back),
		TEST(exact_launches_come_back),
		TEST(the_time_seen_is_kept_relative_to_the_start),
		TEST(columns_that_are_not_there_are_zero),
		TEST(starts_of_zero_come_back_after_other_chunks),
		TEST(the_head_says_what_is_inside),
		TEST(chunks_in_a_row_are_told_apart_by_their_size),
		TEST(only_wanted_columns_are_filled),
		TEST(a_launch_takes_less_than_ten_bytes),
		TEST(a_chunk_cut_off_is_refused),
		TEST(a_changed_byte_is_noticed),
		TEST(a_chunk_made_by_hand_is_read),
		TEST(nonsense_with_a_right_checksum_is_refused),
		TEST(counts_out_of_range_are_not_encoded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
