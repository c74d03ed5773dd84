/* What calls add to the sums: bytes moved or allocated, not bytes requested. */
#include "core/base/array.h"
#include "exact_fixture.h"

static struct core_rollup sum_of(enum fn fn)
{
	struct core_rollup sum = { 0 };

	core_checkpoint(core, 20000 * MS);
	for (size_t i = 0; i < seen.rollups; i++) {
		if (seen.rollup[i].fn != fn || seen.rollup[i].freed)
			continue;
		sum.calls += seen.rollup[i].calls;
		sum.captured += seen.rollup[i].captured;
		sum.bytes += seen.rollup[i].bytes;
	}
	return sum;
}

static void give_call(enum fn fn, uint64_t start_ns, uint64_t end_ns, uint64_t stream,
		      uint64_t bytes, int32_t result)
{
	struct ts_event event = call_event(fn, start_ns, end_ns);

	event.api.stream = stream;
	event.api.bytes = bytes;
	event.result = result;
	event.api.address = result ? 0 : 0x100000 + start_ns;
	give(&event);
}

static void rollup_of_captured_work_has_no_bytes(void **state)
{
	announce();
	give_call(FN_COPY, 4, 0, S1, 100, 0);
	on_stream(FN_CAPTURE_BEGIN, 5, 6, S1);
	give_call(FN_COPY, 10, 0, S1, 100, 0);
	give_call(FN_SET, 11, 0, S1, 100, 0);
	launch(12, S1);
	on_stream(FN_CAPTURE_END, 20, 21, S1);
	give_call(FN_COPY, 30, 0, S1, 100, 0);
	assert_int_equal(sum_of(FN_COPY).bytes, 200);
	assert_int_equal(sum_of(FN_COPY).calls, 3);
	assert_int_equal(sum_of(FN_COPY).captured, 1);
	assert_int_equal(sum_of(FN_SET).bytes, 0);
	assert_int_equal(sum_of(FN_SET).captured, 1);
	assert_int_equal(sum_of(FN_LAUNCH).captured, 1);
	assert_int_equal(op_at(10)->bytes, 100); /* what the call asked for */
}

static void rollup_of_failed_calls_has_no_bytes(void **state)
{
	announce();
	give_call(FN_COPY_WAIT, 10, 11, 0, 100, 1);
	give_call(FN_SET, 12, 13, 0, 100, 1);
	give_call(FN_ALLOC, 14, 15, 0, UINT64_MAX, 2);
	give_call(FN_ALLOC, 16, 17, 0, 64, 0);
	give_call(FN_FREE, 18, 19, 0, 100, 1);
	assert_int_equal(sum_of(FN_COPY_WAIT).bytes, 0);
	assert_int_equal(sum_of(FN_SET).bytes, 0);
	assert_int_equal(sum_of(FN_ALLOC).bytes, 64);
	assert_int_equal(sum_of(FN_ALLOC).calls, 2);
	assert_int_equal(sum_of(FN_FREE).bytes, 0);
}

static void rollup_of_calls_that_never_returned_has_no_bytes(void **state)
{
	struct ts_event event = call_event(FN_ALLOC, 10, 0);

	announce();
	event.flags = TS_EVENT_UNFINISHED;
	event.api.bytes = 100;
	give(&event);
	assert_int_equal(sum_of(FN_ALLOC).calls, 1);
	assert_int_equal(sum_of(FN_ALLOC).bytes, 0);
}

/* The return of an asynchronous copy is not watched; the library's record of the call has it. */
static void rollup_of_failed_copies_has_no_bytes_in_the_exact_tier(void **state)
{
	struct ts_event record = library_event(TS_EVENT_CALL, 1011 * MS, 1012 * MS);

	begin_exact();
	give_call(FN_COPY, 1010 * MS, 0, S1, 100, 0);
	record.fn = fixture_functions[FN_COPY].activity[0];
	record.flags = TS_EVENT_RETURNED;
	record.call.correlation = 5;
	record.result = 400;
	tell(&record);
	pass_until(9000 * MS);
	assert_int_equal(op_at(1010 * MS)->result, 400);
	assert_int_equal(sum_of(FN_COPY).calls, 1);
	assert_int_equal(sum_of(FN_COPY).bytes, 0);
}

/* It is the launch of the graph that allocates. */
static void rollup_of_captured_allocations_has_no_bytes(void **state)
{
	announce();
	on_stream(FN_CAPTURE_BEGIN, 5, 6, S1);
	give_call(FN_ALLOC, 10, 11, S1, 100, 0);
	give_call(FN_FREE, 12, 13, S1, 0, 0);
	on_stream(FN_CAPTURE_END, 20, 21, S1);
	assert_true(op_at(10)->flags & OP_CAPTURED);
	assert_true(op_at(12)->flags & OP_CAPTURED);
	assert_int_equal(op_at(12)->live_bytes, 0);
	assert_int_equal(sum_of(FN_ALLOC).bytes, 0);
	assert_int_equal(sum_of(FN_ALLOC).captured, 1);
	assert_int_equal(lost(LOSS_UNKNOWN_FREE), 0);
	assert_int_equal(stats().allocations, 0);
}

static void rollup_of_captured_allocations_of_a_thread_has_no_bytes(void **state)
{
	struct ts_event event = call_event(FN_CAPTURE_BEGIN, 5, 6);

	announce();
	event.flags |= TS_EVENT_PER_THREAD;
	give(&event);
	event = call_event(FN_ALLOC, 10, 11);
	event.flags |= TS_EVENT_PER_THREAD;
	event.api.address = 0x1000;
	event.api.bytes = 100;
	give(&event);
	assert_true(op_at(10)->flags & OP_CAPTURED);
	assert_int_equal(sum_of(FN_ALLOC).bytes, 0);
	assert_int_equal(stats().allocations, 0);
}

/* It is ended where it started, and goes on until then. */
static void rollup_knows_a_capture_whose_end_was_refused(void **state)
{
	static const int32_t refused[] = { 1, 400, 903 };

	announce();
	on_stream(FN_CAPTURE_BEGIN, 5, 6, S1);
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++)
		give_call(FN_CAPTURE_END, 10 + i, 11 + i, S1, 0, refused[i]);
	give_call(FN_COPY, 20, 0, S1, 100, 0);
	assert_int_equal(sum_of(FN_COPY).captured, 1);
	give_call(FN_CAPTURE_END, 30, 31, S1, 0, 908);
	give_call(FN_COPY, 40, 0, S1, 100, 0);
	assert_int_equal(sum_of(FN_COPY).captured, 1);
	assert_int_equal(sum_of(FN_COPY).bytes, 100);
}

static void rollup_of_a_handle_that_is_none_has_no_stream(void **state)
{
	struct ts_event event;

	announce();
	event = call_event(FN_INIT, 2, 3);
	give(&event);
	event = call_event(FN_STREAM_CREATE, 4, 5);
	event.api.stream = S1;
	give(&event);
	launch(10, S1);
	launch(11, 0x7777);
	assert_int_equal(seen.streams, 1);
	assert_int_equal(op_at(11)->stream, 0);
	assert_int_equal(stats().pending, 1);
	/* One that the driver took is one, however it was made. */
	on_stream(FN_STREAM_SYNC, 20, 21, S2);
	launch(30, S2);
	assert_int_equal(seen.streams, 2);
	assert_int_equal(sum_of(FN_LAUNCH).calls, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(rollup_of_a_handle_that_is_none_has_no_stream),
		STORY(rollup_of_captured_work_has_no_bytes),
		STORY(rollup_of_failed_calls_has_no_bytes),
		STORY(rollup_of_calls_that_never_returned_has_no_bytes),
		STORY(rollup_of_failed_copies_has_no_bytes_in_the_exact_tier),
		STORY(rollup_of_captured_allocations_has_no_bytes),
		STORY(rollup_of_captured_allocations_of_a_thread_has_no_bytes),
		STORY(rollup_knows_a_capture_whose_end_was_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
