/* States of streams and devices: intervals without gaps, overlaps or empty ones. */
#include "core/base/array.h"
#include "core_fixture.h"

#define S1	  0x1000
#define S2	  0x2000
#define E1	  0xe1

#define SECOND_NS 1000000000ull

struct expected {
	uint8_t state;
	uint64_t start_ns, end_ns;
};

/* The intervals of one stream (by id; 0: of the device), in order. */
static void expect(uint32_t stream, const struct expected *expected, size_t count)
{
	size_t n = 0;

	for (size_t i = 0; i < seen.states; i++) {
		if (seen.state[i].stream != stream)
			continue;
		assert_true(n < count);
		assert_int_equal(seen.state[i].detail, expected[n].state);
		assert_int_equal(seen.state[i].start_ns, expected[n].start_ns);
		assert_int_equal(seen.state[i].end_ns, expected[n].end_ns);
		assert_true(seen.state[i].flags & OP_BOUNDS);
		n++;
	}
	assert_int_equal(n, count);
}

#define EXPECT(stream, ...)                                                                        \
	do {                                                                                       \
		const struct expected list[] = { __VA_ARGS__ };                                    \
		expect(stream, list, ARRAY_SIZE(list));                                            \
	} while (0)

static void state_is_pending_from_the_call_to_the_synchronization(void **state)
{
	announce();
	launch(10, S1);
	launch(20, S1);
	on_stream(FN_STREAM_SYNC, 30, 40, S1);
	launch(70, S1);
	on_stream(FN_STREAM_SYNC, 80, 90, S1);
	core_flush(core, 95);
	EXPECT(1, { OP_STATE_PENDING, 10, 40 }, { OP_STATE_IDLE, 40, 70 },
	       { OP_STATE_PENDING, 70, 90 }, { OP_STATE_IDLE, 90, 95 });
	EXPECT(0, { OP_STATE_PENDING, 10, 40 }, { OP_STATE_IDLE, 40, 70 },
	       { OP_STATE_PENDING, 70, 90 }, { OP_STATE_IDLE, 90, 95 });
}

struct looked {
	struct core_doing doing[4];
	size_t count;
};

static void take_stream(void *data, const struct core_doing *doing)
{
	struct looked *looked = data;

	assert_true(looked->count < ARRAY_SIZE(looked->doing));
	looked->doing[looked->count++] = *doing;
}

/* Those of streams alone, and of no idle one. */
static void state_that_lasts_can_be_looked_at(void **state)
{
	struct looked looked = { .count = 0 };

	announce();
	launch(10, S1);
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 30, 0, E1, S2);
	core_look_streams(core, 70, take_stream, &looked);
	assert_int_equal(looked.count, 2);
	for (size_t i = 0; i < looked.count; i++) {
		const struct core_doing *doing = &looked.doing[i];

		assert_in_range(doing->stream, 1, 2);
		assert_int_equal(doing->state,
				 doing->stream == 1 ? OP_STATE_PENDING : OP_STATE_WAITING);
		assert_int_equal(doing->since_ns, doing->stream == 1 ? 10 : 30);
		assert_int_equal(doing->until_ns, 70);
		assert_false(doing->exact);
	}
	on_stream(FN_STREAM_SYNC, 80, 90, S1);
	looked.count = 0;
	core_look_streams(core, 100, take_stream, &looked);
	assert_int_equal(looked.count, 0);
}

static void state_of_a_device_is_the_union_of_its_streams(void **state)
{
	announce();
	on_context(FN_CTX_CREATE, 2, 0xc1, 6);
	launch(10, S1);
	launch(20, S2);
	on_stream(FN_STREAM_SYNC, 30, 40, S1);
	on_stream(FN_STREAM_SYNC, 50, 60, S2);
	core_flush(core, 100);
	EXPECT(0, { OP_STATE_PENDING, 10, 60 }, { OP_STATE_IDLE, 60, 100 });
	for (size_t i = 0; i < seen.states; i++)
		assert_int_equal(seen.state[i].device, 6);
}

static void state_waits_until_the_event_is_known_to_be_over(void **state)
{
	announce();
	launch(10, S1);
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 30, 0, E1, S2);
	on_stream(FN_STREAM_SYNC, 40, 50, S1);
	core_flush(core, 60);
	EXPECT(2, { OP_STATE_WAITING, 30, 50 }, { OP_STATE_IDLE, 50, 60 });
}

static void state_waits_on_while_another_record_is_reached(void **state)
{
	announce();
	launch(10, S1);
	on_event(FN_EVENT_RECORD, 12, 0, E1, S1);
	launch(14, S1);
	on_event(FN_EVENT_RECORD, 16, 0, E1 + 1, S1);
	on_event(FN_STREAM_WAIT, 30, 0, E1 + 1, S2);
	on_event(FN_EVENT_SYNC, 40, 45, E1, 0);
	on_event(FN_EVENT_SYNC, 50, 55, E1 + 1, 0);
	core_flush(core, 60);
	EXPECT(2, { OP_STATE_WAITING, 30, 55 }, { OP_STATE_IDLE, 55, 60 });
}

static void state_of_work_behind_a_wait_is_pending(void **state)
{
	announce();
	launch(10, S1);
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_event(FN_STREAM_WAIT, 30, 0, E1, S2);
	launch(35, S2);
	on_stream(FN_STREAM_SYNC, 40, 50, S2);
	core_flush(core, 60);
	EXPECT(2, { OP_STATE_WAITING, 30, 35 }, { OP_STATE_PENDING, 35, 50 },
	       { OP_STATE_IDLE, 50, 60 });
	EXPECT(1, { OP_STATE_PENDING, 10, 50 }, { OP_STATE_IDLE, 50, 60 });
}

static void state_does_not_wait_for_what_is_over(void **state)
{
	announce();
	launch(10, S1);
	on_event(FN_EVENT_RECORD, 20, 0, E1, S1);
	on_stream(FN_STREAM_SYNC, 22, 25, S1);
	launch(27, S1);
	on_event(FN_STREAM_WAIT, 30, 0, E1, S2);
	core_flush(core, 60);
	expect(2, NULL, 0);
}

static void state_ends_with_its_stream_and_process(void **state)
{
	announce();
	on_stream(FN_STREAM_CREATE, 2, 3, S1);
	launch(10, S1);
	on_stream(FN_STREAM_SYNC, 15, 20, S1);
	on_stream(FN_STREAM_DESTROY, 29, 30, S1);
	launch(40, S2);
	core_process_gone(core, pid, 50);
	core_tick(core, 1000000000);
	EXPECT(1, { OP_STATE_PENDING, 10, 20 }, { OP_STATE_IDLE, 20, 30 });
	EXPECT(2, { OP_STATE_PENDING, 40, 50 });
	EXPECT(0, { OP_STATE_PENDING, 10, 20 }, { OP_STATE_IDLE, 20, 40 },
	       { OP_STATE_PENDING, 40, 50 });
}

static void state_that_lasts_is_told_in_adjacent_pieces(void **state)
{
	uint64_t now_ns, end_ns = SECOND_NS;
	size_t pieces = 0;

	announce();
	launch(SECOND_NS, S1);
	for (now_ns = SECOND_NS; now_ns < 60 * SECOND_NS; now_ns += SECOND_NS / 4)
		core_checkpoint(core, now_ns);
	for (size_t i = 0; i < seen.states; i++) {
		if (!seen.state[i].stream)
			continue;
		assert_int_equal(seen.state[i].start_ns, end_ns);
		assert_true(seen.state[i].end_ns > end_ns);
		end_ns = seen.state[i].end_ns;
		pieces++;
	}
	assert_int_equal(seen.state[0].end_ns, 3 * SECOND_NS);
	assert_in_range(pieces, 4, 6);
	on_stream(FN_STREAM_SYNC, 61 * SECOND_NS, 62 * SECOND_NS, S1);
	assert_int_equal(seen.state[seen.states - 1].start_ns, end_ns);
}

static void state_of_reports_out_of_order_never_goes_back(void **state)
{
	announce();
	launch(10, S1);
	on_stream(FN_STREAM_SYNC, 20, 40, S1);
	launch(30, S1); /* by another thread; reported after the other one's return */
	on_stream(FN_STREAM_SYNC, 45, 50, S1);
	core_flush(core, 60);
	EXPECT(1, { OP_STATE_PENDING, 10, 40 }, { OP_STATE_PENDING, 40, 50 },
	       { OP_STATE_IDLE, 50, 60 });
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		STORY(state_is_pending_from_the_call_to_the_synchronization),
		STORY(state_that_lasts_can_be_looked_at),
		STORY(state_of_a_device_is_the_union_of_its_streams),
		STORY(state_waits_until_the_event_is_known_to_be_over),
		STORY(state_waits_on_while_another_record_is_reached),
		STORY(state_of_work_behind_a_wait_is_pending),
		STORY(state_does_not_wait_for_what_is_over),
		STORY(state_ends_with_its_stream_and_process),
		STORY(state_that_lasts_is_told_in_adjacent_pieces),
		STORY(state_of_reports_out_of_order_never_goes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
