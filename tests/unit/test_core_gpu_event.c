/* Events of the driver: which records and waits the driver refuses, though no return shows it,
 * so that no stream is taken to be captured that is not. */
#include "core_fixture.h"

#define S1 0x1000
#define S2 0x2000
#define S3 0x3000
#define E1 0xe1
#define E2 0xe2
#define E3 0xe3
#define C1 0xc1
#define C2 0xc2

/* All is seen: two contexts, a stream in each, and one that is captured. */
static void begin(void)
{
	struct ts_event event = call_event(FN_INIT, 2, 3);

	announce();
	give(&event);
	on_context(FN_CTX_CREATE, 4, C2, 1);
	on_stream(FN_STREAM_CREATE, 6, 7, S2);
	on_event(FN_EVENT_CREATE, 8, 9, E2, 0);
	on_context(FN_CTX_CREATE, 10, C1, 0);
	on_stream(FN_STREAM_CREATE, 12, 13, S1);
	on_stream(FN_STREAM_CREATE, 14, 15, S3);
	on_event(FN_EVENT_CREATE, 16, 17, E1, 0);
	on_stream(FN_CAPTURE_BEGIN, 18, 19, S1);
}

static int alloc(uint64_t start_ns, uint64_t stream)
{
	struct ts_event event = call_event(FN_ALLOC_POOL, start_ns, start_ns + 1);

	event.api.stream = stream;
	event.api.address = 0x100000 + start_ns;
	event.api.bytes = 1000;
	return give(&event);
}

/* Whether the stream is taken to be captured. */
static bool captured(uint64_t start_ns, uint64_t stream)
{
	alloc(start_ns, stream);
	return op_at(start_ns)->flags & OP_CAPTURED;
}

static void gpu_event_joins_a_capture(void **state)
{
	begin();
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 22, 0, E1, S2);
	assert_true(captured(30, S2));
	assert_false(captured(32, S3));
}

static void gpu_event_of_no_handle_is_none(void **state)
{
	begin();
	on_event(FN_EVENT_RECORD, 20, 0, 0, S1);
	on_event(FN_STREAM_WAIT, 22, 0, 0, S3);
	assert_false(captured(30, S3));
}

static void gpu_event_that_is_gone_is_not_recorded(void **state)
{
	begin();
	on_event(FN_EVENT_DESTROY, 20, 21, E1, 0);
	on_event(FN_EVENT_RECORD, 22, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 24, 0, E1, S3);
	assert_false(captured(30, S3));
	/* Unless the driver said that it was. */
	on_event(FN_EVENT_RECORD, 32, 33, E1, S1);
	on_event(FN_STREAM_WAIT, 34, 0, E1, S3);
	assert_true(captured(40, S3));
}

static void gpu_event_of_another_context_is_not_recorded(void **state)
{
	begin();
	on_event(FN_EVENT_RECORD, 20, 0, E2, S1);
	on_event(FN_STREAM_WAIT, 22, 0, E2, S2);
	assert_false(captured(30, S2));
}

static void gpu_event_of_a_part_of_a_device_is_recorded(void **state)
{
	begin();
	on_context(FN_CTX_KNOWN, 20, 0xc3, 0);
	on_context(FN_CTX_PUSH, 22, 0xc3, 0);
	on_event(FN_EVENT_CREATE, 24, 25, E1, 0);
	on_event(FN_EVENT_RECORD, 26, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 28, 0, E1, S3);
	assert_true(captured(30, S3));
}

static void gpu_event_made_before_we_looked_is_recorded(void **state)
{
	announce();
	on_event(FN_EVENT_CREATE, 10, 11, E1, 0);
	on_stream(FN_CAPTURE_BEGIN, 18, 19, S1);
	on_event(FN_EVENT_RECORD, 20, 0, E2, S1);
	on_event(FN_STREAM_WAIT, 22, 0, E2, S2);
	assert_true(captured(30, S2));
}

static void gpu_event_that_found_no_room_is_recorded(void **state)
{
	begin();
	for (uint64_t i = 0; i < 20; i++)
		on_event(FN_EVENT_CREATE, 100 + 2 * i, 101 + 2 * i, 0xf00 + i, 0);
	on_event(FN_EVENT_DESTROY, 200, 201, 0xf00, 0);
	on_event(FN_EVENT_RECORD, 202, 0, 0xf00 + 19, S1);
	on_event(FN_STREAM_WAIT, 204, 0, 0xf00 + 19, S3);
	assert_true(captured(210, S3));
}

/* Another event has the handle now, and was not recorded. */
static void gpu_event_made_anew_was_not_recorded(void **state)
{
	begin();
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_event(FN_EVENT_CREATE, 22, 23, E1, 0); /* the destruction was lost */
	on_event(FN_STREAM_WAIT, 24, 0, E1, S3);
	assert_false(captured(30, S3));
}

static void capture_that_is_broken_takes_no_stream(void **state)
{
	struct ts_event event;

	begin();
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	event = call_event(FN_ALLOC_POOL, 22, 23);
	event.api.stream = S1;
	event.result = 900;
	give(&event);
	on_event(FN_STREAM_WAIT, 24, 0, E1, S3);
	assert_false(captured(30, S3));
	assert_true(captured(32, S1)); /* until its end */
	on_stream(FN_CAPTURE_END, 40, 41, S1);
	on_stream(FN_CAPTURE_BEGIN, 42, 43, S1);
	on_event(FN_EVENT_RECORD, 44, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 46, 0, E1, S3);
	assert_true(captured(50, S3));
}

static void capture_is_broken_by_a_wait_for_what_is_outside(void **state)
{
	begin();
	on_event(FN_EVENT_RECORD, 20, 0, E2, S2);
	on_event(FN_EVENT_RECORD, 22, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 24, 0, E2, S1);
	on_event(FN_STREAM_WAIT, 26, 0, E1, S3);
	assert_false(captured(30, S3));
}

/* One that was never recorded is not waited for. */
static void capture_is_not_broken_by_a_wait_for_nothing(void **state)
{
	begin();
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 22, 0, E2, S1);
	on_event(FN_STREAM_WAIT, 24, 0, E1, S3);
	assert_true(captured(30, S3));
}

/* An event outside is waited for, or recorded, when the graph runs. */
static void capture_has_events_outside(void **state)
{
	struct ts_event event;

	begin();
	on_event(FN_EVENT_RECORD, 20, 0, E2, S2);
	on_event(FN_EVENT_RECORD, 22, 0, E1, S1);
	event = call_event(FN_STREAM_WAIT, 24, 0);
	event.api.handle = E2;
	event.api.stream = S1;
	event.api.flags = 1;
	give(&event);
	on_event(FN_STREAM_WAIT, 26, 0, E1, S3);
	assert_true(captured(30, S3));
	on_event(FN_EVENT_CREATE, 38, 39, E3, 0);
	event = call_event(FN_EVENT_RECORD, 40, 0);
	event.api.handle = E3;
	event.api.stream = S1;
	event.api.flags = 1;
	give(&event);
	on_event(FN_STREAM_WAIT, 42, 0, E3, S2);
	assert_false(captured(50, S2));
}

static void capture_does_not_become_another(void **state)
{
	begin();
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_stream(FN_CAPTURE_BEGIN, 22, 23, S3);
	on_event(FN_STREAM_WAIT, 24, 0, E1, S3);
	on_stream(FN_CAPTURE_END, 26, 27, S1);
	assert_true(captured(30, S3));
	on_stream(FN_CAPTURE_END, 32, 33, S3);
	assert_false(captured(40, S3));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(gpu_event_joins_a_capture),
		STORY(gpu_event_of_no_handle_is_none),
		STORY(gpu_event_that_is_gone_is_not_recorded),
		STORY(gpu_event_of_another_context_is_not_recorded),
		STORY(gpu_event_of_a_part_of_a_device_is_recorded),
		STORY(gpu_event_made_before_we_looked_is_recorded),
		STORY(gpu_event_that_found_no_room_is_recorded),
		STORY(gpu_event_made_anew_was_not_recorded),
		STORY(capture_that_is_broken_takes_no_stream),
		STORY(capture_is_broken_by_a_wait_for_what_is_outside),
		STORY(capture_is_not_broken_by_a_wait_for_nothing),
		STORY(capture_has_events_outside),
		STORY(capture_does_not_become_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
