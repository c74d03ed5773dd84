/* test_waste: what is waste, and how certain it is, over operations made by hand. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/base/time.h"
#include "core/waste/blocks.h"
#include "core/waste/waste.h"

#define MS	 1000000ull
#define START_NS (1000 * NS_PER_S)
#define AT(ms)	 (START_NS + (ms)*MS)
#define BLOCK	 0x7f0000000000ull
#define HOST	 0x5500000000ull
#define STACK	 77

struct fixture {
	struct waste *waste;
	struct sums rows;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_int_equal(waste_new(7, AT(0), AT(100000), 4096, &fixture->waste), 0);
	fixture->rows = WASTE_ROWS;
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	waste_free(fixture->waste);
	sums_release(&fixture->rows);
	free(fixture);
	return 0;
}

static void add(struct fixture *fixture, struct op op)
{
	op.process = 7;
	assert_int_equal(waste_add(fixture->waste, &op), 0);
}

/* Calls take a millisecond. */
static void alloc(struct fixture *fixture, uint64_t ms, uint64_t address, uint64_t bytes,
		  uint8_t detail)
{
	add(fixture, (struct op){ .kind = OP_ALLOC,
				  .detail = detail,
				  .fn = 1,
				  .start_ns = AT(ms),
				  .end_ns = AT(ms + 1),
				  .flags = OP_RETURNED,
				  .address = address,
				  .bytes = bytes,
				  .stack_id = STACK });
}

static void release(struct fixture *fixture, uint64_t ms, uint64_t address, uint64_t bytes,
		    uint8_t detail)
{
	add(fixture, (struct op){ .kind = OP_FREE,
				  .detail = detail,
				  .fn = 2,
				  .start_ns = AT(ms),
				  .end_ns = AT(ms + 1),
				  .flags = OP_RETURNED,
				  .address = address,
				  .bytes = bytes });
}

static void set(struct fixture *fixture, uint64_t ms, uint64_t address, uint64_t bytes)
{
	add(fixture, (struct op){ .kind = OP_SET,
				  .fn = 3,
				  .start_ns = AT(ms),
				  .address = address,
				  .bytes = bytes });
}

static void upload(struct fixture *fixture, uint64_t ms, uint64_t done_ms, uint16_t flags)
{
	add(fixture, (struct op){ .kind = OP_COPY,
				  .detail = COPY_HTOD,
				  .fn = 4,
				  .start_ns = AT(ms),
				  .gpu_end_ns = AT(done_ms),
				  .flags = flags,
				  .address = BLOCK,
				  .source = HOST + 100,
				  .bytes = 1000 });
}

static void find(struct fixture *fixture)
{
	assert_int_equal(waste_find(fixture->waste, AT(0), &fixture->rows), 0);
}

/* The only one, of this pattern. */
static const struct waste_row *only(struct fixture *fixture, uint8_t pattern, uint8_t certainty)
{
	const struct waste_row *row;

	find(fixture);
	assert_int_equal(fixture->rows.count, 1);
	row = sums_row(&fixture->rows, 0);
	assert_int_equal(row->key.pattern, pattern);
	assert_int_equal(row->key.certainty, certainty);
	assert_int_equal(row->key.process, 7);
	return row;
}

static void nothing(struct fixture *fixture)
{
	find(fixture);
	assert_int_equal(fixture->rows.count, 0);
}

static void a_block_that_nothing_used_is_waste(void **state)
{
	const struct waste_row *row;

	alloc(*state, 0, BLOCK, 4096, MEMORY_DEVICE);
	set(*state, 5, BLOCK + 4096, 100); /* behind it */
	release(*state, 11, BLOCK, 4096, MEMORY_DEVICE);
	row = only(*state, WASTE_UNTOUCHED, CERTAINTY_CERTAIN);
	assert_int_equal(row->key.stack, STACK);
	assert_int_equal(row->key.fn, 1);
	assert_int_equal(row->bytes, 4096);
	assert_int_equal(row->lost_ns, 2 * MS);
	assert_int_equal(row->held_ns, 10 * MS);
}

static void a_use_of_its_last_byte_is_one(void **state)
{
	alloc(*state, 0, BLOCK, 4096, MEMORY_DEVICE);
	set(*state, 5, BLOCK + 4095, 1);
	release(*state, 11, BLOCK, 4096, MEMORY_DEVICE);
	nothing(*state);
}

static void one_copy_across_blocks_uses_them_all(void **state)
{
	for (uint64_t i = 0; i < 100; i++)
		alloc(*state, i, BLOCK + 4096 * i, 4096, MEMORY_DEVICE);
	set(*state, 500, BLOCK + 4095, 4096 * 98 + 2);
	for (uint64_t i = 0; i < 100; i++)
		release(*state, 600 + i, BLOCK + 4096 * i, 4096, MEMORY_DEVICE);
	nothing(*state);
}

static void tensors_lie_inside_other_blocks(void **state)
{
	const struct waste_row *row;

	alloc(*state, 0, BLOCK, 1 << 20, MEMORY_DEVICE);
	alloc(*state, 2, BLOCK, 512, MEMORY_TENSOR);
	alloc(*state, 3, BLOCK + 512, 512, MEMORY_TENSOR);
	set(*state, 5, BLOCK + 600, 100);
	release(*state, 6, BLOCK, 512, MEMORY_TENSOR);
	release(*state, 7, BLOCK + 512, 512, MEMORY_TENSOR);
	release(*state, 11, BLOCK, 1 << 20, MEMORY_DEVICE);
	row = only(*state, WASTE_UNTOUCHED, CERTAINTY_CERTAIN);
	assert_int_equal(row->key.detail, MEMORY_TENSOR);
	assert_int_equal(row->bytes, 512);
}

static void both_may_start_at_one_address(void **state)
{
	struct fixture *fixture = *state;

	alloc(*state, 0, BLOCK, 1 << 20, MEMORY_DEVICE);
	alloc(*state, 2, BLOCK, 512, MEMORY_TENSOR);
	release(*state, 6, BLOCK, 512, MEMORY_TENSOR);
	release(*state, 11, BLOCK, 1 << 20, MEMORY_DEVICE);
	find(fixture);
	assert_int_equal(fixture->rows.count, 2);
}

/* Where something ran meanwhile decides. */
static void kernels_may_have_used_it(void **state)
{
	struct fixture *fixture = *state;
	static const struct {
		int16_t device;
		uint64_t start_ms, end_ms;
		uint8_t certainty;
	} ran[] = {
		{ 0, 5, 6, CERTAINTY_POSSIBLE },
		{ 0, 0, 50000, CERTAINTY_POSSIBLE },
		{ DEVICE_UNKNOWN, 5, 6, CERTAINTY_POSSIBLE },
		{ 1, 5, 6, CERTAINTY_LIKELY },
		{ 1000, 5, 6, CERTAINTY_POSSIBLE },
		{ 0, 50, 60, CERTAINTY_CERTAIN },
	};

	for (size_t i = 0; i < ARRAY_SIZE(ran); i++) {
		alloc(fixture, 0, BLOCK, 4096, MEMORY_DEVICE);
		release(fixture, 11, BLOCK, 4096, MEMORY_DEVICE);
		assert_int_equal(waste_ran(fixture->waste, ran[i].device, AT(ran[i].start_ms),
					   AT(ran[i].end_ms)),
				 0);
		only(fixture, WASTE_UNTOUCHED, ran[i].certainty);
		teardown(state);
		setup(state);
		fixture = *state;
	}
}

static void what_the_host_may_use_is_never_certain(void **state)
{
	alloc(*state, 0, BLOCK, 4096, MEMORY_MANAGED);
	release(*state, 11, BLOCK, 4096, MEMORY_MANAGED);
	only(*state, WASTE_UNTOUCHED, CERTAINTY_POSSIBLE);
}

static void memory_that_lies_idle_for_long_is_waste(void **state)
{
	const struct waste_row *row;

	alloc(*state, 0, BLOCK, 4096, MEMORY_DEVICE);
	set(*state, 500, BLOCK, 1);
	release(*state, 1600, BLOCK, 4096, MEMORY_DEVICE);
	/* Used for longer than it lay idle, and idle for less than a second. */
	alloc(*state, 2000, BLOCK, 4096, MEMORY_DEVICE);
	set(*state, 9000, BLOCK, 1);
	release(*state, 11000, BLOCK, 4096, MEMORY_DEVICE);
	alloc(*state, 12000, BLOCK, 4096, MEMORY_DEVICE);
	set(*state, 12100, BLOCK, 1);
	release(*state, 13000, BLOCK, 4096, MEMORY_DEVICE);
	row = only(*state, WASTE_LATE, CERTAINTY_CERTAIN);
	assert_int_equal(row->count, 1);
	assert_int_equal(row->held_ns, 1100 * MS);
}

static void rounds(struct fixture *fixture, uint64_t count, uint64_t step_ms, uint64_t blocks,
		   uint8_t detail)
{
	for (uint64_t i = 0; i < count; i++) {
		for (uint64_t b = 0; b < blocks; b++)
			alloc(fixture, i * step_ms + b, BLOCK + 8192 * b, 4096, detail);
		set(fixture, i * step_ms + 20, BLOCK, 8192 * blocks);
		for (uint64_t b = 0; b < blocks; b++)
			release(fixture, i * step_ms + 21 + b, BLOCK + 8192 * b, 4096, detail);
	}
}

static void allocating_in_each_step_is_waste(void **state)
{
	const struct waste_row *row;

	rounds(*state, 10, 50, 3, MEMORY_DEVICE);
	row = only(*state, WASTE_REPEATED, CERTAINTY_CERTAIN);
	assert_int_equal(row->count, 27); /* the first three had to be */
	assert_int_equal(row->bytes, 27 * 4096);
	assert_int_equal(row->lost_ns, 2 * 27 * MS);
}

static void a_few_times_are_no_steps(void **state)
{
	rounds(*state, 8, 50, 3, MEMORY_DEVICE);
	nothing(*state);
}

static void a_pool_keeps_what_is_freed(void **state)
{
	rounds(*state, 20, 50, 3, MEMORY_POOL);
	nothing(*state);
}

static void page_locked_memory_costs_too(void **state)
{
	rounds(*state, 20, 50, 1, MEMORY_HOST);
	only(*state, WASTE_REPEATED, CERTAINTY_CERTAIN);
}

/* All are built up before any is freed: a pool would not help. */
static void building_up_once_is_no_waste(void **state)
{
	rounds(*state, 2, 1000, 18, MEMORY_DEVICE);
	nothing(*state);
}

static void uploads(struct fixture *fixture, uint64_t count, uint64_t done_after_ms, uint16_t flags)
{
	alloc(fixture, 0, HOST, 4096, MEMORY_HOST);
	for (uint64_t i = 0; i < count; i++)
		upload(fixture, 10 + 10 * i, 10 + 10 * i + done_after_ms, flags);
}

static void a_source_that_may_have_changed_is_possible(void **state)
{
	uploads(*state, 9, 5, OP_BOUNDS);
	assert_int_equal(only(*state, WASTE_COPIED, CERTAINTY_POSSIBLE)->count, 8);
}

static void a_few_uploads_are_nothing(void **state)
{
	uploads(*state, 8, 15, OP_BOUNDS);
	nothing(*state);
}

static void a_source_that_must_not_have_changed_is_likely(void **state)
{
	uploads(*state, 9, 15, OP_BOUNDS);
	assert_int_equal(only(*state, WASTE_COPIED, CERTAINTY_LIKELY)->bytes, 8000);
}

static void with_exact_times_it_is_certain(void **state)
{
	uploads(*state, 9, 15, OP_EXACT);
	only(*state, WASTE_COPIED, CERTAINTY_CERTAIN);
}

/* Its call has taken a copy of the memory. */
static void pageable_sources_may_change_at_once(void **state)
{
	uint64_t pageable = 0;
	struct fixture *fixture = *state;

	uploads(*state, 9, 15, OP_EXACT | OP_PAGEABLE);
	find(fixture);
	assert_int_equal(fixture->rows.count, 2);
	for (uint32_t i = 0; i < 2; i++) {
		const struct waste_row *row = sums_row(&fixture->rows, i);

		if (row->key.pattern == WASTE_PAGEABLE)
			pageable += row->count;
		else
			assert_int_equal(row->key.certainty, CERTAINTY_POSSIBLE);
	}
	assert_int_equal(pageable, 9);
}

static void what_a_device_wrote_to_the_host_is_new(void **state)
{
	uploads(*state, 9, 15, OP_EXACT);
	for (uint64_t i = 0; i < 9; i++)
		add(*state, (struct op){ .kind = OP_COPY,
					 .detail = COPY_DTOH,
					 .fn = 5,
					 .start_ns = AT(12 + 10 * i),
					 .address = HOST,
					 .source = BLOCK,
					 .bytes = 10 });
	only(*state, WASTE_COPIED, CERTAINTY_POSSIBLE);
}

static void what_is_not_seen_makes_it_possible(void **state)
{
	static const struct op unseen[] = {
		{ .kind = OP_COPY, .start_ns = AT(5), .bytes = 100 },
		{ .kind = OP_COPY, .start_ns = AT(5), .address = 1, .flags = OP_UNREAD },
		{ .kind = OP_SET, .start_ns = AT(5), .address = 1, .flags = OP_NODE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(unseen); i++) {
		alloc(*state, 0, BLOCK, 4096, MEMORY_DEVICE);
		add(*state, unseen[i]);
		release(*state, 11, BLOCK, 4096, MEMORY_DEVICE);
		only(*state, WASTE_UNTOUCHED, CERTAINTY_POSSIBLE);
		teardown(state);
		setup(state);
	}
}

static void what_failed_did_nothing(void **state)
{
	alloc(*state, 0, BLOCK, 4096, MEMORY_DEVICE);
	add(*state, (struct op){ .kind = OP_SET,
				 .start_ns = AT(5),
				 .flags = OP_RETURNED,
				 .result = 1,
				 .address = BLOCK,
				 .bytes = 1 });
	release(*state, 11, BLOCK, 4096, MEMORY_DEVICE);
	only(*state, WASTE_UNTOUCHED, CERTAINTY_CERTAIN);
}

static void only_so_many_are_remembered(void **state)
{
	const struct op op = { .kind = OP_SET, .start_ns = AT(1), .address = 1 };
	struct fixture *fixture = *state;

	for (int i = 0; i < 4096; i++)
		assert_int_equal(waste_add(fixture->waste, &op), 0);
	assert_int_equal(waste_add(fixture->waste, &op), -E2BIG);
}

static uint64_t small(uint64_t *seed, uint64_t below)
{
	*seed = *seed * 6364136223846793005ull + 1442695040888963407ull;
	return (*seed >> 33) % below;
}

static uint64_t pick(uint64_t *seed)
{
	static const uint64_t odd[] = { 0,	   1,	      BLOCK,	 BLOCK + 4096,
					HOST,	   INT64_MAX, INT64_MIN, UINT64_MAX - 4095,
					UINT64_MAX };

	return small(seed, 4) ? odd[(*seed >> 33) % ARRAY_SIZE(odd)] : AT((*seed >> 33) % 20000);
}

/* Recordings may say anything. */
static void hostile_numbers_do_no_harm(void **state)
{
	uint64_t seed = 1;

	for (int round = 0; round < 50; round++) {
		struct fixture *fixture = *state;

		for (int i = 0; i < 2000; i++) {
			const struct op op = {
				.kind = (uint8_t)small(&seed, 16),
				.detail = (uint8_t)small(&seed, 16),
				.fn = (uint16_t)small(&seed, 3),
				.flags = (uint16_t)(small(&seed, 1 << 12) & ~OP_RETURNED),
				.device = (int16_t)pick(&seed),
				.start_ns = pick(&seed),
				.end_ns = pick(&seed),
				.gpu_end_ns = pick(&seed),
				.address = pick(&seed),
				.source = pick(&seed),
				.bytes = pick(&seed),
				.stack_id = small(&seed, 3),
			};

			assert_int_equal(waste_add(fixture->waste, &op), 0);
			assert_int_equal(waste_ran(fixture->waste, (int16_t)pick(&seed),
						   pick(&seed), pick(&seed)),
					 0);
		}
		assert_int_equal(
			waste_find(fixture->waste, small(&seed, 2) ? 0 : AT(100), &fixture->rows),
			0);
		for (uint32_t i = 0; i < fixture->rows.count; i++) {
			const struct waste_row *row = sums_row(&fixture->rows, i);

			assert_true((int64_t)row->bytes >= 0 && (int64_t)row->lost_ns >= 0 &&
				    (int64_t)row->held_ns >= 0 && row->count > 0);
			assert_non_null(waste_pattern_name(row->key.pattern));
			assert_non_null(certainty_name(row->key.certainty));
		}
		teardown(state);
		setup(state);
	}
}

/* Against a list of all. */
static void the_last_live_block_is_found(void **state)
{
	enum { COUNT = 5000 };
	uint64_t *address = malloc(COUNT * sizeof(*address)), seed = 5;
	static int32_t live[COUNT * 2];
	struct blocks blocks;

	(void)state;
	for (uint32_t i = 0; i < COUNT; i++)
		address[i] = i * 3 % (COUNT / 2) * 2 + 10;
	assert_int_equal(blocks_init(&blocks, address, COUNT), 0);
	for (int i = 0; i < COUNT * 2; i++)
		live[i] = -1;
	for (int i = 0; i < 20000; i++) {
		uint64_t at = small(&seed, COUNT), start;
		int32_t last = (int32_t)at;
		uint32_t found;

		if (i % 5 == 0 && at >= 10 && at % 2 == 0) {
			blocks_put(&blocks, at, (uint32_t)i);
			live[at] = i;
		} else if (i % 5 < 2) {
			assert_int_equal(blocks_take(&blocks, at, &found), live[at] >= 0);
			live[at] = -1;
		}
		at = small(&seed, COUNT);
		for (last = (int32_t)at; last >= 0 && live[last] < 0;)
			last--;
		assert_int_equal(blocks_before(&blocks, at, &found, &start), last >= 0);
		if (last >= 0) {
			assert_int_equal(start, last);
			assert_int_equal(found, live[last]);
		}
	}
	blocks_release(&blocks);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_block_that_nothing_used_is_waste),
		TEST(a_use_of_its_last_byte_is_one),
		TEST(one_copy_across_blocks_uses_them_all),
		TEST(tensors_lie_inside_other_blocks),
		TEST(both_may_start_at_one_address),
		TEST(kernels_may_have_used_it),
		TEST(what_the_host_may_use_is_never_certain),
		TEST(memory_that_lies_idle_for_long_is_waste),
		TEST(allocating_in_each_step_is_waste),
		TEST(a_few_times_are_no_steps),
		TEST(a_pool_keeps_what_is_freed),
		TEST(page_locked_memory_costs_too),
		TEST(building_up_once_is_no_waste),
		TEST(a_source_that_may_have_changed_is_possible),
		TEST(a_few_uploads_are_nothing),
		TEST(a_source_that_must_not_have_changed_is_likely),
		TEST(with_exact_times_it_is_certain),
		TEST(pageable_sources_may_change_at_once),
		TEST(what_a_device_wrote_to_the_host_is_new),
		TEST(what_is_not_seen_makes_it_possible),
		TEST(what_failed_did_nothing),
		TEST(only_so_many_are_remembered),
		TEST(hostile_numbers_do_no_harm),
		cmocka_unit_test(the_last_live_block_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
