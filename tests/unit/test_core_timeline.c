/* Pending work: which synchronization bounds what, and what is emitted without a bound. */
#include "core_fixture.h"

#define S1 0x1000
#define S2 0x2000
#define S3 0x3000
#define E1 0xe1
#define E2 0xe2

static uint64_t bound_of(uint64_t start_ns)
{
	const struct op *op = op_at(start_ns);

	assert_non_null(op);
	assert_int_equal(op->gpu_start_ns, start_ns);
	assert_true(op->flags & OP_BOUNDS);
	return op->gpu_end_ns;
}

static void timeline_stream_sync_bounds_its_stream_only(void **state)
{
	announce();
	launch(10, S1);
	launch(20, S1);
	launch(30, S2);
	assert_null(op_at(10));
	on_stream(FN_STREAM_SYNC, 40, 50, S1);
	assert_int_equal(bound_of(10), 50);
	assert_int_equal(bound_of(20), 50);
	assert_null(op_at(30));
}

static void timeline_sync_does_not_bound_what_began_after_it(void **state)
{
	announce();
	launch(10, S1);
	tid = 101;
	launch(45, S1); /* by another thread, while the first one waits */
	tid = 100;
	on_stream(FN_STREAM_SYNC, 40, 50, S1);
	assert_int_equal(bound_of(10), 50);
	assert_null(op_at(45));
}

static void timeline_work_reported_late_is_in_its_place(void **state)
{
	announce();
	launch(30, S1);
	on_stream(FN_COPY, 10, 35, S1); /* began first, returned last */
	on_stream(FN_STREAM_SYNC, 20, 50, S1);
	assert_int_equal(bound_of(10), 50);
	assert_null(op_at(30));
}

static void timeline_failed_or_unreturned_sync_bounds_nothing(void **state)
{
	struct ts_event event = call_event(FN_STREAM_SYNC, 20, 30);

	announce();
	launch(10, S1);
	event.api.stream = S1;
	event.result = 700;
	give(&event);
	on_stream(FN_STREAM_SYNC, 40, 0, S1);
	assert_null(op_at(10));
}

static void timeline_copy_of_nothing_is_not_pending(void **state)
{
	struct ts_event event = call_event(FN_COPY, 10, 0);

	announce();
	event.api.stream = S1;
	give(&event);
	assert_int_equal(seen.ops, 1);
	assert_int_equal(seen.op[0].flags, 0);
	assert_int_equal(seen.op[0].gpu_start_ns, 0);
	core_flush(core, 10000000000);
	assert_int_equal(lost(LOSS_UNBOUND), 0);
}

static void timeline_failed_launch_is_not_pending(void **state)
{
	struct ts_event event = call_event(FN_COPY, 10, 20);

	announce();
	event.api.stream = S1;
	event.result = 1;
	give(&event);
	assert_int_equal(last_op(FN_COPY)->result, 1);
	assert_int_equal(last_op(FN_COPY)->gpu_start_ns, 0);
	assert_int_equal(stats().pending, 0);
}

static void timeline_context_sync_bounds_all_streams_of_the_context(void **state)
{
	announce();
	on_context(FN_CTX_CREATE, 2, 0xc1, 0);
	launch(10, S1);
	launch(11, 0);
	on_context(FN_CTX_CREATE, 20, 0xc2, 1);
	launch(30, S2);
	assert_int_equal(stats().pending, 3);
	on_context(FN_CTX_SYNC, 40, 0xc1, 0);
	assert_int_equal(bound_of(10), 41);
	assert_int_equal(bound_of(11), 41);
	assert_int_equal(op_at(10)->device, 0);
	assert_null(op_at(30));
	on_stream(FN_CTX_SYNC, 50, 60, 0);
	assert_int_equal(bound_of(30), 60);
	assert_int_equal(op_at(30)->device, 1);
}

static void timeline_context_sync_of_an_unknown_context_bounds_all(void **state)
{
	announce();
	on_context(FN_RETAIN, 2, 0xc1, 0);
	on_context(FN_RETAIN, 4, 0xc2, 1);
	on_context(FN_CTX_SET, 6, 0xc1, 0);
	launch(10, S1);
	tid = 101;
	launch(20, S2);
	on_stream(FN_CTX_SYNC, 30, 40, 0);
	tid = 100;
	assert_int_equal(bound_of(10), 40);
	assert_int_equal(bound_of(20), 40);
}

static void timeline_event_bounds_what_was_before_its_record(void **state)
{
	announce();
	launch(10, S1);
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	launch(30, S1);
	on_event(FN_EVENT_SYNC, 40, 50, E1, 0);
	assert_int_equal(bound_of(10), 50);
	assert_null(op_at(30));
	on_event(FN_EVENT_RECORD, 60, 0, E1, S1);
	on_event(FN_EVENT_SYNC, 70, 80, E1, 0);
	assert_int_equal(bound_of(30), 80);
}

static void timeline_destroyed_event_bounds_nothing(void **state)
{
	announce();
	launch(10, S1);
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_event(FN_EVENT_DESTROY, 30, 0, E1, 0);
	on_event(FN_EVENT_SYNC, 40, 50, E1, 0);
	assert_null(op_at(10));
}

static void timeline_sync_reaches_streams_that_its_stream_waited_for(void **state)
{
	announce();
	launch(10, S1);
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	launch(25, S1);
	on_event(FN_STREAM_WAIT, 30, 0, E1, S2);
	on_event(FN_EVENT_RECORD, 32, 0, E2, S2);
	on_event(FN_STREAM_WAIT, 35, 0, E2, S3);
	launch(40, S3);
	on_stream(FN_STREAM_SYNC, 50, 60, S3);
	assert_int_equal(bound_of(40), 60);
	assert_int_equal(bound_of(10), 60); /* through S2 */
	assert_null(op_at(25));
}

static void timeline_streams_that_wait_for_each_other_are_no_loop(void **state)
{
	announce();
	launch(10, S1);
	launch(11, S2);
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_event(FN_EVENT_RECORD, 21, 0, E2, S2);
	on_event(FN_STREAM_WAIT, 30, 0, E1, S2);
	on_event(FN_STREAM_WAIT, 31, 0, E2, S1);
	on_stream(FN_STREAM_SYNC, 50, 60, S1);
	assert_int_equal(bound_of(10), 60);
	assert_int_equal(bound_of(11), 60);
	on_stream(FN_STREAM_SYNC, 70, 80, S2);
	assert_int_equal(stats().pending, 0);
}

static void timeline_legacy_stream_bounds_the_blocking_ones(void **state)
{
	struct ts_event event = call_event(FN_STREAM_CREATE, 2, 3);

	announce();
	event.api.stream = S2;
	event.api.flags = 1;
	give(&event);
	launch(10, S1);
	launch(11, S2);
	launch(12, 0);
	on_stream(FN_STREAM_SYNC, 20, 30, 0);
	assert_int_equal(bound_of(10), 30);
	assert_int_equal(bound_of(12), 30);
	assert_null(op_at(11)); /* non-blocking */
}

static void timeline_waiting_copy_bounds_itself_and_what_was_before(void **state)
{
	announce();
	launch(10, 0);
	launch(11, S1);
	on_stream(FN_COPY_WAIT, 20, 30, 0);
	assert_int_equal(bound_of(10), 30);
	assert_int_equal(bound_of(11), 30);
	assert_int_equal(bound_of(20), 30);
	assert_int_equal(stats().pending, 0);
}

static void timeline_default_streams_are_told_apart(void **state)
{
	struct ts_event event = call_event(FN_LAUNCH, 10, 0);

	announce();
	launch(5, 1);
	assert_int_equal(seen.streams, 1);
	assert_int_equal(seen.stream[0].handle, 0);
	launch(6, 0); /* the same */
	assert_int_equal(seen.streams, 1);
	event.flags = TS_EVENT_PER_THREAD;
	give(&event);
	assert_int_equal(seen.streams, 2);
	assert_int_equal(seen.stream[1].tid, tid);
	launch(11, 2); /* the same */
	assert_int_equal(seen.streams, 2);
	tid = 101;
	launch(12, 2);
	tid = 100;
	assert_int_equal(seen.streams, 3);
}

static void timeline_handle_of_a_destroyed_stream_names_a_new_one(void **state)
{
	announce();
	on_stream(FN_STREAM_CREATE, 2, 3, S1);
	launch(10, S1);
	on_stream(FN_STREAM_DESTROY, 20, 21, S1);
	assert_int_equal(seen.stream[1].destroyed_ns, 21);
	on_stream(FN_STREAM_CREATE, 30, 31, S1);
	assert_int_equal(seen.stream[2].id, seen.stream[0].id + 1);
	assert_int_equal(stats().streams, 2); /* the old one still has work */
	launch(40, S1);
	on_stream(FN_CTX_SYNC, 50, 60, 0);
	assert_int_equal(bound_of(10), 60);
	assert_int_equal(op_at(10)->stream, seen.stream[0].id);
	assert_int_equal(op_at(40)->stream, seen.stream[2].id);
	assert_int_equal(stats().streams, 1);
}

static void timeline_handle_given_out_again_names_a_new_stream(void **state)
{
	announce();
	on_stream(FN_STREAM_CREATE, 2, 3, S1);
	on_stream(FN_STREAM_CREATE, 30, 31, S1); /* its destruction was lost */
	launch(40, S1);
	assert_int_equal(seen.stream[1].id, seen.stream[0].id);
	assert_int_equal(seen.stream[1].destroyed_ns, 30);
	assert_int_equal(stats().streams, 1);
	assert_int_equal(stats().limited, 0);
}

static void timeline_captured_work_does_not_run(void **state)
{
	announce();
	on_stream(FN_CAPTURE_BEGIN, 5, 6, S1);
	launch(10, S1);
	assert_true(op_at(10)->flags & OP_CAPTURED);
	assert_int_equal(op_at(10)->gpu_start_ns, 0);
	on_event(FN_EVENT_RECORD, 12, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 14, 0, E1, S2); /* S2 joins the capture */
	launch(16, S2);
	assert_true(op_at(16)->flags & OP_CAPTURED);
	launch(17, S3);
	assert_null(op_at(17));
	on_stream(FN_CAPTURE_END, 20, 21, S1);
	launch(30, S1);
	launch(31, S2);
	assert_null(op_at(30));
	assert_null(op_at(31));
}

static void timeline_capture_that_failed_is_over(void **state)
{
	struct ts_event event = call_event(FN_CAPTURE_END, 20, 21);

	announce();
	on_stream(FN_CAPTURE_BEGIN, 5, 6, S1);
	event.api.stream = S1;
	event.result = 901;
	give(&event);
	launch(30, S1);
	assert_int_equal(stats().pending, 1);
}

static void timeline_work_waits_no_longer_than_the_setting(void **state)
{
	announce();
	launch(10, S1);
	launch(5000, S1);
	core_tick(core, 10009);
	assert_null(op_at(10));
	core_tick(core, 10010);
	assert_int_equal(bound_of(10), 0);
	assert_null(op_at(5000));
	core_checkpoint(core, 10020);
	assert_int_equal(lost(LOSS_UNBOUND), 1);
}

static void timeline_oldest_work_leaves_at_the_limit(void **state)
{
	announce();
	for (uint64_t i = 0; i < 256; i++)
		launch(10 + i, S1 + i % 2);
	assert_int_equal(seen.ops, 0);
	launch(1000, S3);
	assert_int_equal(bound_of(10), 0);
	assert_int_equal(seen.ops, 1);
	assert_int_equal(stats().pending, 256);
	core_checkpoint(core, 1010);
	assert_int_equal(lost(LOSS_UNBOUND), 1);
}

static void timeline_room_for_a_mark_may_take_what_it_waits_for(void **state)
{
	struct core_config config = fixture_config();

	config.max_pending = 1;
	fixture_restart(&config);
	announce();
	on_stream(FN_STREAM_CREATE, 2, 3, S1);
	launch(10, S1);
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_stream(FN_STREAM_DESTROY, 25, 26, S1);
	on_event(FN_STREAM_WAIT, 30, 0, E1, S2);
	assert_int_equal(bound_of(10), 0);
	assert_int_equal(stats().pending, 0);
	assert_int_equal(stats().streams, 1);
}

static void timeline_flush_lets_everything_go(void **state)
{
	announce();
	launch(10, S1);
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 30, 0, E1, S2);
	core_flush(core, 100);
	assert_int_equal(bound_of(10), 0);
	assert_int_equal(stats().pending, 0);
}

static void timeline_stream_at_the_limit_is_counted(void **state)
{
	announce();
	for (uint64_t i = 0; i < 64; i++)
		assert_int_equal(launch(10 + i, S1 + i), INGEST_OK);
	assert_int_equal(launch(100, S2), INGEST_LIMIT);
	assert_int_equal(op_at(100)->stream, 0);
}

static void timeline_event_at_the_limit_is_counted(void **state)
{
	announce();
	for (uint64_t i = 0; i < 16; i++)
		assert_int_equal(on_event(FN_EVENT_RECORD, 10, 0, E1 + i, S1), INGEST_OK);
	assert_int_equal(on_event(FN_EVENT_RECORD, 10, 0, 1, S1), INGEST_LIMIT);
}

static void timeline_destroyed_context_takes_its_streams_along(void **state)
{
	announce();
	on_context(FN_CTX_CREATE, 2, 0xc1, 0);
	on_stream(FN_STREAM_CREATE, 4, 5, S1);
	launch(10, S1);
	on_event(FN_EVENT_RECORD, 12, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 14, 0, E1, S2);
	on_stream(FN_STREAM_DESTROY, 16, 17, S2);
	on_context(FN_CTX_DESTROY, 20, 0xc1, 0);
	assert_int_equal(bound_of(10), 21); /* nothing of it runs any more */
	assert_int_equal(stats().streams, 0);
	assert_int_equal(stats().pending, 0);
}

static void timeline_stream_is_placed_once_its_context_shows(void **state)
{
	announce();
	launch(10, S1); /* in a process that was there before us */
	assert_int_equal(seen.stream[0].device, DEVICE_UNKNOWN);
	on_context(FN_RETAIN, 12, 0xc1, 2);
	launch(20, S1);
	assert_int_equal(seen.streams, 2);
	assert_int_equal(seen.stream[1].id, seen.stream[0].id);
	assert_int_equal(seen.stream[1].context, 0xc1);
	assert_int_equal(seen.stream[1].device, 2);
}

static void timeline_known_streams_are_restored(void **state)
{
	struct core_process process = { .id = 3, .pid = pid, .started_ticks = 5 };
	struct core_stream row = {
		.id = 9,
		.process = 3,
		.handle = S1,
		.context = 0xc1,
		.device = 1,
	};

	assert_int_equal(core_restore_stream(core, &row), -ENOENT);
	assert_int_equal(core_restore_process(core, &process), 0);
	assert_int_equal(core_restore_stream(core, &row), 0);
	assert_int_equal(core_restore_stream(core, &row), -EEXIST);
	announce();
	launch(10, S1);
	assert_int_equal(seen.streams, 0);
	launch(11, S2);
	assert_int_equal(seen.stream[0].id, 10);
	assert_int_equal(seen.stream[0].device, 1); /* its context is the only one */
	on_stream(FN_STREAM_SYNC, 20, 30, S1);
	assert_int_equal(op_at(10)->stream, 9);
	assert_int_equal(op_at(10)->device, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(timeline_stream_sync_bounds_its_stream_only),
		STORY(timeline_sync_does_not_bound_what_began_after_it),
		STORY(timeline_work_reported_late_is_in_its_place),
		STORY(timeline_failed_or_unreturned_sync_bounds_nothing),
		STORY(timeline_copy_of_nothing_is_not_pending),
		STORY(timeline_failed_launch_is_not_pending),
		STORY(timeline_context_sync_bounds_all_streams_of_the_context),
		STORY(timeline_context_sync_of_an_unknown_context_bounds_all),
		STORY(timeline_event_bounds_what_was_before_its_record),
		STORY(timeline_destroyed_event_bounds_nothing),
		STORY(timeline_sync_reaches_streams_that_its_stream_waited_for),
		STORY(timeline_streams_that_wait_for_each_other_are_no_loop),
		STORY(timeline_legacy_stream_bounds_the_blocking_ones),
		STORY(timeline_waiting_copy_bounds_itself_and_what_was_before),
		STORY(timeline_default_streams_are_told_apart),
		STORY(timeline_handle_of_a_destroyed_stream_names_a_new_one),
		STORY(timeline_handle_given_out_again_names_a_new_stream),
		STORY(timeline_captured_work_does_not_run),
		STORY(timeline_capture_that_failed_is_over),
		STORY(timeline_work_waits_no_longer_than_the_setting),
		STORY(timeline_oldest_work_leaves_at_the_limit),
		STORY(timeline_room_for_a_mark_may_take_what_it_waits_for),
		STORY(timeline_flush_lets_everything_go),
		STORY(timeline_stream_at_the_limit_is_counted),
		STORY(timeline_event_at_the_limit_is_counted),
		STORY(timeline_destroyed_context_takes_its_streams_along),
		STORY(timeline_stream_is_placed_once_its_context_shows),
		STORY(timeline_known_streams_are_restored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
