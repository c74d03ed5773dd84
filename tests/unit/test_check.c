/* Check: small programs, written as ops, and what is the same and not the same about them. Each is
 * told with its own ids, handles, pids and times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/replay/check.h"

enum { FN_NONE, FN_LAUNCH, FN_RECORD, FN_WAIT, FN_SYNC, FN_ALLOC, FN_QUERY, FN_COUNT };

static const uint8_t effects[FN_COUNT] = {
	[FN_LAUNCH] = EFFECT_SUBMIT,	[FN_RECORD] = EFFECT_EVENT_RECORD,
	[FN_WAIT] = EFFECT_STREAM_WAIT, [FN_SYNC] = EFFECT_SYNC_STREAM,
	[FN_ALLOC] = EFFECT_ALLOC,
};

static const uint8_t kinds[FN_COUNT] = {
	[FN_LAUNCH] = OP_LAUNCH, [FN_RECORD] = OP_EVENT, [FN_WAIT] = OP_EVENT,
	[FN_SYNC] = OP_SYNC,	 [FN_ALLOC] = OP_ALLOC,	 [FN_QUERY] = OP_EVENT,
};

#define OPS_MAX 64

/* One side: what it calls `base` is what the other calls by another number. */
struct program {
	uint32_t base;
	uint64_t now_ns;
	struct op op[OPS_MAX];
	size_t count;
};

static struct op *call(struct program *program, uint32_t process, uint32_t tid, uint32_t stream,
		       uint16_t fn)
{
	struct op *op = &program->op[program->count++];

	program->now_ns += 1000;
	*op = (struct op){
		.start_ns = program->now_ns,
		.end_ns = program->now_ns + 500,
		.process = program->base + process,
		.tid = program->base * 10 + tid,
		.stream = stream ? program->base * 100 + stream : 0,
		.fn = fn,
		.kind = kinds[fn],
		.flags = OP_RETURNED,
		.address = program->base * 4096,
	};
	return op;
}

static struct op *launch(struct program *program, uint32_t process, uint32_t tid, uint32_t stream,
			 uint64_t name)
{
	struct op *op = call(program, process, tid, stream, FN_LAUNCH);

	op->gpu_start_ns = op->end_ns + 100;
	op->gpu_end_ns = op->end_ns + 100 + 100000 * name;
	op->seen_ns = op->gpu_end_ns;
	op->flags |= OP_EXACT;
	op->name = name;
	op->grid[0] = 4;
	return op;
}

static void event(struct program *program, uint32_t process, uint32_t tid, uint32_t stream,
		  uint16_t fn, uint64_t handle)
{
	call(program, process, tid, stream, fn)->handle = program->base * 1000 + handle;
}

/* Two streams with an event between them, and one that waits for all. */
static void two_streams(struct program *program, uint32_t process, uint32_t tid, uint32_t first)
{
	for (int i = 0; i < 3; i++) {
		launch(program, process, tid, first, 1);
		event(program, process, tid, first, FN_RECORD, tid);
		event(program, process, tid, first + 1, FN_WAIT, tid);
		launch(program, process, tid, first + 1, 2)->gpu_start_ns += 100000;
		program->op[program->count - 1].gpu_end_ns += 100000;
		program->now_ns += 400000;
		call(program, process, tid, first + 1, FN_SYNC)->end_ns += 100;
	}
}

static uint64_t function_of(void *data, uint16_t fn)
{
	return fn == FN_QUERY ? 0 : fn;
}

static struct plan *plan_of(const struct program *program)
{
	struct plan_builder *builder = NULL;
	struct plan *plan = NULL;

	assert_int_equal(plan_builder_new(effects, FN_COUNT, OPS_MAX, &builder), 0);
	assert_int_equal(plan_builder_add(builder, program->op, program->count), 0);
	assert_int_equal(plan_builder_end(builder, &plan), 0);
	plan_builder_free(builder);
	return plan;
}

/* Two sides that number things each its own way, and start at their own time. */
static void begin(struct program pair[2])
{
	memset(pair, 0, 2 * sizeof(*pair));
	pair[0].base = 1;
	pair[0].now_ns = 1000000;
	pair[1].base = 7;
	pair[1].now_ns = 5000000000;
}

/* The lane that differs, NULL: none does. */
static const struct check_lane *check_pair(const struct program pair[2], uint32_t tolerance_ppm,
					   struct check **ret)
{
	struct plan *plan[2] = { plan_of(&pair[0]), plan_of(&pair[1]) };
	const struct check_side side[2] = { { plan[0], function_of, NULL, 0 },
					    { plan[1], function_of, NULL, 0 } };
	const struct check_lane *found = NULL;

	assert_int_equal(check_run(side, tolerance_ppm, ret), 0);
	for (uint32_t i = 0; i < (*ret)->lane_count && !found; i++)
		if ((*ret)->lane[i].what != CHECK_SAME)
			found = &(*ret)->lane[i];
	assert_int_equal(found != NULL, (*ret)->different > 0);
	plan_free(plan[0]);
	plan_free(plan[1]);
	return found;
}

static void expect_same(const struct program pair[2])
{
	_cleanup_(check_freep) struct check *check = NULL;
	const struct check_lane *lane = check_pair(pair, CHECK_ANY_DURATION, &check);

	if (lane)
		fail_msg("%s %u differs at %u: %d", lane->thread ? "thread" : "stream",
			 lane->number, lane->at, lane->what);
}

static void test_ids_and_times_are_no_difference(void **state)
{
	_cleanup_(check_freep) struct check *check = NULL;
	struct program pair[2];

	begin(pair);
	for (int i = 0; i < 2; i++) {
		two_streams(&pair[i], 0, 1, 1);
		launch(&pair[i], 1, 9, 5, 3); /* of another process */
	}
	assert_null(check_pair(pair, 10000, &check));
	assert_int_equal(check->lane_count, 5);
	assert_int_equal(check->process_count[0], 2);
	assert_int_equal(check->durations, 7);
	assert_int_equal(check->p99_ppm, 0);
}

static void test_asking_is_no_difference(void **state)
{
	struct program pair[2];

	begin(pair);
	two_streams(&pair[0], 0, 1, 1);
	call(&pair[1], 0, 1, 1, FN_QUERY);
	two_streams(&pair[1], 0, 1, 1);
	expect_same(pair);
}

static void test_a_parameter_is_found(void **state)
{
	_cleanup_(check_freep) struct check *check = NULL;
	const struct check_lane *lane;
	struct program pair[2];

	begin(pair);
	two_streams(&pair[0], 0, 1, 1);
	two_streams(&pair[1], 0, 1, 1);
	pair[1].op[8].grid[0]++; /* the second launch on the second stream */
	lane = check_pair(pair, CHECK_ANY_DURATION, &check);
	assert_non_null(lane);
	assert_false(lane->thread);
	assert_int_equal(lane->number, 2);
	assert_int_equal(lane->what, CHECK_FIELD);
	assert_int_equal(lane->field, CHECK_FIELD_GRID_X);
	assert_int_equal(check->different, 2); /* also of the thread */
}

static void test_another_order_is_found(void **state)
{
	_cleanup_(check_freep) struct check *check = NULL;
	const struct check_lane *lane;
	struct program pair[2];

	begin(pair);
	for (int i = 0; i < 2; i++) {
		launch(&pair[i], 0, 1, 1, 1);
		launch(&pair[i], 0, 1, 1, i == 0 ? 2 : 3);
		launch(&pair[i], 0, 1, 1, i == 0 ? 3 : 2);
	}
	lane = check_pair(pair, CHECK_ANY_DURATION, &check);
	assert_int_equal(lane->what, CHECK_FIELD);
	assert_int_equal(lane->field, CHECK_FIELD_NAME);
	assert_int_equal(lane->at, 1);
}

static void test_a_dependency_is_found(void **state)
{
	_cleanup_(check_freep) struct check *check = NULL;
	const struct check_lane *lane;
	struct program pair[2];

	begin(pair);
	for (int i = 0; i < 2; i++) {
		launch(&pair[i], 0, 1, 1, 1);
		event(&pair[i], 0, 1, 1, FN_RECORD, 1);
		launch(&pair[i], 0, 1, 3, 1);
		event(&pair[i], 0, 1, 3, FN_RECORD, 2);
		event(&pair[i], 0, 1, 2, FN_WAIT, i == 0 ? 1 : 2);
		launch(&pair[i], 0, 1, 2, 2)->gpu_start_ns += 300000;
		pair[i].op[pair[i].count - 1].gpu_end_ns += 300000;
	}
	lane = check_pair(pair, CHECK_ANY_DURATION, &check);
	assert_non_null(lane);
	assert_false(lane->thread);
	assert_int_equal(lane->what, CHECK_DEPENDENCY);
	assert_int_equal(lane->number, 3);
}

/* By the device's clock a work may start a little before the one it waited for ended. */
static void test_clocks_are_no_dependency(void **state)
{
	_cleanup_(check_freep) struct check *check = NULL;
	const struct check_lane *lane;
	struct program pair[2];

	begin(pair);
	two_streams(&pair[0], 0, 1, 1);
	two_streams(&pair[1], 0, 1, 1);
	pair[1].op[5].gpu_end_ns = pair[1].op[8].gpu_start_ns + 500;
	expect_same(pair);
	pair[1].op[5].gpu_end_ns += 5000;
	lane = check_pair(pair, CHECK_ANY_DURATION, &check);
	assert_non_null(lane);
	assert_int_equal(lane->what, CHECK_DEPENDENCY);
}

/* Two threads put works on one stream: in B the second started to submit first, and ran last. */
static void test_the_order_is_that_of_running(void **state)
{
	struct program pair[2];

	begin(pair);
	for (int i = 0; i < 2; i++) {
		launch(&pair[i], 0, 1, 1, 1);
		launch(&pair[i], 0, 2, 1, 2)->gpu_start_ns += 200000;
		pair[i].op[1].gpu_end_ns += 200000;
	}
	pair[1].op[1].start_ns = pair[1].op[0].start_ns - 10;
	expect_same(pair);
}

static void test_an_end_and_a_missing_stream_are_found(void **state)
{
	_cleanup_(check_freep) struct check *check = NULL;
	const struct check_lane *lane;
	struct program pair[2];

	begin(pair);
	two_streams(&pair[0], 0, 1, 1);
	two_streams(&pair[1], 0, 1, 1);
	launch(&pair[1], 0, 1, 2, 1);
	launch(&pair[0], 0, 1, 9, 1);
	lane = check_pair(pair, CHECK_ANY_DURATION, &check);
	assert_int_equal(lane->what, CHECK_END);
	assert_int_equal(lane->at, lane->count[0]);
	assert_int_equal(lane->count[1], lane->count[0] + 1);
	assert_int_equal(check->lane[2].what, CHECK_MISSING);
	assert_int_equal(check->lane[2].index[1], PLAN_NONE);
}

/* Each thread has two streams with an event between; which thread is first is chance. The streams
 * are alike, so only their dependencies tell which belong together. */
static void test_threads_may_start_in_any_order(void **state)
{
	struct program pair[2], thread[2];
	size_t size = sizeof(struct op);

	begin(pair);
	for (int i = 0; i < 2; i++) {
		for (int j = 0; j < 2; j++) {
			thread[j] = (struct program){ .base = pair[i].base,
						      .now_ns = pair[i].now_ns + j * 100 };
			two_streams(&thread[j], 0, 1 + j, 1 + 2 * j);
		}
		/* A: first stream of each, then second of each. B: the second stream of thread 2
		 * before that of thread 1. */
		for (size_t k = 0; k < thread[0].count; k++) {
			memcpy(&pair[i].op[pair[i].count++], &thread[i].op[k], size);
			memcpy(&pair[i].op[pair[i].count++], &thread[!i].op[k], size);
		}
		if (i == 1)
			for (size_t k = 0; k < pair[i].count; k++)
				if (pair[i].op[k].tid % 10 == 1) {
					pair[i].op[k].start_ns += 200;
					pair[i].op[k].end_ns += 200;
				}
	}
	expect_same(pair);
}

static void test_durations_count_with_a_tolerance(void **state)
{
	_cleanup_(check_freep) struct check *none = NULL, *some = NULL, *wide = NULL;
	const struct check_lane *lane;
	struct program pair[2];

	begin(pair);
	two_streams(&pair[0], 0, 1, 1);
	two_streams(&pair[1], 0, 1, 1);
	pair[1].op[8].gpu_end_ns += 40000; /* of 200 us */
	assert_null(check_pair(pair, CHECK_ANY_DURATION, &none));
	assert_int_equal(none->p50_ppm, 0);
	assert_int_equal(none->different, 0);
	lane = check_pair(pair, 100000, &some);
	assert_int_equal(lane->what, CHECK_DURATION);
	assert_int_equal(lane->durations, 1);
	assert_null(check_pair(pair, 250000, &wide));
}

static void test_a_tolerance_of_0_is_of_no_nanosecond(void **state)
{
	_cleanup_(check_freep) struct check *some = NULL, *none = NULL;
	struct program pair[2];

	begin(pair);
	two_streams(&pair[0], 0, 1, 1);
	two_streams(&pair[1], 0, 1, 1);
	assert_null(check_pair(pair, 0, &none));
	pair[1].op[8].gpu_end_ns++;
	assert_int_equal(check_pair(pair, 0, &some)->durations, 1);
}

static void test_nothing_is_the_same_as_nothing(void **state)
{
	struct program pair[2];

	begin(pair);
	expect_same(pair);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ids_and_times_are_no_difference),
		cmocka_unit_test(test_asking_is_no_difference),
		cmocka_unit_test(test_a_parameter_is_found),
		cmocka_unit_test(test_another_order_is_found),
		cmocka_unit_test(test_a_dependency_is_found),
		cmocka_unit_test(test_clocks_are_no_dependency),
		cmocka_unit_test(test_the_order_is_that_of_running),
		cmocka_unit_test(test_an_end_and_a_missing_stream_are_found),
		cmocka_unit_test(test_threads_may_start_in_any_order),
		cmocka_unit_test(test_durations_count_with_a_tolerance),
		cmocka_unit_test(test_a_tolerance_of_0_is_of_no_nanosecond),
		cmocka_unit_test(test_nothing_is_the_same_as_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
