/* Blocks of a framework's allocator: what it says, what is known of it, and what is not. */
#include "core/leak/verdict.h"
#include "core/model/allocator.h"
#include "core_fixture.h"

#define A	 0xa000
#define B	 0xb000
#define SECOND	 1000000000ull
#define CUDA	 1
#define GARBAGE	 0xdead0000 /* above the two bytes of a device */
#define REPORTED 3000000

static uint64_t copy; /* of the library */

static void report(uint64_t at, uint64_t address, int64_t bytes, uint64_t used, uint64_t held,
		   uint32_t device)
{
	struct ts_event event = call_event(FN_TENSOR, at, 0);

	event.flags = 0;
	event.end_ns = 0;
	event.api.address = address;
	event.api.bytes = (uint64_t)bytes;
	event.api.source = used;
	event.api.handle = held;
	event.api.device = GARBAGE | device << 8 | CUDA;
	event.api.flags = copy;
	assert_int_equal(give(&event), INGEST_OK);
}

static const struct core_pool *told(uint64_t at, int16_t device)
{
	core_checkpoint(core, at);
	for (size_t i = seen.pools; i-- > 0;)
		if (seen.pool[i].device == device)
			return &seen.pool[i];
	fail();
	return NULL;
}

static const struct core_memory *known(uint64_t at, int16_t device, uint8_t kind)
{
	core_checkpoint(core, at);
	for (size_t i = seen.memories; i-- > 0;)
		if (seen.memory[i].device == device && seen.memory[i].kind == kind)
			return &seen.memory[i];
	return NULL;
}

static const struct core_growth *last_growth(void)
{
	assert_true(seen.growths > 0);
	return &seen.growth[seen.growths - 1];
}

static void blocks_lie_inside_driver_memory_and_are_not_added_to_it(void **state)
{
	announce();
	on_memory(FN_ALLOC, 10, 20, A, 4096);
	report(30, A, 1024, 1024, 4096, 0);
	report(40, A + 1024, 512, 1536, 4096, 0);
	assert_int_equal(last_op(FN_TENSOR)->kind, OP_ALLOC);
	assert_int_equal(known(50, DEVICE_UNKNOWN, MEMORY_DEVICE)->live_bytes, 4096);
	assert_int_equal(known(50, 0, MEMORY_TENSOR)->live_bytes, 1536);
	report(60, A, -1024, 512, 4096, 0);
	assert_int_equal(last_op(FN_TENSOR)->kind, OP_FREE);
	assert_int_equal(last_op(FN_TENSOR)->bytes, 1024);
	assert_int_equal(known(70, 0, MEMORY_TENSOR)->live_bytes, 512);
	on_memory(FN_FREE, 80, 90, A, 0);
	assert_int_equal(last_op(FN_FREE)->bytes, 4096);
	assert_int_equal(known(95, 0, MEMORY_TENSOR)->live_bytes, 512);
}

static void sums_are_the_allocators_own(void **state)
{
	const struct core_pool *row;

	announce();
	report(10, A, 512, REPORTED + 512, 2 * REPORTED, 0);
	report(20, B, 1024, 1024, 4096, 1);
	report(30, B, -1024, 0, 4096, 1);
	row = told(40, 0);
	assert_int_equal(row->kind, CORE_POOL_ALLOCATOR);
	assert_int_equal(row->used_bytes, REPORTED + 512);
	assert_int_equal(row->bytes, 2 * REPORTED);
	assert_int_equal(known(50, 0, MEMORY_TENSOR)->live_bytes, 512);
	row = told(60, 1);
	assert_int_equal(row->used_bytes, 0);
	assert_int_equal(row->peak_used_bytes, 1024);
	assert_int_not_equal(row->address, told(60, 0)->address);
}

/* What was taken before anybody looked is no loss: the difference of the sums says it. */
static void an_unknown_block_that_is_freed_is_no_loss(void **state)
{
	announce();
	report(10, A, -2048, 0, 4096, 0);
	assert_true(last_op(FN_TENSOR)->flags & OP_UNKNOWN);
	core_checkpoint(core, 20);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
	report(30, B, 512, 512, 4096, 0);
	report(40, A, -2048, 0, 4096, 0);
	assert_int_equal(told(50, 0)->used_bytes, 0);
}

/* The child of a fork has its parent's blocks and sums, and may free them. */
static void who_only_frees_holds_nothing(void **state)
{
	announce();
	report(10, A, 512, 512, 4096, 0);
	pid = tid = 101;
	announce();
	report(20, A, -512, 0, 4096, 0);
	pid = tid = 100;
	core_checkpoint(core, 30);
	assert_int_equal(seen.pools, 1);
	assert_int_equal(told(30, 0)->used_bytes, 512);
	assert_int_equal(known(30, 0, MEMORY_TENSOR)->live_bytes, 512);
}

/* Not within the budget: nobody knows which of them are given back meanwhile. */
static void blocks_that_are_not_followed_are_unknown_and_the_sums_stay_right(void **state)
{
	announce();
	on_memory(FN_ALLOC, 2, 4, A, 4096);
	report(10, A, 1024, 1024, 4096, 0);
	core_follow_blocks(core, pid, false);
	assert_int_equal(known(20, 0, MEMORY_TENSOR)->live_bytes, 0);
	assert_int_equal(known(20, DEVICE_UNKNOWN, MEMORY_DEVICE)->live_bytes, 4096);
	assert_int_equal(told(20, 0)->used_bytes, 1024);
	/* On their way when that was decided. */
	report(30, A + 1024, 512, 1536, 4096, 0);
	report(40, A, -1024, 512, 4096, 0);
	assert_int_equal(told(50, 0)->used_bytes, 512);
	assert_int_equal(known(50, 0, MEMORY_TENSOR)->live_count, 0);
	core_follow_blocks(core, pid, true);
	report(60, A + 1024, -512, 0, 4096, 0);
	report(70, A, 2048, 2048, 4096, 0);
	assert_int_equal(told(80, 0)->used_bytes, 2048);
	assert_int_equal(known(80, 0, MEMORY_TENSOR)->live_bytes, 2048);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
	/* Their link was missing for a moment, as those of all. */
	core_forget_blocks(core, pid + 1);
	assert_int_equal(known(90, 0, MEMORY_TENSOR)->live_bytes, 2048);
	core_forget_blocks(core, 0);
	assert_int_equal(known(100, 0, MEMORY_TENSOR)->live_bytes, 0);
	core_follow_blocks(core, pid + 1, false);
}

static void copies_of_the_library_have_sums_of_their_own(void **state)
{
	announce();
	report(10, A, 512, 512, 4096, 0);
	copy = 0x7000;
	report(20, B, 1024, 1024, 8192, 0);
	copy = 0;
	report(30, A, -512, 0, 4096, 0);
	core_checkpoint(core, 40);
	assert_int_equal(seen.pools, 2);
	assert_int_not_equal(seen.pool[0].address, seen.pool[1].address);
	assert_int_equal(seen.pool[0].used_bytes + seen.pool[1].used_bytes, 1024);
	assert_int_equal(seen.pool[0].bytes + seen.pool[1].bytes, 12288);
	for (copy = 1; copy < 20; copy++)
		report(40 + copy, 16 * A + 1024 * copy, 512, 512 * copy, 4096, 0);
	copy = 0;
	core_checkpoint(core, 100);
	assert_int_equal(seen.pools, 2 + ALLOCATOR_COPIES_MAX - 2);
	assert_int_equal(known(100, 0, MEMORY_TENSOR)->live_count, 20);
}

/* A library with the symbol may call it with anything. */
static void hostile_sizes_never_make_sums_wrong(void **state)
{
	static const int64_t sizes[] = { -4096, INT64_MIN, -1 };

	announce();
	for (size_t i = 0; i < 3; i++) {
		report(10 + 10 * i, A, 1024, UINT64_MAX, UINT64_MAX, 0);
		assert_int_equal(known(11 + 10 * i, 0, MEMORY_TENSOR)->live_bytes, 1024);
		report(15 + 10 * i, A, sizes[i], 0, 0, 0);
		assert_int_equal(known(16 + 10 * i, 0, MEMORY_TENSOR)->live_bytes, 0);
		assert_int_equal(last_op(FN_TENSOR)->bytes, 1024);
	}
	assert_int_equal(told(60, 0)->peak_bytes, INT64_MAX);
	report(70, A, 0, 0, 0, 0);
	report(80, A, INT64_MAX, 0, 0, 255);
	report(90, A, INT64_MAX, 0, 0, 255);
	assert_int_equal(known(95, DEVICE_UNKNOWN, MEMORY_TENSOR)->live_bytes, INT64_MAX);
}

/* Blocks that are no events: only what the allocator says is known. */
static void sums_come_without_blocks(void **state)
{
	struct core_sums sums = { .pid = 100,
				  .bytes = 8192,
				  .used_bytes = 1024,
				  .peak_bytes = 16384,
				  .peak_used_bytes = 9000,
				  .told_ns = 20 };
	struct ts_event event = process_event(TS_EVENT_EXEC, SECOND, 50000000);

	assert_false(core_allocator_told(core, &sums));
	announce();
	report(10, A, 4096, 4096, 8192, 0);
	assert_true(core_allocator_told(core, &sums));
	assert_int_equal(told(30, 0)->used_bytes, 1024);
	assert_int_equal(seen.pool[seen.pools - 1].bytes, 8192);
	assert_int_equal(seen.pool[seen.pools - 1].peak_used_bytes, 9000);
	assert_int_equal(seen.pool[seen.pools - 1].peak_bytes, 16384);
	assert_int_equal(known(30, 0, MEMORY_TENSOR)->live_bytes, 4096);
	core_checkpoint(core, 40);
	seen.pools = 0;
	assert_true(core_allocator_told(core, &sums)); /* again the same */
	sums.told_ns = 5;
	sums.used_bytes = 1;
	assert_true(core_allocator_told(core, &sums)); /* older than what is known */
	core_checkpoint(core, 50);
	assert_int_equal(seen.pools, 0);
	assert_int_equal(give(&event), INGEST_OK);
	core_checkpoint(core, SECOND + 1);
	assert_int_equal(told(SECOND + 1, 0)->bytes, 0);
	seen.pools = 0;
	sums.told_ns = SECOND - 1; /* of the program before */
	assert_true(core_allocator_told(core, &sums));
	core_checkpoint(core, SECOND + 2);
	assert_int_equal(seen.pools, 0);
}

static void only_what_lives_for_a_second_gets_a_row(void **state)
{
	announce();
	report(10, A, 512, 512, 4096, 0);
	core_checkpoint(core, SECOND / 2);
	assert_int_equal(seen.allocations, 0);
	report(SECOND, B, 512, 1024, 4096, 0);
	core_checkpoint(core, SECOND + 20);
	assert_int_equal(seen.allocations, 1);
	assert_int_equal(seen.allocation[0].address, A);
	report(SECOND + 30, B, -512, 512, 4096, 0);
	report(SECOND + 40, A, -512, 0, 4096, 0);
	core_checkpoint(core, 3 * SECOND);
	assert_int_equal(seen.allocations, 2);
	assert_true(seen.allocation[1].gone);
	assert_int_equal(seen.allocation[1].address, A);
}

static void request(uint64_t at, uint64_t address, uint64_t bytes, uint32_t device)
{
	struct ts_event event = call_event(FN_REQUESTED, at, 0);

	event.flags = 0;
	event.end_ns = 0;
	event.api.address = address;
	event.api.bytes = bytes;
	event.api.device = device;
	assert_int_equal(give(&event), INGEST_OK);
}

static void requests(uint64_t at, uint64_t requested_bytes, uint64_t rounding_bytes)
{
	const struct core_memory *row = known(at, 0, MEMORY_TENSOR);

	assert_int_equal(row->requested_bytes, requested_bytes);
	assert_int_equal(row->rounding_bytes, rounding_bytes);
}

static void what_was_asked_for_is_known_as_long_as_the_block_lives(void **state)
{
	size_t ops;

	announce();
	report(10, A, 1024, 1024, 4096, 0);
	ops = seen.ops;
	request(11, A, 1000, 0);
	assert_int_equal(seen.ops, ops);
	report(20, B, 512, 1536, 4096, 0);
	request(21, B, 512, 0);
	requests(30, 1512, 24);
	/* Whatever says it twice. */
	request(31, A, 600, 0);
	requests(40, 1112, 424);
	core_checkpoint(core, 2 * SECOND);
	assert_int_equal(seen.allocations, 2);
	assert_int_equal(seen.allocation[0].requested_bytes, 600);
	assert_int_equal(seen.allocation[0].handles, 1);
	assert_int_equal(seen.allocation[1].requested_bytes, 512);
	report(2 * SECOND + 10, A, -1024, 512, 4096, 0);
	requests(3 * SECOND, 512, 0);
	core_forget_blocks(core, 0);
	requests(4 * SECOND, 0, 0);
	assert_int_equal(lost(LOSS_TENSOR_MISMATCH), 0);
}

/* The address is given out again, and the free in between was lost. */
static void a_new_block_has_nothing_of_the_one_before(void **state)
{
	announce();
	report(10, A, 1024, 1024, 4096, 0);
	request(11, A, 1000, 0);
	report(20, A, 2048, 2048, 4096, 0);
	requests(30, 0, 0);
	request(31, A, 2047, 0);
	requests(40, 2047, 1);
}

static void what_only_one_of_the_two_says_is_counted(void **state)
{
	announce();
	report(5, 2 * B, 512, 512, 4096, 0); /* before anybody listened */
	request(10, A, 1000, 0);	     /* of no block */
	report(20, A, 1024, 1536, 4096, 0);
	request(21, A, 1025, 0); /* too much */
	request(22, A, 0, 0);
	request(23, A, 1000, 1); /* another device */
	requests(30, 0, 0);
	assert_int_equal(lost(LOSS_TENSOR_MISMATCH), 4);
	request(31, A, 1000, 0);
	report(40, B, 512, 2048, 4096, 0); /* and no word on it */
	report(50, 3 * B, 512, 2560, 4096, 0);
	request(51, 3 * B, 1, 0);
	core_checkpoint(core, 2 * SECOND);
	assert_int_equal(lost(LOSS_TENSOR_MISMATCH), 5);
	core_checkpoint(core, 3 * SECOND);
	assert_int_equal(lost(LOSS_TENSOR_MISMATCH), 5);
	requests(3 * SECOND + 1, 1001, 24 + 511);
	/* Nothing is compared where blocks are not followed. */
	core_follow_blocks(core, pid, false);
	request(3 * SECOND + 2, A, 1000, 0);
	core_follow_blocks(core, pid, true);
	report(3 * SECOND + 3, A, 1024, 2560, 4096, 0);
	core_checkpoint(core, 5 * SECOND);
	assert_int_equal(lost(LOSS_TENSOR_MISMATCH), 5);
}

/* They are not freed: it is not known any more what becomes of them. */
static void no_verdict_on_tensors_that_are_not_followed(void **state)
{
	struct core_config config = fixture_config();
	uint64_t at = 1000 * SECOND;

	config.max_allocations = 1024;
	config.max_growths = 64;
	fixture_restart(&config);
	announce();
	for (uint64_t i = 0; i < 70; i++, at += SECOND) {
		report(at, A + i * 1024, 1024, (i + 1) * 1024, 1 << 20, 0);
		core_checkpoint(core, at + SECOND / 2);
	}
	assert_int_equal(last_growth()->verdict, VERDICT_LEAK);
	core_follow_blocks(core, pid, false);
	core_checkpoint(core, at);
	assert_int_equal(last_growth()->verdict, VERDICT_YOUNG);
	assert_int_equal(last_growth()->frees, 0);
}

static void the_next_daemon_knows_what_was_asked_for(void **state)
{
	struct core_allocation row = { .id = 7,
				       .address = A,
				       .bytes = 1024,
				       .requested_bytes = 1000,
				       .start_ns = 5,
				       .end_ns = 5,
				       .handles = 1,
				       .kind = MEMORY_TENSOR,
				       .fn = FN_TENSOR };

	announce();
	row.process = seen.process[0].id;
	assert_int_equal(core_restore_allocation(core, &row), 0);
	row.address = B;
	row.id++;
	row.requested_bytes = 1025; /* a database may say anything */
	assert_int_equal(core_restore_allocation(core, &row), 0);
	requests(10, 1000, 24);
	report(20, A, -1024, 0, 4096, 0);
	report(30, B, -1024, 0, 4096, 0);
	requests(40, 0, 0);
}

static void a_process_takes_its_tensors_with_it(void **state)
{
	struct ts_event event = process_event(TS_EVENT_EXEC, 3 * SECOND, 50000000);

	announce();
	report(10, A, 512, 512, 4096, 0);
	report(20, B, 512, 1024, 4096, 0);
	core_checkpoint(core, 2 * SECOND);
	assert_int_equal(give(&event), INGEST_OK);
	assert_int_equal(stats().allocations, 0);
	assert_int_equal(told(3 * SECOND + 1, 0)->bytes, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(blocks_lie_inside_driver_memory_and_are_not_added_to_it),
		STORY(sums_are_the_allocators_own),
		STORY(an_unknown_block_that_is_freed_is_no_loss),
		STORY(who_only_frees_holds_nothing),
		STORY(blocks_that_are_not_followed_are_unknown_and_the_sums_stay_right),
		STORY(copies_of_the_library_have_sums_of_their_own),
		STORY(hostile_sizes_never_make_sums_wrong),
		STORY(sums_come_without_blocks),
		STORY(only_what_lives_for_a_second_gets_a_row),
		STORY(what_was_asked_for_is_known_as_long_as_the_block_lives),
		STORY(a_new_block_has_nothing_of_the_one_before),
		STORY(what_only_one_of_the_two_says_is_counted),
		STORY(no_verdict_on_tensors_that_are_not_followed),
		STORY(the_next_daemon_knows_what_was_asked_for),
		STORY(a_process_takes_its_tensors_with_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
