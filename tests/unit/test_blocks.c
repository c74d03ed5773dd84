/* Blocks: whatever is told, the segments do not overlap, the blocks lie in them, and each event
 * that is kept fits, going back in time. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "client/export/blocks.h"

#define PAGE 4096u

static const struct meta no_meta;

static struct op op_of(uint8_t kind, uint8_t memory, uint64_t at, uint64_t address, uint64_t bytes)
{
	return (struct op){ .kind = kind,
			    .detail = memory,
			    .process = 1,
			    .start_ns = at,
			    .end_ns = memory == MEMORY_TENSOR ? 0 : at,
			    .address = address,
			    .bytes = bytes };
}

static void add(struct blocks *blocks, uint8_t kind, uint8_t memory, uint64_t at, uint64_t address,
		uint64_t bytes)
{
	const struct op op = op_of(kind, memory, at, address, bytes);

	assert_int_equal(blocks_add(blocks, &op), 0);
}

static void hold(struct blocks *blocks, uint8_t kind, uint64_t at, uint64_t address, uint64_t bytes)
{
	const struct meta_held held = {
		.process = 1, .kind = kind, .at_ns = at, .address = address, .bytes = bytes
	};

	assert_int_equal(blocks_hold(blocks, &held), 0);
}

static void check(const struct blocks *blocks)
{
	uint64_t end = 0;
	size_t at = 0;

	for (size_t i = 0; i < blocks->segment_count; i++) {
		const struct blocks_segment *segment = &blocks->segment[i];

		assert_true(segment->address >= end);
		end = segment->address + segment->bytes;
		for (uint64_t from = segment->address;
		     at < blocks->held_count && blocks->held[at].address < end; at++) {
			assert_true(blocks->held[at].address >= from);
			from = blocks->held[at].address + blocks->held[at].bytes;
			assert_true(from <= end);
		}
	}
	assert_int_equal(at, blocks->held_count);
}

/* What is held and what happened overlap: an event does not know what was asked for. */
static void what_was_asked_for_is_that_of_the_same_block(void **state)
{
	struct blocks blocks = { .meta = &no_meta };
	struct meta_held held = { .process = 1,
				  .kind = MEMORY_TENSOR,
				  .at_ns = 10,
				  .address = 16 * PAGE,
				  .bytes = PAGE,
				  .requested_bytes = PAGE - 5 };

	assert_int_equal(blocks_hold(&blocks, &held), 0);
	add(&blocks, OP_ALLOC, MEMORY_TENSOR, 10, 16 * PAGE, PAGE);
	held.address = 18 * PAGE;
	assert_int_equal(blocks_hold(&blocks, &held), 0);
	add(&blocks, OP_FREE, MEMORY_TENSOR, 20, 18 * PAGE, PAGE);
	add(&blocks, OP_ALLOC, MEMORY_TENSOR, 30, 18 * PAGE, PAGE);
	held.address = 20 * PAGE;
	assert_int_equal(blocks_hold(&blocks, &held), 0);
	assert_int_equal(blocks_finish(&blocks, 1), 0);
	assert_int_equal(blocks.held_count, 3);
	assert_int_equal(blocks.held[0].requested_bytes, PAGE - 5);
	assert_int_equal(blocks.held[1].requested_bytes, 0);
	assert_int_equal(blocks.held[2].requested_bytes, PAGE - 5);
	blocks_clear(&blocks);
}

static void what_is_live_is_what_was_told_last(void **state)
{
	struct blocks blocks = { .meta = &no_meta };
	uint32_t process;

	hold(&blocks, MEMORY_DEVICE, 1, 16 * PAGE, 16 * PAGE);
	hold(&blocks, MEMORY_DEVICE, 1, 64 * PAGE, PAGE); /* of no interest: no block, no library */
	hold(&blocks, MEMORY_TENSOR, 2, 16 * PAGE, PAGE); /* freed below */
	hold(&blocks, MEMORY_TENSOR, 3, 18 * PAGE, PAGE);
	add(&blocks, OP_ALLOC, MEMORY_TENSOR, 7, 17 * PAGE, PAGE); /* in any order */
	add(&blocks, OP_FREE, MEMORY_TENSOR, 5, 16 * PAGE, PAGE);
	add(&blocks, OP_ALLOC, MEMORY_TENSOR, 4, 17 * PAGE, PAGE);
	add(&blocks, OP_FREE, MEMORY_TENSOR, 6, 17 * PAGE, PAGE);
	assert_int_equal(blocks_process(&blocks, &process), 0);
	assert_int_equal(process, 1);
	assert_int_equal(blocks_finish(&blocks, 1), 0);
	check(&blocks);
	assert_int_equal(blocks.segment_count, 1);
	assert_int_equal(blocks.held_count, 2);
	assert_int_equal(blocks.held[0].at_ns, 7);
	assert_int_equal(blocks.held[1].at_ns, 3);
	assert_int_equal(blocks.event_count, 4);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(blocks.event[i].at_ns, 4 + i);
		assert_true(blocks.event[i].kept);
	}
	assert_int_equal(blocks.unfit, 0);
	blocks_clear(&blocks);
}

static void pieces_that_follow_one_another_are_one_segment(void **state)
{
	struct blocks blocks = { .meta = &no_meta };

	hold(&blocks, MEMORY_MAPPED, 1, 16 * PAGE, 2 * PAGE);
	hold(&blocks, MEMORY_MAPPED, 2, 18 * PAGE, 2 * PAGE);
	hold(&blocks, MEMORY_MAPPED, 3, 32 * PAGE, 2 * PAGE);
	hold(&blocks, MEMORY_TENSOR, 4, 16 * PAGE, PAGE);
	hold(&blocks, MEMORY_TENSOR, 4, 18 * PAGE, PAGE);
	hold(&blocks, MEMORY_TENSOR, 5, 32 * PAGE, 2 * PAGE);
	hold(&blocks, MEMORY_TENSOR, 6, 48 * PAGE, PAGE); /* from before we watched */
	hold(&blocks, MEMORY_TENSOR, 6, 49 * PAGE, PAGE);
	assert_int_equal(blocks_finish(&blocks, 1), 0);
	check(&blocks);
	assert_int_equal(blocks.held_count, 5);
	assert_int_equal(blocks.segment_count, 3);
	assert_int_equal(blocks.segment[0].bytes, 4 * PAGE);
	assert_true(blocks.segment[0].mapped && blocks.segment[1].mapped);
	assert_true(blocks.segment[2].made_up);
	assert_int_equal(blocks.segment[2].bytes, 2 * PAGE);
	blocks_clear(&blocks);
}

static void two_processes_are_not_one(void **state)
{
	struct blocks blocks = { .meta = &no_meta };
	struct op other = op_of(OP_ALLOC, MEMORY_TENSOR, 1, PAGE, PAGE);
	uint32_t process;

	assert_int_equal(blocks_process(&blocks, &process), 0);
	assert_int_equal(process, 0);
	add(&blocks, OP_ALLOC, MEMORY_TENSOR, 1, PAGE, PAGE);
	other.process = 2;
	assert_int_equal(blocks_add(&blocks, &other), 0);
	assert_int_equal(blocks_process(&blocks, &process), -E2BIG);
	assert_int_equal(blocks_finish(&blocks, 2), 0);
	assert_int_equal(blocks.held_count, 1);
	assert_int_equal(blocks.event_count, 1);
	blocks_clear(&blocks);
}

static void the_latest_events_are_kept_and_the_earlier_ones_count(void **state)
{
	struct blocks blocks = { .meta = &no_meta };
	const size_t count = BLOCKS_EVENTS_MAX + BLOCKS_EVENTS_MAX / 4;

	hold(&blocks, MEMORY_DEVICE, 0, PAGE, 1024 * PAGE);
	add(&blocks, OP_ALLOC, MEMORY_TENSOR, 0, 1024 * PAGE, PAGE);
	for (size_t i = 1; i < count; i++)
		add(&blocks, i % 2 ? OP_ALLOC : OP_FREE, MEMORY_TENSOR, i,
		    (1 + (i - 1) / 2 % 512) * PAGE, PAGE);
	assert_int_equal(blocks_finish(&blocks, 1), 0);
	check(&blocks);
	assert_int_equal(blocks.earlier, BLOCKS_EVENTS_MAX / 2);
	assert_int_equal(blocks.event_count, count - BLOCKS_EVENTS_MAX / 2);
	assert_int_equal(blocks.held_count, 2); /* the first, and the last */
	assert_int_equal(blocks.unfit, 0);
	blocks_clear(&blocks);
}

/* What a recording claims may be anything. */
static void nonsense_is_left_out(void **state)
{
	static const uint8_t kinds[] = { OP_ALLOC, OP_FREE, OP_LAUNCH };
	static const uint8_t memory[] = { MEMORY_TENSOR, MEMORY_DEVICE, MEMORY_MAPPED };

	srand(1);
	for (int round = 0; round < 300; round++) {
		struct blocks blocks = { .meta = &no_meta };
		int big = round % 10 == 0;

		for (int i = 0; i < 400; i++) {
			uint64_t at = (uint64_t)rand() % 300, bytes = 1 + (uint64_t)rand() % 9;
			uint64_t address = (uint64_t)rand() % 64;

			if (big && i % 7 == 0)
				address = UINT64_MAX - address, bytes = UINT64_MAX - bytes;
			if (i % 3)
				add(&blocks, kinds[rand() % 3], memory[rand() % 3], at, address,
				    bytes);
			else
				hold(&blocks, memory[rand() % 3], at, address, bytes);
		}
		assert_int_equal(blocks_finish(&blocks, 1), 0);
		check(&blocks);
		blocks_clear(&blocks);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_asked_for_is_that_of_the_same_block),
		cmocka_unit_test(what_is_live_is_what_was_told_last),
		cmocka_unit_test(pieces_that_follow_one_another_are_one_segment),
		cmocka_unit_test(two_processes_are_not_one),
		cmocka_unit_test(the_latest_events_are_kept_and_the_earlier_ones_count),
		cmocka_unit_test(nonsense_is_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
