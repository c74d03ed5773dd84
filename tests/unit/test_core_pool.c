/* Memory pools, as seen in the records of their allocations; and what not to trust. */
#include "exact_fixture.h"

enum { ALLOCATED = 1, GIVEN_BACK, MADE, DESTROYED, TRIMMED };

static struct ts_event pool_event(uint32_t operation, uint64_t pool, uint64_t time_ns,
				  uint64_t bytes, uint64_t used_bytes)
{
	struct ts_event event = library_event(TS_EVENT_MEMORY, time_ns, time_ns);

	event.memory.operation = operation;
	event.memory.device = 1;
	event.memory.pool = pool;
	event.memory.pool_kind = CORE_POOL_OWN;
	event.memory.pool_bytes = bytes;
	event.memory.pool_used_bytes = used_bytes;
	event.memory.pool_threshold_bytes = 1 << 20;
	return event;
}

static int pool(uint32_t operation, uint64_t address, uint64_t time_ns, uint64_t bytes,
		uint64_t used_bytes)
{
	struct ts_event event = pool_event(operation, address, time_ns, bytes, used_bytes);

	return tell(&event);
}

static const struct core_pool *last_pool(void)
{
	assert_true(seen.pools > 0);
	return &seen.pool[seen.pools - 1];
}

static void pool_is_told_when_it_has_changed(void **state)
{
	begin_exact();
	pool(MADE, 0xa0, 1010 * MS, 0, 0);
	pool(ALLOCATED, 0xa0, 1020 * MS, 4096, 1000);
	pool(ALLOCATED, 0xa0, 1030 * MS, 4096, 3000);
	pool(GIVEN_BACK, 0xa0, 1040 * MS, 4096, 500);
	core_checkpoint(core, 1050 * MS);
	core_checkpoint(core, 1060 * MS);
	assert_int_equal(seen.pools, 1);
	assert_false(last_pool()->gone);
	assert_int_equal(last_pool()->address, 0xa0);
	assert_int_equal(last_pool()->device, 1);
	assert_int_equal(last_pool()->kind, CORE_POOL_OWN);
	assert_int_equal(last_pool()->bytes, 4096);
	assert_int_equal(last_pool()->used_bytes, 500);
	assert_int_equal(last_pool()->peak_used_bytes, 3000);
	assert_int_equal(last_pool()->threshold_bytes, 1 << 20);
	assert_int_equal(last_pool()->told_ns, 1040 * MS);
	pool(TRIMMED, 0xa0, 1070 * MS, 1024, 500);
	core_checkpoint(core, 1080 * MS);
	assert_int_equal(last_pool()->bytes, 1024);
	assert_int_equal(last_pool()->peak_bytes, 4096);
}

static void pool_believes_the_latest_record(void **state)
{
	begin_exact();
	pool(ALLOCATED, 0xa0, 1030 * MS, 8192, 7000);
	pool(ALLOCATED, 0xa0, 1020 * MS, 9000, 1000);
	core_checkpoint(core, 1050 * MS);
	assert_int_equal(last_pool()->bytes, 8192);
	assert_int_equal(last_pool()->used_bytes, 7000);
	assert_int_equal(last_pool()->peak_bytes, 9000);
}

static void pool_that_is_gone_does_not_come_back(void **state)
{
	begin_exact();
	pool(ALLOCATED, 0xa0, 1010 * MS, 4096, 1000);
	pool(DESTROYED, 0xa0, 1030 * MS, 0, 0);
	pool(GIVEN_BACK, 0xa0, 1020 * MS, 4096, 0);
	core_checkpoint(core, 1050 * MS);
	assert_int_equal(seen.pools, 1);
	assert_true(last_pool()->gone);
	pool(MADE, 0xa0, 1060 * MS, 64, 0);
	pool(DESTROYED, 0xa0, 1055 * MS, 0, 0);
	core_checkpoint(core, 1070 * MS);
	assert_false(last_pool()->gone);
	assert_int_equal(last_pool()->peak_bytes, 64);
}

static void pool_of_another_process_says_no_size(void **state)
{
	struct ts_event event = pool_event(MADE, 0xa0, 1010 * MS, 4096, 0);

	begin_exact();
	event.memory.pool_kind = CORE_POOL_IMPORTED;
	tell(&event);
	event = pool_event(ALLOCATED, 0xa0, 1020 * MS, 0, 512);
	event.memory.pool_kind = CORE_POOL_IMPORTED;
	tell(&event);
	core_checkpoint(core, 1050 * MS);
	assert_int_equal(last_pool()->kind, CORE_POOL_IMPORTED);
	assert_int_equal(last_pool()->bytes, 4096);
	assert_int_equal(last_pool()->used_bytes, 512);
}

static void pool_believes_no_nonsense(void **state)
{
	struct ts_event event = pool_event(ALLOCATED, 0xa0, 1010 * MS, UINT64_MAX, UINT64_MAX);

	begin_exact();
	event.memory.device = UINT32_MAX;
	event.memory.pool_threshold_bytes = UINT64_MAX;
	assert_int_equal(tell(&event), INGEST_OK);
	core_checkpoint(core, 1020 * MS);
	assert_int_equal(last_pool()->device, DEVICE_UNKNOWN);
	assert_int_equal(last_pool()->bytes, INT64_MAX);
	assert_int_equal(last_pool()->peak_used_bytes, INT64_MAX);
	assert_int_equal(last_pool()->threshold_bytes, INT64_MAX);
	event.memory.pool_kind = 3;
	assert_int_equal(tell(&event), INGEST_BAD);
	event.memory.pool_kind = 0;
	assert_int_equal(tell(&event), INGEST_OK);
	assert_int_equal(pool(0, 0xa0, 1010 * MS, 1, 1), INGEST_BAD);
	assert_int_equal(pool(6, 0xa0, 1010 * MS, 1, 1), INGEST_BAD);
	assert_int_equal(pool(ALLOCATED, 0, 1010 * MS, 1, 1), INGEST_OK);
	core_checkpoint(core, 1030 * MS);
	assert_int_equal(seen.pools, 1);
}

static void pools_of_a_process_are_bounded(void **state)
{
	begin_exact();
	for (uint64_t i = 1; i <= 256; i++)
		assert_int_equal(pool(MADE, i, 1010 * MS, 0, 0), INGEST_OK);
	assert_int_equal(pool(MADE, 257, 1010 * MS, 0, 0), INGEST_LIMIT);
	pool(DESTROYED, 5, 1020 * MS, 0, 0);
	pass_until(4000 * MS);
	assert_int_equal(pool(MADE, 257, 4000 * MS, 0, 0), INGEST_OK);
	assert_int_equal(lost(LOSS_LIMIT), 1);
}

static void pools_go_with_the_program_but_not_with_the_process(void **state)
{
	struct ts_event event = process_event(TS_EVENT_EXEC, 1100 * MS, 50000000);

	begin_exact();
	pool(MADE, 0xa0, 1010 * MS, 64, 0);
	core_checkpoint(core, 1050 * MS);
	give(&event);
	assert_int_equal(seen.pools, 2);
	assert_true(last_pool()->gone);
	collect(TS_COLLECT_STARTED, 1200 * MS, TS_RECORDS_DEFAULT);
	pool(MADE, 0xa0, 1210 * MS, 32, 0);
	core_collect_gone(core, pid, 1250 * MS);
	core_process_gone(core, pid, 1300 * MS);
	core_tick(core, 1550 * MS);
	assert_int_equal(seen.pools, 3);
	assert_false(last_pool()->gone);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(pool_is_told_when_it_has_changed),
		STORY(pool_believes_the_latest_record),
		STORY(pool_that_is_gone_does_not_come_back),
		STORY(pool_of_another_process_says_no_size),
		STORY(pool_believes_no_nonsense),
		STORY(pools_of_a_process_are_bounded),
		STORY(pools_go_with_the_program_but_not_with_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
