/* Processes and contexts: their identity, and what ends with them. */
#include "core_fixture.h"

#define TICK_NS	   10000000ull
#define STARTED_NS 50000000ull

static void process_announced_again_is_the_same(void **state)
{
	announce();
	announce();
	assert_int_equal(seen.processes, 2);
	assert_int_equal(seen.process[1].id, 1);
	assert_int_equal(stats().processes, 1);
	assert_int_equal(seen.process[0].id, 1);
	assert_int_equal(seen.process[0].pid, pid);
	assert_int_equal(seen.process[0].started_ticks, 5);
	assert_int_equal(seen.process[0].first_ns, 1);
	assert_string_equal(seen.process[0].comm, "program");
}

static void process_that_reuses_a_pid_is_another_one(void **state)
{
	struct ts_event event = process_event(TS_EVENT_PROCESS, 100, STARTED_NS + TICK_NS);

	announce();
	on_memory(FN_ALLOC, 10, 20, 0xa000, 4096);
	core_checkpoint(core, 30);
	give(&event); /* the EXIT of the first one was lost */
	assert_int_equal(seen.processes, 3);
	assert_int_equal(seen.process[1].id, 1);
	assert_int_equal(seen.process[1].exit_ns, 100);
	assert_int_equal(seen.process[2].id, 2);
	assert_int_equal(core_process_by_pid(core, pid)->id, 2);
	assert_int_equal(stats().allocations, 0);
	core_checkpoint(core, 110);
	assert_true(seen.allocation[1].gone);
}

static void process_start_is_compared_in_ticks(void **state)
{
	struct ts_event event = process_event(TS_EVENT_PROCESS, 100, STARTED_NS + TICK_NS - 1);

	announce();
	give(&event);
	assert_int_equal(core_process_by_pid(core, pid)->id, 1);
}

static void process_that_executes_stays_and_begins_anew(void **state)
{
	struct ts_event event = process_event(TS_EVENT_EXEC, 100, STARTED_NS);

	announce();
	on_context(FN_CTX_CREATE, 2, 0xc1, 0);
	on_memory(FN_ALLOC, 10, 20, 0xa000, 4096);
	launch(30, 0);
	on_event(FN_EVENT_RECORD, 31, 0, 0xe1, 0);
	memcpy(event.process.comm, "other", 6);
	assert_int_equal(give(&event), INGEST_OK);
	assert_int_equal(seen.process[1].id, 1);
	assert_string_equal(seen.process[1].comm, "other");
	assert_false(seen.process[0].executed);
	assert_true(seen.process[1].executed);
	assert_int_equal(stats().processes, 1);
	assert_int_equal(stats().allocations, 0);
	assert_int_equal(stats().streams, 0);
	assert_int_equal(op_at(30)->gpu_end_ns, 0);
	on_memory(FN_ALLOC, 110, 120, 0xa000, 10);
	assert_int_equal(op_at(110)->device, DEVICE_UNKNOWN);
	assert_int_equal(op_at(110)->live_bytes, 10);
}

static void process_that_executes_forgets_its_threads_and_events(void **state)
{
	struct ts_event event = process_event(TS_EVENT_EXEC, 100, STARTED_NS);

	announce();
	on_context(FN_RETAIN, 2, 0xc1, 0);
	on_context(FN_CTX_SET, 4, 0xc1, 0);
	for (uint64_t i = 0; i < 16; i++)
		on_event(FN_EVENT_RECORD, 10, 0, 0xe0 + i, 0);
	give(&event);
	on_context(FN_RETAIN, 110, 0xc1, 0);
	on_context(FN_RETAIN, 112, 0xc2, 1);
	assert_int_equal(on_event(FN_EVENT_RECORD, 120, 0, 0xf0, 0), INGEST_OK);
	assert_int_equal(op_at(120)->device, DEVICE_UNKNOWN);
}

static void process_that_exits_leaves_nothing(void **state)
{
	struct ts_event event = process_event(TS_EVENT_EXIT, 100, STARTED_NS);

	announce();
	on_stream(FN_STREAM_CREATE, 2, 3, 0x1000);
	launch(30, 0x1000);
	event.process.exit_code = 9;
	assert_int_equal(give(&event), INGEST_OK);
	assert_int_equal(seen.process[1].exit_ns, 100);
	assert_int_equal(seen.process[1].exit_code, 9);
	assert_int_equal(seen.stream[1].destroyed_ns, 100);
	assert_int_equal(lost(LOSS_UNBOUND), 1);
	assert_null(core_process_by_pid(core, pid));
	assert_int_equal(stats().streams + stats().pending + stats().processes, 0);
	assert_int_equal(launch(110, 0), INGEST_STRAY);
	core_checkpoint(core, 120);
	assert_int_equal(lost(LOSS_STRAY), 1);
}

static void process_seen_gone_has_ended(void **state)
{
	announce();
	core_process_gone(core, pid, 77);
	core_process_gone(core, pid, 78);
	assert_int_equal(seen.processes, 1);
	core_tick(core, 1000000000);
	assert_int_equal(seen.processes, 2);
	assert_int_equal(seen.process[1].exit_ns, 77);
	assert_int_equal(seen.process[1].exit_code, EXIT_UNKNOWN);
	announce();
	core_process_gone(core, pid, 79);
	core_flush(core, 80);
	assert_int_equal(seen.process[3].exit_ns, 79);
}

/* A processor that has not finished its record holds back those behind it. */
static void process_seen_gone_may_still_be_heard_of(void **state)
{
	struct ts_event exit = process_event(TS_EVENT_EXIT, 100, STARTED_NS);

	exit.process.exit_code = 9;
	announce();
	core_process_gone(core, pid, 101);
	assert_int_equal(launch(90, 0), INGEST_OK);
	assert_int_equal(give(&exit), INGEST_OK);
	assert_int_equal(seen.processes, 2);
	assert_int_equal(seen.process[1].exit_ns, 100);
	assert_int_equal(seen.process[1].exit_code, 9);
	core_tick(core, 1000000000);
	assert_int_equal(seen.processes, 2);
	assert_int_equal(lost(LOSS_STRAY), 0);
}

static void process_at_the_limit_is_counted(void **state)
{
	struct ts_event event;

	for (pid = 100; pid < 116; pid++)
		announce();
	event = process_event(TS_EVENT_PROCESS, 10, STARTED_NS);
	assert_int_equal(give(&event), INGEST_LIMIT);
	pid = 100;
	assert_int_equal(stats().processes, 16);
}

static void process_ids_go_on_where_the_store_says(void **state)
{
	struct core_config config = fixture_config();

	config.next_process = 50;
	config.next_stream = 60;
	config.next_allocation = 70;
	fixture_restart(&config);
	announce();
	launch(10, 0);
	on_memory(FN_ALLOC, 10, 20, 0xa000, 1);
	core_checkpoint(core, 30);
	assert_int_equal(seen.process[0].id, 50);
	assert_int_equal(seen.stream[0].id, 60);
	assert_int_equal(seen.allocation[0].id, 70);
}

static int16_t device_of_init(uint64_t time_ns)
{
	on_stream(FN_INIT, time_ns, time_ns + 1, 0);
	return op_at(time_ns)->device;
}

static void context_stack_is_followed(void **state)
{
	announce();
	on_context(FN_CTX_CREATE, 10, 0xc0, 0);
	on_context(FN_CTX_CREATE, 20, 0xc1, 1);
	assert_int_equal(device_of_init(21), 1);
	on_context(FN_CTX_POP, 30, 0, 0);
	assert_int_equal(device_of_init(31), 0);
	on_context(FN_CTX_PUSH, 40, 0xc1, 0);
	assert_int_equal(device_of_init(41), 1);
	on_context(FN_CTX_SET, 50, 0xc0, 0);
	assert_int_equal(device_of_init(51), 0);
	on_context(FN_CTX_DESTROY, 60, 0xc0, 0);
	assert_int_equal(device_of_init(61), DEVICE_UNKNOWN); /* below it is itself again */
}

static void context_below_is_current_when_the_top_is_destroyed(void **state)
{
	announce();
	on_context(FN_RETAIN, 5, 0xc2, 2);
	on_context(FN_CTX_CREATE, 10, 0xc0, 0);
	on_context(FN_CTX_CREATE, 20, 0xc1, 1);
	on_context(FN_CTX_DESTROY, 30, 0xc1, 0);
	assert_int_equal(device_of_init(31), 0);
	on_context(FN_CTX_DESTROY, 40, 0xc2, 0);
	assert_int_equal(device_of_init(41), 0);
}

static void context_of_a_silent_thread_is_the_only_one(void **state)
{
	announce();
	on_context(FN_RETAIN, 10, 0xc0, 4);
	tid = 101;
	assert_int_equal(device_of_init(11), 4);
	tid = 100;
	on_context(FN_RETAIN, 20, 0xc1, 5);
	tid = 101;
	assert_int_equal(device_of_init(21), DEVICE_UNKNOWN);
	tid = 100;
}

static void context_of_a_failed_call_is_not_current(void **state)
{
	struct ts_event event = call_event(FN_CTX_CREATE, 10, 20);

	announce();
	event.api.context = 0xc0;
	event.result = 2;
	give(&event);
	assert_int_equal(device_of_init(30), DEVICE_UNKNOWN);
}

static void context_of_threads_beyond_the_limit_is_that_of_the_latest(void **state)
{
	announce();
	on_context(FN_RETAIN, 2, 0xc0, 0);
	on_context(FN_RETAIN, 4, 0xc1, 1);
	for (tid = 1000; tid < 1017; tid++) {
		on_context(FN_CTX_SET, tid, 0xc1, 0);
		if (tid == 1000)
			device_of_init(5); /* shows its context */
	}
	tid = 1016;
	assert_int_equal(device_of_init(3000), 1);
	tid = 1000; /* in use, so it kept its place */
	assert_int_equal(device_of_init(3001), 1);
	tid = 1001;
	assert_int_equal(device_of_init(3002), DEVICE_UNKNOWN);
	tid = 100;
	assert_int_equal(stats().limited, 1);
}

static void context_stack_too_deep_loses_its_bottom(void **state)
{
	announce();
	for (uint64_t i = 0; i < 9; i++)
		on_context(FN_CTX_CREATE, 10 + i, 0xc0 + i, (uint32_t)i);
	assert_int_equal(stats().limited, 1);
	for (uint64_t i = 0; i < 7; i++)
		on_context(FN_CTX_POP, 30 + i, 0, 0);
	assert_int_equal(device_of_init(50), 1);
}

static void context_on_an_absurd_device_is_on_an_unknown_one(void **state)
{
	announce();
	on_context(FN_CTX_CREATE, 10, 0xc0, 0xffffffff);
	assert_int_equal(device_of_init(20), DEVICE_UNKNOWN);
}

static void context_at_the_limit_is_the_unknown_one(void **state)
{
	announce();
	for (uint64_t i = 0; i < 256; i++)
		assert_int_equal(on_context(FN_CTX_SET, 10, 0xc000 + i, 1), INGEST_OK);
	assert_int_equal(on_context(FN_CTX_SET, 10, 0xd000, 1), INGEST_LIMIT);
	assert_int_equal(device_of_init(20), DEVICE_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(process_announced_again_is_the_same),
		STORY(process_that_reuses_a_pid_is_another_one),
		STORY(process_start_is_compared_in_ticks),
		STORY(process_that_executes_stays_and_begins_anew),
		STORY(process_that_executes_forgets_its_threads_and_events),
		STORY(process_that_exits_leaves_nothing),
		STORY(process_seen_gone_has_ended),
		STORY(process_seen_gone_may_still_be_heard_of),
		STORY(process_at_the_limit_is_counted),
		STORY(process_ids_go_on_where_the_store_says),
		STORY(context_stack_is_followed),
		STORY(context_below_is_current_when_the_top_is_destroyed),
		STORY(context_of_a_silent_thread_is_the_only_one),
		STORY(context_of_a_failed_call_is_not_current),
		STORY(context_of_threads_beyond_the_limit_is_that_of_the_latest),
		STORY(context_stack_too_deep_loses_its_bottom),
		STORY(context_on_an_absurd_device_is_on_an_unknown_one),
		STORY(context_at_the_limit_is_the_unknown_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
