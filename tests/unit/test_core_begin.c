/* When the exact states of a process begin. */
#include "sweep_fixture.h"

static void sweep_begins_when_collection_did(void **state)
{
	announce();
	clock_ns = 1030 * MS;
	core_tick(core, clock_ns);
	collect(TS_COLLECT_STARTED, 1015 * MS, TS_RECORDS_DEFAULT);
	run(FN_LAUNCH, 1, S1, 1020, 1024, 1028);
	pass_until(2000 * MS);
	core_flush(core, 2000 * MS);
	EXPECT(1, { OP_STATE_PENDING, 1020, 1024 }, { OP_STATE_RUNNING, 1024, 1028 },
	       { OP_STATE_IDLE, 1028, 2000 });
}

/* Calls come another way than the news that their records will: the one at 1020 comes after it. */
static void sweep_begins_with_what_comes_late(void **state)
{
	announce();
	on_stream(FN_LAUNCH, 1005 * MS, 0, S1);
	on_stream(FN_STREAM_SYNC, 1006 * MS, 1008 * MS, S1);
	clock_ns = 1030 * MS;
	core_tick(core, clock_ns);
	collect(TS_COLLECT_STARTED, 1015 * MS, TS_RECORDS_DEFAULT);
	run(FN_LAUNCH, 1, S1, 1020, 1024, 1028);
	pass_until(2000 * MS);
	core_flush(core, 2000 * MS);
	EXPECT(1, { OP_STATE_IDLE, 1015, 1020 }, { OP_STATE_PENDING, 1020, 1024 },
	       { OP_STATE_RUNNING, 1024, 1028 }, { OP_STATE_IDLE, 1028, 2000 });
}

/* What came before the news, and may still be pending, is not forgotten. */
static void sweep_begins_with_the_latest_call(void **state)
{
	struct ts_event work = work_on(TS_EVENT_KERNEL, 1, 1026, 1028, N1);

	announce();
	on_stream(FN_LAUNCH, 1010 * MS, 0, S1);
	on_stream(FN_LAUNCH, 1020 * MS, 0, S1);
	on_memory(FN_ALLOC, 1030 * MS, 1030 * MS + 1, 0x100, 64);
	collect(TS_COLLECT_STARTED, 1015 * MS, TS_RECORDS_DEFAULT);
	call_record(1, FN_LAUNCH, 1020 * MS + 1, 1020 * MS + 2);
	tell(&work);
	pass_until(2000 * MS);
	core_flush(core, 2000 * MS);
	EXPECT(1, { OP_STATE_PENDING, 1020, 1026 }, { OP_STATE_RUNNING, 1026, 1028 },
	       { OP_STATE_IDLE, 1028, 2000 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(sweep_begins_when_collection_did),
		STORY(sweep_begins_with_what_comes_late),
		STORY(sweep_begins_with_the_latest_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
