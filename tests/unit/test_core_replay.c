/* Playback of the state machines: stories, and random programs against a naive replay that sorts
 * everything. That they agree with the states that the model stores is in test_core_replay_model.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/replay/replay.h"

enum fn { FN_LAUNCH = 1, FN_RECORD, FN_WAIT, FN_BEGIN, FN_END, FN_DESTROY, FN_COUNT };

static const uint8_t effects[FN_COUNT] = {
	[FN_LAUNCH] = EFFECT_SUBMIT,	[FN_RECORD] = EFFECT_EVENT_RECORD,
	[FN_WAIT] = EFFECT_STREAM_WAIT, [FN_BEGIN] = EFFECT_CAPTURE_BEGIN,
	[FN_END] = EFFECT_CAPTURE_END,	[FN_DESTROY] = EFFECT_EVENT_DESTROY,
};

/* What was told, a line for each change. */
static char *told;
static size_t told_size;
static FILE *told_file;
static uint64_t told_ns, changes;
static int stop_after;

static int tell(void *data, const struct replay_change *change)
{
	assert_true(change->time_ns >= told_ns);
	assert_int_not_equal(change->from, change->to);
	assert_int_equal(!change->op, change->machine != REPLAY_OP);
	told_ns = change->time_ns;
	changes++;
	fprintf(told_file, "%lu %s ", change->time_ns, replay_machine_name(change->machine));
	if (change->machine == REPLAY_OP)
		fprintf(told_file, "%lu ", change->number);
	else
		fprintf(told_file, "%d ",
			change->machine == REPLAY_STREAM ? (int)change->stream : change->device);
	fprintf(told_file, "%s-%s%s\n", replay_state_name(change->from),
		replay_state_name(change->to), change->bounds ? " bounds" : "");
	return stop_after && changes == (uint64_t)stop_after ? -ECANCELED : 0;
}

static void told_begin(void)
{
	free(told);
	told = NULL;
	told_ns = changes = 0;
	told_file = open_memstream(&told, &told_size);
}

static void told_end(void)
{
	fclose(told_file);
}

static int play(const struct op *op, size_t count, uint64_t since_ns, uint64_t until_ns)
{
	_cleanup_(replay_freep) struct replay *replay = NULL;
	int r;

	told_begin();
	assert_int_equal(replay_new(effects, FN_COUNT, tell, NULL, &replay), 0);
	replay_window(replay, since_ns, until_ns);
	r = replay_ops(replay, op, count, 0);
	if (r == 0)
		r = replay_end(replay);
	told_end();
	return r;
}

#define TIMES(at, begin, end, seen)                                                                \
	.start_ns = (at), .gpu_start_ns = (begin), .gpu_end_ns = (end), .seen_ns = (seen)
#define EXACT(at, begin, end, seen)                                                                \
	TIMES(at, begin, end, seen), .kind = OP_LAUNCH, .fn = FN_LAUNCH, .flags = OP_EXACT
#define PART(at, begin, end, what)                                                                 \
	TIMES(at, begin, end, 0), .kind = (what), .fn = FN_LAUNCH, .flags = OP_EXACT | OP_NODE
#define BOUNDS(at, until)                                                                          \
	.start_ns = (at), .gpu_start_ns = (at), .gpu_end_ns = (until), .kind = OP_LAUNCH,          \
	.fn = FN_LAUNCH, .flags = OP_BOUNDS
#define CALL(function, at, until)                                                                  \
	.start_ns = (at), .end_ns = (until), .kind = OP_EVENT, .fn = (function)

#define EXPECT(text, ...)                                                                          \
	do {                                                                                       \
		const struct op list[] = { __VA_ARGS__ };                                          \
		assert_int_equal(play(list, ARRAY_SIZE(list), 0, UINT64_MAX), 0);                  \
		assert_string_equal(told, text);                                                   \
	} while (0)

static void an_op_goes_through_its_states(void **state)
{
	EXPECT("10 op 1 idle-pending\n10 stream 3 idle-pending\n10 device 0 idle-pending\n"
	       "20 op 1 pending-running\n20 stream 3 pending-running\n"
	       "20 device 0 pending-running\n"
	       "30 op 1 running-waiting\n30 stream 3 running-idle\n30 device 0 running-idle\n"
	       "40 op 1 waiting-finished\n",
	       { EXACT(10, 20, 30, 40), .stream = 3 });
}

static void what_is_not_seen_is_finished_at_its_end(void **state)
{
	EXPECT("10 op 1 idle-pending\n20 op 1 pending-running\n30 op 1 running-finished\n",
	       { EXACT(10, 20, 30, 0) });
}

static void with_bounds_running_is_not_told(void **state)
{
	EXPECT("10 op 1 idle-pending\n10 stream 3 idle-pending\n"
	       "10 device 0 idle-pending\n"
	       "30 op 1 pending-finished bounds\n30 stream 3 pending-idle\n"
	       "30 device 0 pending-idle\n",
	       { BOUNDS(10, 30), .stream = 3 });
}

/* When it was over is not known, so the stream is not said to be pending. */
static void work_without_a_bound_is_a_call(void **state)
{
	EXPECT("10 op 1 idle-pending\n12 op 1 pending-finished bounds\n",
	       { BOUNDS(10, 0), .end_ns = 12, .stream = 3 });
}

static void calls_are_pending_until_they_return(void **state)
{
	EXPECT("10 op 1 idle-pending\n11 op 2 idle-pending\n11 op 2 pending-finished\n"
	       "15 op 1 pending-finished\n",
	       { .start_ns = 10, .end_ns = 15, .kind = OP_ALLOC },
	       { .start_ns = 11, .kind = OP_LAUNCH, .fn = FN_LAUNCH, .flags = OP_CAPTURED });
}

static void work_without_a_call_runs_at_once(void **state)
{
	EXPECT("10 op 1 idle-running\n10 stream 3 idle-running\n10 device 0 idle-running\n"
	       "20 op 1 running-finished\n20 stream 3 running-idle\n20 device 0 running-idle\n",
	       { TIMES(10, 10, 20, 0), .kind = OP_KERNEL, .flags = OP_EXACT | OP_NO_CALL,
		 .stream = 3 },
	       { .start_ns = 11,
		 .flags = OP_NO_CALL | OP_UNTIMED,
		 .kind = OP_KERNEL,
		 .stream = 3 });
}

static void what_is_no_op_is_not_played(void **state)
{
	EXPECT("", { .start_ns = 1, .end_ns = 9, .kind = OP_STATE, .stream = 3 },
	       { .start_ns = 1, .end_ns = 9, .kind = OP_RANGE },
	       { .start_ns = 1, .end_ns = 9, .kind = OP_OVERHEAD },
	       { .start_ns = 1, .end_ns = 9, .kind = OP_SYNC, .flags = OP_EXACT });
}

/* One starts when the other ends: the stream runs on. */
static void a_stream_is_as_busy_as_its_ops(void **state)
{
	EXPECT("10 op 1 idle-pending\n10 stream 3 idle-pending\n10 device 0 idle-pending\n"
	       "11 op 2 idle-pending\n"
	       "20 op 1 pending-running\n20 stream 3 pending-running\n"
	       "20 device 0 pending-running\n"
	       "30 op 2 pending-running\n30 op 1 running-finished\n"
	       "40 op 2 running-finished\n40 stream 3 running-idle\n40 device 0 running-idle\n",
	       { EXACT(11, 30, 40, 0), .stream = 3 }, { EXACT(10, 20, 30, 0), .stream = 3 });
}

/* The record of the first was lost: when it was seen to be over says little. */
static void where_work_begins_all_before_it_is_over(void **state)
{
	const struct op list[] = {
		{ BOUNDS(10, 90), .stream = 3 },
		{ EXACT(11, 20, 30, 0), .stream = 3 },
	};

	assert_int_equal(play(list, 2, 0, UINT64_MAX), 0);
	assert_non_null(strstr(told, "30 stream 3 running-idle\n30 device 0 running-idle\n"
				     "90 op 1 pending-finished bounds\n"));
}

static void a_stream_waits_for_another_one(void **state)
{
	EXPECT("10 op 1 idle-pending\n10 stream 1 idle-pending\n10 device 0 idle-pending\n"
	       "12 op 2 idle-pending\n13 op 2 pending-finished\n"
	       "14 op 3 idle-pending\n15 op 3 pending-finished\n"
	       "16 op 4 idle-pending\n16 stream 2 idle-waiting\n"
	       "20 op 1 pending-running\n20 stream 1 pending-running\n"
	       "20 device 0 pending-running\n"
	       "30 op 1 running-finished\n30 stream 2 waiting-pending\n30 stream 1 running-idle\n"
	       "30 device 0 running-pending\n"
	       "35 op 4 pending-running\n35 stream 2 pending-running\n"
	       "35 device 0 pending-running\n"
	       "40 op 4 running-finished\n40 stream 2 running-idle\n40 device 0 running-idle\n",
	       { EXACT(10, 20, 30, 0), .stream = 1 },
	       { CALL(FN_RECORD, 12, 13), .stream = 1, .handle = 9 },
	       { CALL(FN_WAIT, 14, 15), .stream = 2, .handle = 9 },
	       { EXACT(16, 35, 40, 0), .stream = 2 });
}

/* Without exact times a wait shows as long as nothing is submitted behind it. */
static void with_bounds_a_stream_waits_until_more_is_submitted(void **state)
{
	EXPECT("10 op 1 idle-pending\n10 stream 1 idle-pending\n10 device 0 idle-pending\n"
	       "12 op 2 idle-pending\n12 op 2 pending-finished\n"
	       "14 op 3 idle-pending\n14 stream 2 idle-waiting\n14 op 3 pending-finished\n"
	       "16 op 4 idle-pending\n16 stream 2 waiting-pending\n"
	       "30 op 1 pending-finished bounds\n30 stream 1 pending-idle\n"
	       "40 op 4 pending-finished bounds\n40 stream 2 pending-idle\n"
	       "40 device 0 pending-idle\n",
	       { BOUNDS(10, 30), .stream = 1 },
	       { CALL(FN_RECORD, 12, 12), .stream = 1, .handle = 9 },
	       { CALL(FN_WAIT, 14, 14), .stream = 2, .handle = 9 },
	       { BOUNDS(16, 40), .stream = 2 });
}

static size_t count_of(const char *text)
{
	size_t count = 0;

	for (const char *at = told; (at = strstr(at, text)); at++)
		count++;
	return count;
}

/* A wait that failed, one for an event that is gone, and waits that are captured. */
static void waits_that_mean_nothing_show_nothing(void **state)
{
	const struct op list[] = {
		{ EXACT(10, 20, 30, 0), .stream = 1 },
		{ CALL(FN_RECORD, 11, 11), .stream = 1, .handle = 9 },
		{ CALL(FN_RECORD, 11, 11), .stream = 1, .handle = 8 },
		{ CALL(FN_DESTROY, 12, 12), .handle = 8 },
		{ CALL(FN_WAIT, 13, 13), .stream = 2, .handle = 9, .result = 1 },
		{ CALL(FN_WAIT, 13, 13), .stream = 2, .handle = 8 },
		{ CALL(FN_BEGIN, 14, 14), .stream = 1 },
		{ CALL(FN_RECORD, 15, 15), .stream = 1, .handle = 7 },
		{ CALL(FN_WAIT, 16, 16), .stream = 2, .handle = 7 },
		{ CALL(FN_RECORD, 17, 17), .stream = 2, .handle = 6 },
		{ CALL(FN_WAIT, 18, 18), .stream = 3, .handle = 6 },
		{ EXACT(19, 35, 40, 0), .stream = 2 },
		{ EXACT(19, 35, 40, 0), .stream = 3 },
	};

	assert_int_equal(play(list, ARRAY_SIZE(list), 0, UINT64_MAX), 0);
	assert_int_equal(count_of("waiting"), 0);
}

/* The parts come before the call, from other pieces, and on two streams. */
static void a_graph_is_known_by_its_parts(void **state)
{
	EXPECT("10 op 1 idle-pending\n10 op 2 idle-pending\n10 op 3 idle-pending\n"
	       "10 stream 1 idle-pending\n10 device 0 idle-pending\n"
	       "20 op 1 pending-running\n20 op 2 pending-running\n20 stream 1 pending-running\n"
	       "20 device 0 pending-running\n"
	       "30 op 3 pending-running\n30 stream 2 idle-running\n"
	       "30 op 2 running-finished\n30 stream 1 running-pending\n"
	       "40 op 1 running-waiting\n40 stream 1 pending-idle\n"
	       "40 op 3 running-finished\n40 stream 2 running-idle\n40 device 0 running-idle\n"
	       "50 op 1 waiting-finished\n",
	       { PART(10, 30, 40, OP_KERNEL), .stream = 2 },
	       { PART(10, 20, 30, OP_COPY), .stream = 1 }, { BOUNDS(10, 50), .stream = 1 });
}

static void a_window_begins_with_what_is_under_way(void **state)
{
	const struct op list[] = {
		{ EXACT(10, 20, 60, 0), .stream = 1 },
		{ EXACT(11, 12, 13, 0), .stream = 2 },
		{ EXACT(30, 70, 80, 0), .stream = 1 },
	};

	assert_int_equal(play(list, 3, 25, 70), 0);
	assert_string_equal(told, "25 op 1 idle-running\n25 stream 1 idle-running\n"
				  "25 device 0 idle-running\n"
				  "30 op 2 idle-pending\n"
				  "60 op 1 running-finished\n60 stream 1 running-pending\n"
				  "60 device 0 running-pending\n");
	assert_int_equal(play(list, 3, 85, UINT64_MAX), 0);
	assert_string_equal(told, "");
	assert_int_equal(play(list, 3, 40, 41), 0);
	assert_int_equal(changes, 4);
}

static void who_listens_can_stop_it(void **state)
{
	const struct op op = { EXACT(10, 20, 30, 40), .stream = 3 };

	for (stop_after = 1; stop_after <= 10; stop_after++) {
		assert_int_equal(play(&op, 1, 0, UINT64_MAX), -ECANCELED);
		assert_int_equal(changes, stop_after);
	}
	stop_after = 0;
}

/* Impossible times are put in order; nothing is reported twice or lost. */
static void hostile_ops_are_played_in_order(void **state)
{
	_cleanup_(replay_freep) struct replay *replay = NULL;
	uint64_t seed = 3;

	told_begin();
	assert_int_equal(replay_new(effects, FN_COUNT, tell, NULL, &replay), 0);
	for (int piece = 0; piece < 200; piece++) {
		struct op op[16];

		for (size_t i = 0; i < sizeof(op); i++) {
			seed = seed * 6364136223846793005ull + 1442695040888963407ull;
			((uint8_t *)op)[i] = (uint8_t)(seed >> 56);
		}
		for (size_t i = 0; i < 16; i++) {
			op[i].fn %= 2 * FN_COUNT;
			op[i].stream %= 4;
			op[i].process %= 2;
			op[i].tid %= 2;
			op[i].handle %= 3;
			op[i].result %= 2;
			op[i].device %= 3;
			if (op[i].bytes % 2)
				op[i].start_ns %= 1000;
			if (op[i].bytes % 3)
				op[i].gpu_start_ns = op[i].gpu_end_ns = op[i].start_ns;
		}
		assert_int_equal(replay_ops(replay, op, 16, seed >> 57 ? 10u * piece : seed), 0);
	}
	assert_int_equal(replay_end(replay), 0);
	told_end();
	assert_true(changes > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_op_goes_through_its_states),
		cmocka_unit_test(what_is_not_seen_is_finished_at_its_end),
		cmocka_unit_test(with_bounds_running_is_not_told),
		cmocka_unit_test(work_without_a_bound_is_a_call),
		cmocka_unit_test(calls_are_pending_until_they_return),
		cmocka_unit_test(work_without_a_call_runs_at_once),
		cmocka_unit_test(what_is_no_op_is_not_played),
		cmocka_unit_test(a_stream_is_as_busy_as_its_ops),
		cmocka_unit_test(where_work_begins_all_before_it_is_over),
		cmocka_unit_test(a_stream_waits_for_another_one),
		cmocka_unit_test(with_bounds_a_stream_waits_until_more_is_submitted),
		cmocka_unit_test(waits_that_mean_nothing_show_nothing),
		cmocka_unit_test(a_graph_is_known_by_its_parts),
		cmocka_unit_test(a_window_begins_with_what_is_under_way),
		cmocka_unit_test(who_listens_can_stop_it),
		cmocka_unit_test(hostile_ops_are_played_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
