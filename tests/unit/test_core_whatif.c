/* What-ifs: a prediction is what the machine does with the changed program. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "core/plan/whatif.h"
#include "program_fixture.h"

#define PROGRAMS  200
#define CALL_NS	  1024
#define HOST_NS	  256
#define LAUNCH_NS 4096
#define GAP_NS	  1024
#define WAKE_NS	  2048

static struct program program;

static struct plan *plan_of_program(void)
{
	struct machine *m = machine_run(&program);
	struct plan *plan = program_plan(m);

	free(m);
	return plan;
}

static uint64_t machine_says(void)
{
	struct machine *m = machine_run(&program);
	uint64_t ns = machine_makespan_ns(m);

	free(m);
	return ns;
}

static uint64_t predicted(struct plan *plan)
{
	struct emulate_result result;

	assert_int_equal(emulate(plan, &result), 0);
	plan_times_free(result.times);
	return result.makespan_ns;
}

/* And the plan is done with. */
static uint64_t predict(struct plan *plan)
{
	uint64_t ns = predicted(plan);

	program_plan_free(plan);
	return ns;
}

static bool match_name(void *data, const struct op *op)
{
	return op->name == *(const uint64_t *)data && op->kind == OP_LAUNCH;
}

static bool match_all(void *data, const struct op *op)
{
	return true;
}

static const struct whatif_match all = { match_all, NULL };

typedef int64_t change_fn(struct plan *plan);
typedef void alter_fn(struct step *step);

/* Random programs, changed in the plan and in the program. What a work was held up by is read from
 * the times, and one that is seen wrongly changes the order of all that come later: most are exact,
 * all are close. */
static void predict_many(change_fn *change, alter_fn *alter)
{
	double off = 0, most_off = 0;
	uint32_t exact = 0;

	for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
		struct plan *plan;
		uint64_t is_ns, told_ns;
		double this_off;

		program_make_apart(&program, seed);
		plan = plan_of_program();
		assert_true(change(plan) >= 0);
		told_ns = predict(plan);
		for (int t = 0; t < PROGRAM_THREADS; t++)
			for (uint32_t i = 0; i < program.steps[t]; i++)
				alter(&program.step[t][i]);
		is_ns = machine_says();
		exact += told_ns == is_ns;
		this_off = fabs((double)told_ns / (double)is_ns - 1);
		off += this_off;
		most_off = this_off > most_off ? this_off : most_off;
	}
	if (exact < PROGRAMS * 6 / 10 || off / PROGRAMS > 0.006 || most_off > 0.12)
		fail_msg("%d exact, %d ppm off, %d at most", (int)exact,
			 (int)(off / PROGRAMS * 1e6), (int)(most_off * 1e6));
}

static int64_t halve_kernels(struct plan *plan)
{
	uint64_t name = 1;

	return whatif_scale(plan, &(struct whatif_match){ match_name, &name }, 0.5);
}

static void halve_kernel(struct step *step)
{
	if (step->kind == KERNEL && step->name == 1)
		step->ns = (step->ns + 1) / 2;
}

static void whatif_scale_tells_of_faster_kernels(void **state)
{
	predict_many(halve_kernels, halve_kernel);
}

static int64_t double_bandwidth(struct plan *plan)
{
	return whatif_copy_bandwidth(plan, 2);
}

static void halve_copy(struct step *step)
{
	if (step->kind == COPY_IN || step->kind == COPY_OUT || step->kind == WAITED_COPY)
		step->ns = (step->ns + 1) / 2;
}

static void whatif_copy_bandwidth_tells_of_faster_copies(void **state)
{
	predict_many(double_bandwidth, halve_copy);
}

static int64_t slow_host(struct plan *plan)
{
	return whatif_scale_host(plan, 3);
}

static void slow_step(struct step *step)
{
	step->host_ns *= 3;
}

static void whatif_scale_host_tells_of_slower_threads(void **state)
{
	predict_many(slow_host, slow_step);
}

static void whatif_copy_bandwidth_leaves_the_latency(void **state)
{
	struct plan *plan;

	program_begin(&program);
	program_add(&program, 0, (struct step){ .kind = COPY_IN, .ns = 1000, .bytes = 64 });
	program_add(&program, 0, (struct step){ .kind = COPY_IN, .ns = 9000, .bytes = 1 << 20 });
	plan = plan_of_program();
	assert_int_equal(whatif_copy_bandwidth(plan, 4), 2);
	assert_int_equal(predict(plan), LAUNCH_NS + 1000 + GAP_NS + 1000 + 8000 / 4);
}

/* The host goes on with what it did before the call. */
static void whatif_drop_is_as_if_it_was_not_there(void **state)
{
	uint64_t name = 7, full;
	struct plan *plan;

	program_begin(&program);
	for (uint64_t i = 0; i < 8; i++)
		program_add(&program, 0,
			    (struct step){ .kind = KERNEL, .ns = 20000, .name = i % 2 ? 7 : 1 });
	program_add(&program, 0, (struct step){ .kind = SYNC_ALL });
	plan = plan_of_program();
	full = predicted(plan);
	assert_int_equal(whatif_drop(plan, &(struct whatif_match){ match_name, &name }), 4);
	assert_int_equal(full - predict(plan), 4 * (20000 + GAP_NS));
}

static void whatif_drop_of_waits_goes_on_at_once(void **state)
{
	struct plan *plan;

	program_begin(&program);
	program_add(&program, 0, (struct step){ .kind = WAITED_COPY, .ns = 50000 });
	program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 1000 });
	plan = plan_of_program();
	assert_int_equal(whatif_drop(plan, &all), 2);
	assert_int_equal(predict(plan), HOST_NS);
}

static void whatif_launch_latency_tells_of_other_launches(void **state)
{
	static const uint64_t latencies[] = { 0, 512, 4096, 50000 };

	for (size_t i = 0; i < ARRAY_SIZE(latencies); i++) {
		uint64_t ns = latencies[i];
		struct plan *plan;

		program_begin(&program);
		for (int k = 0; k < 10; k++) {
			program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 500 });
			program_add(&program, 0, (struct step){ .kind = SYNC_STREAM });
		}
		plan = plan_of_program();
		assert_int_equal(whatif_launch_latency(plan, ns), 10);
		program.launch_ns = ns;
		for (uint32_t k = 0; k < program.steps[0]; k++)
			if (program.step[0][k].kind == KERNEL && ns < CALL_NS)
				program.step[0][k].call_ns = ns;
		assert_int_equal(predict(plan), machine_says());
	}
}

/* Each is called while the one before it runs, and starts late because it is still on its way. */
static void whatif_launch_latency_tells_of_launches_on_their_way(void **state)
{
	struct plan *plan;

	program_begin(&program);
	program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 50000 });
	for (int i = 0; i < 4; i++) /* how soon kernels follow each other is seen here */
		program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 500 });
	program_add(&program, 0, (struct step){ .kind = SYNC_STREAM });
	for (int i = 0; i < 20; i++)
		program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 100 });
	program_add(&program, 0, (struct step){ .kind = SYNC_STREAM });
	plan = plan_of_program();
	assert_int_equal(plan->work[10].bound, PLAN_BOUND_CALL);
	assert_int_equal(plan->work[3].bound, PLAN_BOUND_STREAM);
	assert_int_equal(whatif_launch_latency(plan, 0), 25);
	program.launch_ns = 0;
	for (uint32_t k = 0; k < program.steps[0]; k++)
		if (program.step[0][k].kind == KERNEL)
			program.step[0][k].call_ns = 0;
	assert_int_equal(predict(plan), machine_says());
}

static void whatif_no_sync_waits_only_at_the_end(void **state)
{
	struct plan *plan;

	program_begin(&program);
	for (uint32_t i = 0; i < 5; i++) {
		program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 9000, .stream = i });
		program_add(&program, 0, (struct step){ .kind = SYNC_STREAM, .stream = i });
	}
	program_add(&program, 1, (struct step){ .kind = KERNEL, .ns = 400000, .stream = 9 });
	program_add(&program, 1, (struct step){ .kind = SYNC_STREAM, .stream = 9 });
	program.multiprocessors = 100000;
	plan = plan_of_program();
	assert_int_equal(whatif_no_sync(plan), 4);
	/* Thread 0 waits for its fifth stream, as before, and for the four others. */
	assert_int_equal(plan->call[0].thread + plan->call[1].thread, 1);
	for (uint32_t i = 0; i < plan->call_count; i++)
		if (plan->call[i].before != PLAN_NONE && plan->thread[0].last == i)
			assert_int_equal(plan->call[i].edge_count, 5);
	assert_int_equal(predict(plan), LAUNCH_NS + 400000 + WAKE_NS);
}

/* Groups of copies and kernels, on so many streams in turn. */
static void make_pipeline(uint32_t streams, bool ends)
{
	program_begin(&program);
	for (uint32_t i = 0; i < 12; i++) {
		uint32_t stream = i % streams;

		program_add(&program, 0,
			    (struct step){ .kind = COPY_IN, .ns = 30000, .stream = stream });
		program_add(&program, 0,
			    (struct step){ .kind = KERNEL, .ns = 20000 + i, .stream = stream });
		program_add(&program, 0,
			    (struct step){ .kind = KERNEL, .ns = 9000, .stream = stream });
		program_add(&program, 0,
			    (struct step){ .kind = COPY_OUT, .ns = 25000, .stream = stream });
	}
	program_add(&program, 0, (struct step){ .kind = ends ? SYNC_ALL : SYNC_STREAM });
}

static void whatif_streams_overlaps_groups_of_copies_and_kernels(void **state)
{
	for (uint32_t streams = 1; streams <= 8; streams++) {
		struct plan *plan;

		make_pipeline(1, false);
		plan = plan_of_program();
		assert_int_equal(whatif_streams(plan, streams) > 0, streams > 1);
		make_pipeline(streams, true);
		assert_int_equal(predict(plan), machine_says());
	}
}

static void whatif_streams_joins_streams(void **state)
{
	for (uint32_t streams = 1; streams < 4; streams++) {
		struct plan *plan;

		make_pipeline(4, true);
		plan = plan_of_program();
		assert_true(whatif_streams(plan, streams) > 0);
		for (uint32_t i = 0; i < program.steps[0]; i++)
			program.step[0][i].stream %= streams;
		assert_int_equal(predict(plan), machine_says());
	}
}

/* Kernels round one event: what is recorded after them comes after all of them. */
static void whatif_streams_keeps_what_events_ask_for(void **state)
{
	struct emulate_result result;
	struct plan *plan;

	program_begin(&program);
	for (uint32_t i = 0; i < 6; i++)
		program_add(&program, 0,
			    (struct step){ .kind = KERNEL, .ns = 50000 - 7000 * i, .blocks = 1 });
	program_add(&program, 0, (struct step){ .kind = RECORD });
	program_add(&program, 0, (struct step){ .kind = WAIT, .stream = 1 });
	program_add(&program, 0,
		    (struct step){ .kind = KERNEL, .ns = 1000, .stream = 1, .blocks = 1 });
	program_add(&program, 0, (struct step){ .kind = RECORD, .stream = 1, .event = 1 });
	program_add(&program, 0, (struct step){ .kind = WAIT, .event = 1 });
	for (uint32_t i = 0; i < 4; i++)
		program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 2000, .blocks = 1 });
	program_add(&program, 0, (struct step){ .kind = SYNC_STREAM });
	plan = plan_of_program();
	assert_true(whatif_streams(plan, 12) > 0);
	assert_int_equal(emulate(plan, &result), 0);
	/* The first of all is the longest: all run beside it, and the seventh after them. */
	assert_int_equal(result.times->work_start_ns[8], result.times->work_end_ns[0] + GAP_NS);
	for (uint32_t i = 11; i < 15; i++)
		assert_in_range(result.times->work_start_ns[i],
				result.times->work_end_ns[8] + GAP_NS, UINT64_MAX);
	assert_int_equal(result.times->work_start_ns[12], result.times->work_start_ns[11]);
	assert_int_equal(result.times->end_ns, result.times->work_end_ns[14] + WAKE_NS);
	plan_times_free(result.times);
	program_plan_free(plan);
}

static void whatif_devices_do_not_share(void **state)
{
	struct plan *plan;

	program_begin(&program);
	for (uint32_t i = 0; i < 4; i++)
		program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 90000, .stream = i });
	plan = plan_of_program();
	assert_int_equal(predicted(plan), LAUNCH_NS + 4 * 90000 + 3 * GAP_NS);
	assert_int_equal(whatif_devices(plan, 2), 2);
	assert_int_equal(plan->device_count, 2);
	assert_int_equal(plan->device[1].ordinal, 1);
	assert_int_equal(predicted(plan), CALL_NS + HOST_NS + LAUNCH_NS + 2 * 90000 + GAP_NS);
	assert_int_equal(whatif_devices(plan, 1), 2);
	assert_int_equal(predict(plan), LAUNCH_NS + 4 * 90000 + 3 * GAP_NS);
}

static void whatif_graph_leaves_one_launch(void **state)
{
	struct plan *plan;

	program_begin(&program);
	for (int step = 0; step < 3; step++) {
		for (int i = 0; i < 80; i++)
			program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 500 });
		program_add(&program, 0, (struct step){ .kind = SYNC_STREAM });
	}
	plan = plan_of_program();
	assert_int_equal(whatif_graph(plan, 0, UINT64_MAX, 700), 3 * 79);
	/* Begins; from then on the kernels are one after the other. */
	assert_int_equal(predict(plan), 3 * (LAUNCH_NS + 80 * 500 + 79 * 700 + WAKE_NS) +
						5 * HOST_NS - 3 * HOST_NS);
}

static void whatif_graph_is_of_a_window(void **state)
{
	struct plan *plan;

	program_begin(&program);
	for (int i = 0; i < 10; i++)
		program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 500 });
	plan = plan_of_program();
	assert_int_equal(whatif_graph(plan, plan->call[2].start_ns, plan->call[6].start_ns, 1000),
			 3);
	assert_true(plan->call[3].flags & PLAN_DROPPED);
	assert_false(plan->call[6].flags & PLAN_DROPPED);
	assert_int_equal(plan->call[2].work, 2);
	assert_int_equal(plan->work[2].next, 3);
	assert_int_equal(plan->work[5].call, 2);
	assert_int_equal(plan->work[5].next, PLAN_NONE);
	program_plan_free(plan);
}

static void whatif_refuses_what_makes_no_sense(void **state)
{
	static const double factors[] = { 0, -1, NAN, INFINITY };
	struct plan *plan;

	program_make(&program, 1);
	plan = plan_of_program();
	for (size_t i = 0; i < ARRAY_SIZE(factors); i++) {
		assert_int_equal(whatif_scale(plan, &all, factors[i]), -EINVAL);
		assert_int_equal(whatif_scale_calls(plan, &all, factors[i]), -EINVAL);
		assert_int_equal(whatif_scale_host(plan, factors[i]), -EINVAL);
		assert_int_equal(whatif_copy_bandwidth(plan, factors[i]), -EINVAL);
	}
	assert_int_equal(whatif_streams(plan, 0), -EINVAL);
	assert_int_equal(whatif_streams(plan, WHATIF_STREAMS_MAX + 1), -EINVAL);
	assert_int_equal(whatif_devices(plan, 0), -EINVAL);
	assert_int_equal(whatif_devices(plan, WHATIF_DEVICES_MAX + 1), -EINVAL);
	assert_int_equal(whatif_graph(plan, 0, 1, UINT64_MAX), -EINVAL);
	assert_int_equal(whatif_launch_latency(plan, UINT64_MAX), -EINVAL);
	program_plan_free(plan);
}

static int64_t change_any(struct plan *plan, uint64_t *seed)
{
	uint64_t name = program_random(seed, 4);
	struct whatif_match some = { match_name, &name };
	uint32_t count = 1 + (uint32_t)program_random(seed, 9);

	switch (program_random(seed, 10)) {
	case 0:
		return whatif_scale(plan, &some, 1e-9);
	case 1:
		return whatif_scale(plan, &all, 1e30);
	case 2:
		return whatif_drop(plan, &some);
	case 3:
		return whatif_launch_latency(plan, program_random(seed, 10000));
	case 4:
		return whatif_copy_bandwidth(plan, 0.1);
	case 5:
		return whatif_no_sync(plan);
	case 6:
		return whatif_devices(plan, count);
	case 7:
		return whatif_graph(plan, plan->start_ns, plan->end_ns, 1000);
	default:
		return whatif_streams(plan, count);
	}
}

/* What waits for what still does, and no stream's order is another one. */
static void assert_sound(const struct plan *plan, const struct plan_times *times)
{
	for (uint32_t i = 0; i < plan->work_count; i++) {
		const struct plan_work *work = &plan->work[i];

		assert_true(times->work_end_ns[i] >= times->work_start_ns[i]);
		if (work->call != PLAN_NONE)
			assert_true(times->work_start_ns[i] >= times->call_start_ns[work->call]);
		if (work->before != PLAN_NONE)
			assert_true(times->work_start_ns[i] >= times->work_end_ns[work->before]);
		for (uint32_t k = 0; k < work->edge_count; k++)
			assert_true(times->work_start_ns[i] >=
				    times->work_end_ns[plan->edge[work->edge + k].work]);
	}
	for (uint32_t i = 0; i < plan->call_count; i++)
		for (uint32_t k = 0;
		     plan->call[i].flags & PLAN_BLOCKS && k < plan->call[i].edge_count; k++)
			assert_true(times->call_end_ns[i] >=
				    times->work_end_ns[plan->edge[plan->call[i].edge + k].work]);
}

static void whatif_any_after_any_is_sound(void **state)
{
	for (uint64_t seed = 1; seed <= PROGRAMS * 3; seed++) {
		struct emulate_result result;
		struct plan *plan;
		uint64_t random = seed * 0x9e3779b97f4a7c15;

		program_make(&program, seed);
		plan = plan_of_program();
		for (int i = 0; i < 3; i++)
			assert_true(change_any(plan, &random) >= 0);
		assert_int_equal(emulate(plan, &result), 0);
		assert_sound(plan, result.times);
		plan_times_free(result.times);
		program_plan_free(plan);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(whatif_scale_tells_of_faster_kernels),
		cmocka_unit_test(whatif_copy_bandwidth_tells_of_faster_copies),
		cmocka_unit_test(whatif_scale_host_tells_of_slower_threads),
		cmocka_unit_test(whatif_copy_bandwidth_leaves_the_latency),
		cmocka_unit_test(whatif_drop_is_as_if_it_was_not_there),
		cmocka_unit_test(whatif_drop_of_waits_goes_on_at_once),
		cmocka_unit_test(whatif_launch_latency_tells_of_other_launches),
		cmocka_unit_test(whatif_launch_latency_tells_of_launches_on_their_way),
		cmocka_unit_test(whatif_no_sync_waits_only_at_the_end),
		cmocka_unit_test(whatif_streams_overlaps_groups_of_copies_and_kernels),
		cmocka_unit_test(whatif_streams_joins_streams),
		cmocka_unit_test(whatif_streams_keeps_what_events_ask_for),
		cmocka_unit_test(whatif_devices_do_not_share),
		cmocka_unit_test(whatif_graph_leaves_one_launch),
		cmocka_unit_test(whatif_graph_is_of_a_window),
		cmocka_unit_test(whatif_refuses_what_makes_no_sense),
		cmocka_unit_test(whatif_any_after_any_is_sound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
