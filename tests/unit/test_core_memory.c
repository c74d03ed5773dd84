/* Live allocations: who frees what, what is reported, and each sum. */
#include "core_fixture.h"

#define A 0xa000
#define B 0xb000

static uint64_t live(void)
{
	return stats().allocations;
}

static void memory_freed_by_another_thread_is_freed(void **state)
{
	announce();
	tid = 101;
	on_memory(FN_ALLOC, 10, 20, A, 4096);
	tid = 102;
	on_memory(FN_FREE, 30, 40, A, 0);
	tid = 100;
	assert_int_equal(live(), 0);
	assert_int_equal(last_op(FN_FREE)->bytes, 4096);
	core_checkpoint(core, 50);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
}

static void memory_of_another_process_is_another_one(void **state)
{
	announce();
	on_memory(FN_ALLOC, 10, 20, A, 4096);
	pid = 200;
	announce();
	on_memory(FN_FREE, 30, 40, A, 0);
	pid = 100;
	assert_int_equal(live(), 1);
	assert_true(last_op(FN_FREE)->flags & OP_UNKNOWN);
}

static void memory_freed_by_another_family_of_its_space_is_freed(void **state)
{
	announce();
	on_memory(FN_ALLOC_MANAGED, 10, 20, A, 4096);
	on_memory(FN_FREE, 30, 40, A, 0);
	assert_int_equal(live(), 0);
	assert_int_equal(last_op(FN_FREE)->detail, MEMORY_MANAGED);
}

static void memory_handle_is_not_an_address(void **state)
{
	announce();
	on_memory(FN_ALLOC, 10, 20, A, 4096);
	on_memory(FN_MEM_CREATE, 11, 21, A, 65536);
	on_memory(FN_MEM_RELEASE, 30, 40, A, 0);
	assert_int_equal(live(), 1);
	assert_int_equal(last_op(FN_MEM_RELEASE)->bytes, 65536);
}

static void memory_failed_allocation_makes_nothing(void **state)
{
	struct ts_event event = call_event(FN_ALLOC, 10, 20);

	announce();
	event.api.address = A;
	event.api.bytes = 4096;
	event.result = 2;
	assert_int_equal(give(&event), INGEST_OK);
	assert_int_equal(live(), 0);
	assert_int_equal(last_op(FN_ALLOC)->result, 2);
	core_checkpoint(core, 50);
	assert_int_equal(seen.allocations, 0);
	assert_int_equal(seen.rollup[0].result, 2);
}

static void memory_failed_free_frees_nothing(void **state)
{
	struct ts_event event = call_event(FN_FREE, 30, 40);

	announce();
	on_memory(FN_ALLOC, 10, 20, A, 4096);
	event.api.address = A;
	event.result = 1;
	give(&event);
	assert_int_equal(live(), 1);
	assert_int_equal(last_op(FN_FREE)->live_bytes, 4096);
}

static void memory_null_is_freed_in_peace(void **state)
{
	announce();
	assert_int_equal(on_memory(FN_FREE, 10, 20, 0, 0), INGEST_OK);
	assert_false(last_op(FN_FREE)->flags & OP_UNKNOWN);
	core_checkpoint(core, 50);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
}

static void memory_unknown_free_is_marked_and_counted(void **state)
{
	announce();
	on_memory(FN_FREE, 10, 20, A, 0);
	assert_true(last_op(FN_FREE)->flags & OP_UNKNOWN);
	core_checkpoint(core, 50);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 1);
	assert_int_equal(seen.loss[0].process, 1);
}

static void memory_allocation_without_an_address_is_bad(void **state)
{
	struct ts_event event = call_event(FN_ALLOC, 10, 20);

	announce();
	assert_int_equal(on_memory(FN_ALLOC, 10, 20, 0, 4096), INGEST_BAD);
	assert_int_equal(on_memory(FN_ALLOC, 10, 20, A, 0), INGEST_OK);
	event.flags |= TS_EVENT_UNREAD;
	event.api.bytes = 4096;
	assert_int_equal(give(&event), INGEST_OK);
	assert_int_equal(live(), 0);
	assert_int_equal(stats().bad, 1);
	assert_int_equal(seen.ops, 3);
}

static void memory_late_free_is_for_the_superseded_allocation(void **state)
{
	announce();
	on_memory(FN_ALLOC, 10, 20, A, 1000);
	/* Its free started at 30, but returned after another thread had got the address again. */
	on_memory(FN_ALLOC, 35, 40, A, 2000);
	on_memory(FN_FREE, 30, 45, A, 0);
	assert_int_equal(live(), 1);
	assert_int_equal(last_op(FN_FREE)->bytes, 1000);
	assert_int_equal(last_op(FN_FREE)->live_bytes, 2000);
	on_memory(FN_FREE, 50, 55, A, 0);
	assert_int_equal(live(), 0);
	assert_int_equal(last_op(FN_FREE)->bytes, 2000);
	core_checkpoint(core, 60);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
}

static void memory_late_free_is_known_after_the_next_allocation_is_freed_too(void **state)
{
	announce();
	on_memory(FN_ALLOC, 10, 20, A, 1000);
	on_memory(FN_ALLOC, 35, 40, A, 2000);
	on_memory(FN_FREE, 42, 44, A, 0);
	on_memory(FN_FREE, 43, 44, A, 0); /* once too often */
	assert_true(last_op(FN_FREE)->flags & OP_UNKNOWN);
	on_memory(FN_FREE, 30, 45, A, 0);
	assert_int_equal(last_op(FN_FREE)->bytes, 1000);
	on_memory(FN_FREE, 31, 46, A, 0);
	assert_true(last_op(FN_FREE)->flags & OP_UNKNOWN);
}

static void memory_superseded_allocation_counts_as_freed(void **state)
{
	announce();
	on_memory(FN_ALLOC, 10, 20, A, 1000);
	core_checkpoint(core, 25);
	on_memory(FN_ALLOC, 30, 40, A, 2000);
	core_checkpoint(core, 50);
	assert_int_equal(seen.allocations, 3);
	assert_true(seen.allocation[1].gone || seen.allocation[2].gone);
	assert_int_equal(seen.memory[seen.memories - 1].live_bytes, 2000);
	/* Long after, its free is not expected any more. */
	core_tick(core, 10000000000ull);
	on_memory(FN_FREE, 30, 10000000001ull, A, 0);
	assert_true(last_op(FN_FREE)->flags & OP_UNKNOWN);
	assert_int_equal(live(), 1);
}

static void memory_ends_with_its_context(void **state)
{
	announce();
	on_context(FN_CTX_CREATE, 2, 0xc1, 0);
	on_memory(FN_ALLOC, 10, 20, A, 1000);
	on_memory(FN_ALLOC_HOST, 10, 20, A + 1, 1000);
	on_memory(FN_MEM_CREATE, 10, 20, A + 2, 1000);
	on_context(FN_CTX_CREATE, 25, 0xc2, 1);
	on_memory(FN_ALLOC, 30, 40, B, 1000);
	on_context(FN_CTX_DESTROY, 50, 0xc1, 0);
	assert_int_equal(live(), 2); /* B, and physical memory, which belongs to no context */
	core_checkpoint(core, 60);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
}

static void memory_ends_with_the_reset_of_its_device(void **state)
{
	announce();
	on_context(FN_RETAIN, 2, 0xc1, 0);
	on_context(FN_RETAIN, 4, 0xc2, 1);
	on_context(FN_CTX_SET, 6, 0xc1, 0);
	on_memory(FN_ALLOC, 10, 20, A, 1000);
	on_context(FN_CTX_SET, 22, 0xc2, 0);
	on_memory(FN_ALLOC, 30, 40, B, 1000);
	assert_int_equal(last_op(FN_ALLOC)->device, 1);
	on_context(FN_CTX_CREATE, 42, 0xc3, 0); /* not the primary one */
	on_memory(FN_ALLOC, 44, 46, B + 1, 1000);
	on_context(FN_RESET, 50, 0, 0);
	assert_int_equal(live(), 2);
	on_memory(FN_FREE, 60, 70, A, 0);
	assert_true(last_op(FN_FREE)->flags & OP_UNKNOWN);
}

static void memory_of_a_process_ends_with_it(void **state)
{
	struct ts_event event = process_event(TS_EVENT_EXIT, 100, 0);

	announce();
	on_memory(FN_ALLOC, 10, 20, A, 1000);
	core_checkpoint(core, 30);
	assert_int_equal(give(&event), INGEST_OK);
	assert_int_equal(live(), 0);
	assert_int_equal(seen.memory[seen.memories - 1].live_bytes, 0);
	core_checkpoint(core, 110);
	assert_int_equal(seen.allocations, 2);
	assert_true(seen.allocation[1].gone);
	for (size_t i = 0; i < seen.rollups; i++)
		assert_false(seen.rollup[i].freed);
}

static void memory_is_told_when_it_outlives_a_checkpoint(void **state)
{
	announce();
	on_memory(FN_ALLOC, 10, 20, A, 1000);
	on_memory(FN_ALLOC, 12, 22, B, 500);
	on_memory(FN_FREE, 30, 40, A, 0);
	core_checkpoint(core, 50);
	assert_int_equal(seen.allocations, 1); /* A came and went between two checkpoints */
	assert_false(seen.allocation[0].gone);
	assert_int_equal(seen.allocation[0].address, B);
	assert_int_equal(seen.allocation[0].stack_id, 7);
	assert_int_equal(seen.memory[0].peak_bytes, 1500);
	core_checkpoint(core, 60);
	assert_int_equal(seen.allocations, 1); /* told once */
	assert_int_equal(seen.memories, 1);
	on_memory(FN_FREE, 70, 80, B, 0);
	assert_int_equal(seen.allocations, 1); /* at the checkpoint, not before */
	core_checkpoint(core, 90);
	assert_int_equal(seen.allocations, 2);
	assert_true(seen.allocation[1].gone);
	assert_int_equal(seen.allocation[1].id, seen.allocation[0].id);
	assert_int_equal(seen.memory[1].live_count, 0);
}

static void memory_sums_are_by_device_and_the_host_apart(void **state)
{
	announce();
	on_context(FN_CTX_CREATE, 2, 0xc1, 3);
	on_memory(FN_ALLOC, 10, 20, A, 1000);
	assert_int_equal(last_op(FN_ALLOC)->device, 3);
	on_memory(FN_ALLOC_MANAGED, 11, 21, B, 100);
	assert_int_equal(last_op(FN_ALLOC_MANAGED)->live_bytes, 1100);
	on_memory(FN_ALLOC_HOST, 12, 22, B + 1, 10);
	assert_int_equal(last_op(FN_ALLOC_HOST)->live_bytes, 10);
	assert_int_equal(last_op(FN_ALLOC_HOST)->device, DEVICE_UNKNOWN);
	on_memory(FN_MEM_RESERVE, 13, 23, B + 2, 1 << 30);
	assert_int_equal(last_op(FN_MEM_RESERVE)->live_bytes, 1100);
}

static void memory_of_an_unknown_device_is_not_that_of_the_host(void **state)
{
	announce();
	on_memory(FN_ALLOC, 10, 20, A, 1000);
	on_memory(FN_ALLOC_HOST, 12, 22, B, 10);
	assert_int_equal(last_op(FN_ALLOC)->device, DEVICE_UNKNOWN);
	assert_int_equal(last_op(FN_ALLOC)->live_bytes, 1000);
	assert_int_equal(last_op(FN_ALLOC_HOST)->live_bytes, 10);
}

static void memory_at_the_limit_is_counted_not_followed(void **state)
{
	announce();
	for (uint64_t i = 0; i < 64; i++)
		assert_int_equal(on_memory(FN_ALLOC, 10, 20, A + i, 1), INGEST_OK);
	assert_int_equal(on_memory(FN_ALLOC, 10, 20, B, 1), INGEST_LIMIT);
	assert_int_equal(live(), 64);
	assert_int_equal(stats().limited, 1);
}

static void memory_known_before_a_restart_is_known_after_it(void **state)
{
	struct core_process process = { .id = 5, .pid = pid, .started_ticks = 5 };
	struct core_allocation row = {
		.id = 40,
		.process = 5,
		.address = A,
		.bytes = 1000,
		.kind = MEMORY_DEVICE,
		.fn = FN_ALLOC,
		.start_ns = 1,
		.end_ns = 2,
		.context = 0xc1,
		.handles = 1,
	};
	struct core_memory peak = { .process = 5, .kind = MEMORY_DEVICE, .peak_bytes = 5000 };

	assert_int_equal(core_restore_allocation(core, &row), -ENOENT);
	assert_int_equal(core_restore_process(core, &process), 0);
	assert_int_equal(core_restore_process(core, &process), -EEXIST);
	assert_int_equal(core_restore_allocation(core, &row), 0);
	assert_int_equal(core_restore_allocation(core, &row), -EEXIST);
	assert_int_equal(core_restore_peak(core, &peak), 0);
	announce();
	assert_int_equal(seen.process[0].id, 5);
	on_memory(FN_ALLOC, 10, 20, B, 10);
	on_memory(FN_FREE, 30, 40, A, 0);
	core_checkpoint(core, 50);
	assert_int_equal(seen.allocation[0].id, 41);
	assert_int_equal(seen.allocation[1].id, 40);
	assert_true(seen.allocation[1].gone);
	assert_int_equal(seen.memory[0].peak_bytes, 5000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(memory_freed_by_another_thread_is_freed),
		STORY(memory_of_another_process_is_another_one),
		STORY(memory_freed_by_another_family_of_its_space_is_freed),
		STORY(memory_handle_is_not_an_address),
		STORY(memory_failed_allocation_makes_nothing),
		STORY(memory_failed_free_frees_nothing),
		STORY(memory_null_is_freed_in_peace),
		STORY(memory_unknown_free_is_marked_and_counted),
		STORY(memory_allocation_without_an_address_is_bad),
		STORY(memory_late_free_is_for_the_superseded_allocation),
		STORY(memory_late_free_is_known_after_the_next_allocation_is_freed_too),
		STORY(memory_superseded_allocation_counts_as_freed),
		STORY(memory_ends_with_its_context),
		STORY(memory_ends_with_the_reset_of_its_device),
		STORY(memory_of_a_process_ends_with_it),
		STORY(memory_is_told_when_it_outlives_a_checkpoint),
		STORY(memory_sums_are_by_device_and_the_host_apart),
		STORY(memory_of_an_unknown_device_is_not_that_of_the_host),
		STORY(memory_at_the_limit_is_counted_not_followed),
		STORY(memory_known_before_a_restart_is_known_after_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
