/* Physical memory: it lives as long as a handle or a mapping of it, imported memory is another's.
 */
#include "core_fixture.h"

#define H    0x1000
#define BASE 0x700000000000
#define SIZE 0x200000

static int on_handle(enum fn fn, uint64_t start_ns, uint64_t address, uint64_t bytes,
		     uint64_t handle)
{
	struct ts_event event = call_event(fn, start_ns, start_ns + 1);

	event.api.address = address;
	event.api.bytes = bytes;
	event.api.handle = handle;
	return give(&event);
}

static int create(uint64_t start_ns, uint64_t handle)
{
	return on_memory(FN_MEM_CREATE, start_ns, start_ns + 1, handle, SIZE);
}

static int release(uint64_t start_ns, uint64_t handle)
{
	return on_memory(FN_MEM_RELEASE, start_ns, start_ns + 1, handle, 0);
}

/* Live bytes of a kind, as last told. */
static uint64_t held(uint8_t kind)
{
	core_checkpoint(core, 1000);
	for (size_t i = seen.memories; i > 0; i--)
		if (seen.memory[i - 1].kind == kind)
			return seen.memory[i - 1].live_bytes;
	return 0;
}

static uint64_t freed(void)
{
	uint64_t calls = 0;

	core_checkpoint(core, 1000);
	for (size_t i = 0; i < seen.rollups; i++)
		calls += seen.rollup[i].freed ? seen.rollup[i].calls : 0;
	return calls;
}

static void mapping_keeps_what_is_released(void **state)
{
	announce();
	create(10, H);
	on_handle(FN_MAP, 20, BASE, SIZE, H);
	on_handle(FN_MAP, 22, BASE + 2 * SIZE, SIZE, H);
	release(30, H);
	assert_int_equal(last_op(FN_MEM_RELEASE)->bytes, 0);
	assert_int_equal(last_op(FN_MEM_RELEASE)->live_bytes, SIZE);
	assert_int_equal(held(MEMORY_PHYSICAL), SIZE);
	assert_int_equal(held(MEMORY_MAPPED), 2 * SIZE);
	on_handle(FN_UNMAP, 40, BASE, SIZE, 0);
	assert_int_equal(held(MEMORY_PHYSICAL), SIZE);
	assert_int_equal(freed(), 0);
	on_handle(FN_UNMAP, 50, BASE + 2 * SIZE, SIZE, 0);
	assert_int_equal(held(MEMORY_PHYSICAL), 0);
	assert_int_equal(held(MEMORY_MAPPED), 0);
	assert_int_equal(freed(), 1);
	assert_int_equal(last_op(FN_UNMAP)->handle, H);
	assert_int_equal(last_op(FN_UNMAP)->detail, MEMORY_PHYSICAL);
	assert_int_equal(stats().allocations, 0);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
}

static void mapping_handles_are_counted(void **state)
{
	announce();
	create(10, H);
	on_handle(FN_MAP, 20, BASE, SIZE, H);
	on_handle(FN_HANDLE_RETAIN, 22, BASE + 4096, 0, H);
	release(30, H);
	on_handle(FN_UNMAP, 32, BASE, SIZE, 0);
	assert_int_equal(held(MEMORY_PHYSICAL), SIZE);
	release(40, H);
	assert_int_equal(held(MEMORY_PHYSICAL), 0);
	assert_int_equal(last_op(FN_MEM_RELEASE)->bytes, SIZE);
	release(50, H);
	assert_true(last_op(FN_MEM_RELEASE)->flags & OP_UNKNOWN);
}

static void mapping_gives_a_handle_back_to_what_had_none(void **state)
{
	announce();
	create(10, H);
	on_handle(FN_MAP, 20, BASE, SIZE, H);
	release(30, H);
	create(40, H); /* the same handle, other memory */
	assert_int_equal(held(MEMORY_PHYSICAL), 2 * SIZE);
	on_handle(FN_HANDLE_RETAIN, 50, BASE, 0, H + 1);
	on_handle(FN_UNMAP, 52, BASE, SIZE, 0);
	assert_int_equal(held(MEMORY_PHYSICAL), 2 * SIZE);
	release(60, H + 1);
	assert_int_equal(held(MEMORY_PHYSICAL), SIZE);
	release(62, H);
	assert_int_equal(held(MEMORY_PHYSICAL), 0);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
}

static void mapping_ends_in_a_range_with_gaps(void **state)
{
	announce();
	create(10, H);
	create(12, H + 1);
	on_handle(FN_MAP, 20, BASE + SIZE, SIZE, H);
	on_handle(FN_MAP, 22, BASE + 5 * SIZE, SIZE, H + 1);
	on_handle(FN_MAP, 24, BASE + 9 * SIZE, SIZE, H + 1);
	release(30, H);
	release(32, H + 1);
	on_handle(FN_UNMAP, 40, BASE, 9 * SIZE, 0);
	assert_int_equal(held(MEMORY_PHYSICAL), SIZE);
	assert_int_equal(held(MEMORY_MAPPED), SIZE);
	on_handle(FN_UNMAP, 42, UINT64_MAX - 8, SIZE, 0); /* nonsense is nothing */
	assert_int_equal(held(MEMORY_MAPPED), SIZE);
	on_handle(FN_UNMAP, 44, BASE + 9 * SIZE, SIZE, 0);
	assert_int_equal(stats().allocations, 0);
}

static void mapping_that_failed_is_none(void **state)
{
	struct ts_event event = call_event(FN_MAP, 20, 21);

	announce();
	create(10, H);
	event.result = 1;
	event.api.address = BASE;
	event.api.bytes = SIZE;
	event.api.handle = H;
	give(&event);
	release(30, H);
	assert_int_equal(held(MEMORY_PHYSICAL), 0);
}

static void mapping_at_an_address_that_is_mapped_replaces_it(void **state)
{
	announce();
	create(10, H);
	create(12, H + 1);
	on_handle(FN_MAP, 20, BASE, SIZE, H);
	release(22, H);
	on_handle(FN_MAP, 35, BASE, SIZE, H + 1); /* its unmap comes late */
	assert_int_equal(held(MEMORY_PHYSICAL), SIZE);
	on_handle(FN_UNMAP, 30, BASE, SIZE, 0);
	assert_int_equal(held(MEMORY_MAPPED), SIZE);
}

static void mapping_ends_with_its_process(void **state)
{
	struct ts_event event = process_event(TS_EVENT_EXIT, 100, 0);

	announce();
	create(10, H);
	on_handle(FN_MAP, 20, BASE, SIZE, H);
	release(30, H);
	held(MEMORY_PHYSICAL);
	give(&event);
	assert_int_equal(stats().allocations, 0);
}

static void imported_memory_is_not_held(void **state)
{
	announce();
	on_handle(FN_IMPORT_HANDLE, 10, H, 0, 0);
	on_handle(FN_MAP, 20, BASE, SIZE, H);
	assert_int_equal(held(MEMORY_IMPORTED_PHYSICAL), SIZE);
	assert_int_equal(held(MEMORY_PHYSICAL), 0);
	release(30, H);
	assert_int_equal(last_op(FN_MEM_RELEASE)->live_bytes, 0);
	on_handle(FN_UNMAP, 40, BASE, SIZE, 0);
	assert_int_equal(stats().allocations, 0);
	assert_int_equal(held(MEMORY_IMPORTED_PHYSICAL), 0);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
}

static void imported_address_is_closed_as_often_as_it_is_opened(void **state)
{
	announce();
	on_handle(FN_IMPORT, 10, BASE, 0, 0);
	on_handle(FN_IMPORT, 12, BASE, 0, 0);
	on_handle(FN_IMPORT_CLOSE, 20, BASE, 0, 0);
	assert_int_equal(stats().allocations, 1);
	on_handle(FN_IMPORT_CLOSE, 22, BASE, 0, 0);
	assert_int_equal(stats().allocations, 0);
	/* From a pool, and freed as what is allocated from one. */
	on_handle(FN_IMPORT, 30, BASE, 0, 0xf00d);
	on_memory(FN_FREE, 40, 41, BASE, 0);
	assert_int_equal(stats().allocations, 0);
	assert_int_equal(last_op(FN_FREE)->detail, MEMORY_IMPORTED);
	core_checkpoint(core, 50);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
}

/* What an earlier model reported is given to the next one. */
static void restored_mapping_keeps_what_is_released(void **state)
{
	struct core_config config = fixture_config();
	struct core_process process;
	struct core_allocation row[8];
	size_t count = 0;

	announce();
	process = seen.process[0];
	create(10, H);
	on_handle(FN_MAP, 20, BASE, SIZE, H);
	release(30, H);
	create(40, H);
	on_handle(FN_HANDLE_RETAIN, 42, BASE, 0, H + 1);
	on_handle(FN_HANDLE_RETAIN, 44, BASE, 0, H + 1);
	core_checkpoint(core, 50);
	for (uint64_t id = 1; id < 8; id++)
		for (size_t i = seen.allocations; i > 0; i--)
			if (seen.allocation[i - 1].id == id) {
				row[count] = seen.allocation[i - 1];
				count += !seen.allocation[i - 1].gone;
				break;
			}
	assert_int_equal(count, 3);
	fixture_restart(&config);
	assert_int_equal(core_restore_process(core, &process), 0);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(core_restore_allocation(core, &row[i]), 0);
	assert_int_equal(core_restore_allocation(core, &row[0]), -EEXIST);
	release(60, H);
	release(62, H + 1);
	release(64, H + 1);
	assert_int_equal(held(MEMORY_PHYSICAL), SIZE);
	on_handle(FN_UNMAP, 70, BASE, SIZE, 0);
	assert_int_equal(held(MEMORY_PHYSICAL), 0);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(mapping_keeps_what_is_released),
		STORY(mapping_handles_are_counted),
		STORY(mapping_gives_a_handle_back_to_what_had_none),
		STORY(mapping_ends_in_a_range_with_gaps),
		STORY(mapping_that_failed_is_none),
		STORY(mapping_at_an_address_that_is_mapped_replaces_it),
		STORY(mapping_ends_with_its_process),
		STORY(imported_memory_is_not_held),
		STORY(imported_address_is_closed_as_often_as_it_is_opened),
		STORY(restored_mapping_keeps_what_is_released),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
