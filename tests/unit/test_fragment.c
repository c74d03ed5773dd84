/* Fragment: packed pools and checkerboards, against a count of every byte, and hostile numbers. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/memory/fragment.h"

#define KIB 1024ull
#define MIB (1024 * KIB)

static struct fragment measure(const struct fragment_span *segment, size_t segments,
			       struct fragment_span *block, size_t blocks)
{
	const struct fragment_pool pool = {
		.segment = segment,
		.segment_count = segments,
		.block = block,
		.block_count = blocks,
		.request_bytes = 64 * KIB,
	};
	struct fragment ret;

	fragment_sort(block, blocks);
	fragment_measure(&pool, &ret);
	return ret;
}

/* Fills a segment with blocks; of each `every` one is freed. Returns how many are left. */
static size_t fill(struct fragment_span *block, uint64_t address, size_t count, uint64_t bytes,
		   size_t every)
{
	size_t left = 0;

	for (size_t i = 0; i < count; i++)
		if (!every || i % every)
			block[left++] = (struct fragment_span){ address + i * bytes, bytes, i, i };
	return left;
}

static void packed_pools_have_an_index_of_0(void **state)
{
	const struct fragment_span segment[] = {
		{ 32 * MIB, 20 * MIB, 0, 0 },
		{ 128 * MIB, 20 * MIB, 0, 0 },
		{ 256 * MIB, 2 * MIB, 0, 0 },
	};
	struct fragment_span block[64];
	size_t count = fill(block, 32 * MIB, 20, MIB, 0);
	struct fragment f = measure(segment, 1, block, count);

	assert_int_equal(f.index_ppm, 0);
	assert_int_equal(f.free_bytes, 0);
	assert_int_equal(f.used_bytes, 20 * MIB);

	/* Each has a free end, and one is empty: nothing that moving blocks about would join. */
	count = fill(block, 32 * MIB, 10, MIB, 0);
	count += fill(block + count, 128 * MIB, 5, MIB, 0);
	f = measure(segment, 3, block, count);
	assert_int_equal(f.index_ppm, 0);
	assert_int_equal(f.segments, 3);
	assert_int_equal(f.pieces, 3);
	assert_int_equal(f.free_bytes, 27 * MIB);
	assert_int_equal(f.empty_bytes, 2 * MIB);
	assert_int_equal(f.largest_bytes, 15 * MIB);
	assert_int_equal(f.unusable_bytes, 0);
	assert_int_equal(f.class[23].bytes, 25 * MIB);
	assert_int_equal(f.class[23].pieces, 2);
	assert_int_equal(f.class[21].bytes, 2 * MIB);
}

static void a_checkerboard_goes_to_1(void **state)
{
	const struct fragment_span segment = { MIB, 64 * MIB, 0, 0 };
	uint32_t before = 0;

	for (size_t count = 4; count <= 65536; count *= 4) {
		struct fragment_span *block = calloc(count, sizeof(*block));
		uint64_t bytes = 64 * MIB / count;
		struct fragment f;
		size_t left;

		assert_non_null(block);
		left = fill(block, MIB, count, bytes, 2);
		f = measure(&segment, 1, block, left);
		assert_int_equal(f.pieces, count / 2);
		assert_int_equal(f.largest_bytes, bytes);
		assert_int_equal(f.unusable_bytes, bytes < 64 * KIB ? 32 * MIB : 0);
		assert_int_equal(f.index_ppm, (uint32_t)lround(1e6 * (1 - 2.0 / (double)count)));
		assert_true(f.index_ppm > before);
		before = f.index_ppm;
		free(block);
	}
	assert_true(before > 999900);
}

/* Two processes may have the same addresses; each is measured alone. */
static void two_packed_processes_are_packed_each(void **state)
{
	const struct fragment_span segment = { 0x7f0000000000, 20 * MIB, 0, 0 };
	struct fragment_span one[] = { { 0x7f0000000000, 5 * MIB, 0, 0 } };
	struct fragment_span other[] = { { 0x7f0000000000, 12 * MIB, 0, 0 } };

	assert_int_equal(measure(&segment, 1, one, 1).index_ppm, 0);
	assert_int_equal(measure(&segment, 1, other, 1).index_ppm, 0);
}

static struct {
	size_t count;
	uint64_t owner[8], bytes[8];
} divided;

static void divider(void *data, const struct fragment_span *oldest, uint64_t bytes)
{
	assert_true(divided.count < ARRAY_SIZE(divided.owner));
	divided.owner[divided.count] = oldest->owner;
	divided.bytes[divided.count++] = bytes;
}

static void the_oldest_block_between_two_pieces_divides_them(void **state)
{
	const struct fragment_span segment[] = { { 0, 10 * MIB, 0, 0 },
						 { 10 * MIB, 10 * MIB, 0, 0 } };
	const struct fragment_span block[] = {
		{ 0, MIB, 1, 1 }, /* nothing is before it */
		{ 3 * MIB, MIB, 5, 2 },	 { 4 * MIB, MIB, 4, 3 }, { 5 * MIB, MIB, 6, 4 },
		{ 7 * MIB, MIB, 7, 5 },	 { 9 * MIB, MIB, 8, 6 }, /* at the end of its segment */
		{ 11 * MIB, MIB, 9, 7 },
	};
	struct fragment_pool pool = {
		.segment = segment,
		.segment_count = ARRAY_SIZE(segment),
		.block = block,
		.block_count = ARRAY_SIZE(block),
		.divider = divider,
	};
	struct fragment f;

	memset(&divided, 0, sizeof(divided));
	fragment_measure(&pool, &f);
	assert_int_equal(divided.count, 3);
	assert_int_equal(divided.owner[0], 3);
	assert_int_equal(divided.bytes[0], MIB);
	assert_int_equal(divided.owner[1], 5);
	assert_int_equal(divided.bytes[1], MIB);
	assert_int_equal(divided.owner[2], 7);
	assert_int_equal(f.pieces, 5);
}

static struct fragment measure_granules(struct fragment_span *block, size_t count)
{
	const struct fragment_pool pool = { .block = block,
					    .block_count = count,
					    .granule_bytes = 2 * MIB };
	struct fragment ret;

	fragment_sort(block, count);
	fragment_measure(&pool, &ret);
	return ret;
}

static void the_drivers_memory_is_taken_in_granules(void **state)
{
	struct fragment_span block[4096];
	size_t count;
	struct fragment f;

	/* 3 MiB each, at every 4 MiB: what is left of the second granule is one piece. */
	for (count = 0; count < 16; count++)
		block[count] = (struct fragment_span){ count * 4 * MIB, 3 * MIB, 0, 0 };
	f = measure_granules(block, count);
	assert_int_equal(f.segments, 32);
	assert_int_equal(f.segment_bytes, 64 * MIB);
	assert_int_equal(f.free_bytes, 16 * MIB);
	assert_int_equal(f.index_ppm, 0);

	/* One large block, which starts in the middle of a granule. */
	block[0] = (struct fragment_span){ 101 * MIB, 100 * MIB, 0, 0 };
	f = measure_granules(block, 1);
	assert_int_equal(f.segments, 51);
	assert_int_equal(f.used_bytes, 100 * MIB);
	assert_int_equal(f.free_bytes, 2 * MIB);
	block[0] = (struct fragment_span){ 100 * MIB, 100 * MIB, 0, 0 };
	f = measure_granules(block, 1);
	assert_int_equal(f.segments, 50);
	assert_int_equal(f.free_bytes, 0);

	/* Small ones, of which every other is freed. */
	count = fill(block, 8 * MIB, 4096, 512, 2);
	f = measure_granules(block, count);
	assert_int_equal(f.segments, 1);
	assert_int_equal(f.pieces, 2048);
	assert_int_equal(f.index_ppm, 999512);
}

static void hostile_numbers_are_counted_once(void **state)
{
	const uint64_t huge = 1ull << 63;
	const struct fragment_span segment[] = {
		{ 0, huge, 0, 0 },	    { 0, UINT64_MAX, 0, 0 },	      { 5, 0, 0, 0 },
		{ huge, UINT64_MAX, 0, 0 }, { UINT64_MAX, UINT64_MAX, 0, 0 },
	};
	struct fragment_span block[] = {
		{ 0, 100, 0, 0 },	 { 50, 100, 0, 0 },
		{ 60, 10, 0, 0 },	 { 60, 0, 0, 0 },
		{ huge - 10, 20, 0, 0 }, { huge, huge, 0, 0 },
		{ huge, huge, 0, 0 },	 { UINT64_MAX, UINT64_MAX, 0, 0 },
	};
	struct fragment f = measure(segment, ARRAY_SIZE(segment), block, ARRAY_SIZE(block));

	assert_int_equal(f.used_bytes + f.free_bytes, UINT64_MAX);
	assert_int_equal(f.free_bytes, huge - 10 - 150);
	assert_true(f.stray_bytes >= huge);
	assert_true(f.index_ppm <= 1000000);
	f = measure_granules(block, ARRAY_SIZE(block));
	assert_true(f.used_bytes + f.free_bytes >= huge);
	assert_true(f.index_ppm <= 1000000);

	f = measure(NULL, 0, NULL, 0);
	assert_int_equal(f.segments + f.free_bytes + f.index_ppm, 0);
	f = measure_granules(NULL, 0);
	assert_int_equal(f.segments + f.free_bytes + f.index_ppm, 0);
	f = measure(NULL, 0, block, ARRAY_SIZE(block));
	assert_int_equal(f.used_bytes, 0);
	assert_int_equal(f.stray_bytes, UINT64_MAX);
}

/* Of 4096 bytes, each counted by itself. */
#define SMALL 4096

static void slow(const struct fragment_span *segment, size_t segments,
		 const struct fragment_span *block, size_t blocks, struct fragment *ret)
{
	static uint8_t used[SMALL];
	uint64_t free_beside;
	double one_piece = 0;

	memset(used, 0, sizeof(used));
	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < blocks; i++)
		for (uint64_t at = 0; at < block[i].bytes; at++)
			used[(block[i].address + at) % SMALL] = 1;
	for (size_t i = 0; i < segments; i++) {
		uint64_t piece = 0, squares = 0, free_bytes = 0, taken = 0;

		for (uint64_t at = 0; at <= segment[i].bytes; at++) {
			bool free = at < segment[i].bytes && !used[segment[i].address + at];

			if (free) {
				piece++;
				continue;
			}
			taken += at < segment[i].bytes;
			ret->pieces += piece > 0;
			ret->largest_bytes =
				piece > ret->largest_bytes ? piece : ret->largest_bytes;
			squares += piece * piece;
			free_bytes += piece;
			piece = 0;
		}
		ret->free_bytes += free_bytes;
		ret->used_bytes += taken;
		if (!taken)
			ret->empty_bytes += free_bytes;
		else if (free_bytes)
			one_piece += (double)squares / (double)free_bytes;
	}
	free_beside = ret->free_bytes - ret->empty_bytes;
	if (free_beside)
		ret->index_ppm = (uint32_t)(1e6 * (1 - one_piece / (double)free_beside) + 0.5);
}

static void random_pools_are_as_counted_byte_by_byte(void **state)
{
	srand(7);
	for (int round = 0; round < 2000; round++) {
		struct fragment_span segment[16], block[64];
		size_t segments = 0, blocks = 0;
		struct fragment want, got;

		for (uint64_t at = (uint64_t)rand() % 64; at < SMALL - 300 && segments < 16;) {
			uint64_t bytes = 1 + (uint64_t)rand() % 300;

			segment[segments++] = (struct fragment_span){ at, bytes, 0, 0 };
			at += bytes + (rand() % 3 ? 0 : (uint64_t)rand() % 50);
		}
		for (size_t i = 0; i < segments && blocks < 60; i++)
			for (uint64_t at = 0; at < segment[i].bytes && blocks < 60;) {
				uint64_t bytes = 1 + (uint64_t)rand() % 40;

				if (bytes > segment[i].bytes - at)
					bytes = segment[i].bytes - at;
				if (rand() % 2)
					block[blocks++] =
						(struct fragment_span){ segment[i].address + at,
									bytes, 0, 0 };
				at += bytes;
			}
		slow(segment, segments, block, blocks, &want);
		got = measure(segment, segments, block, blocks);
		assert_int_equal(got.used_bytes, want.used_bytes);
		assert_int_equal(got.free_bytes, want.free_bytes);
		assert_int_equal(got.empty_bytes, want.empty_bytes);
		assert_int_equal(got.pieces, want.pieces);
		assert_int_equal(got.largest_bytes, want.largest_bytes);
		assert_true(labs((long)got.index_ppm - (long)want.index_ppm) <= 1);
		assert_int_equal(got.stray_bytes, 0);
	}
}

static void half_of_the_bytes_are_in_blocks_of_the_typical_size(void **state)
{
	struct fragment_size size[] = {
		{ 10, 10 }, { 100, 100 }, { 30, 30 }, { 50, 50 }, { 9, 9 }
	};

	assert_int_equal(fragment_typical(size, ARRAY_SIZE(size)), 100);
	size[0].sum_bytes = 40;
	assert_int_equal(fragment_typical(size, ARRAY_SIZE(size)), 50);
	assert_int_equal(fragment_typical(NULL, 0), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packed_pools_have_an_index_of_0),
		cmocka_unit_test(a_checkerboard_goes_to_1),
		cmocka_unit_test(two_packed_processes_are_packed_each),
		cmocka_unit_test(the_oldest_block_between_two_pieces_divides_them),
		cmocka_unit_test(the_drivers_memory_is_taken_in_granules),
		cmocka_unit_test(hostile_numbers_are_counted_once),
		cmocka_unit_test(random_pools_are_as_counted_byte_by_byte),
		cmocka_unit_test(half_of_the_bytes_are_in_blocks_of_the_typical_size),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
