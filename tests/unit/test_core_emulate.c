/* The emulator: what is not changed comes out to the nanosecond, and engines have room for so
 * much. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "core/base/array.h"
#include "program_fixture.h"

#define PROGRAMS 400

static struct program program;

/* Of the program, which may have changed since the plan was made. */
static uint64_t machine_says(void)
{
	struct machine *m = machine_run(&program);
	uint64_t ns = machine_makespan_ns(m);

	free(m);
	return ns;
}

static struct plan *plan_of_program(void)
{
	struct machine *m = machine_run(&program);
	struct plan *plan = program_plan(m);

	free(m);
	return plan;
}

static void assert_as_recorded(const struct plan *plan)
{
	struct emulate_result result;
	struct emulate_error error;

	assert_int_equal(emulate(plan, &result), 0);
	for (uint32_t i = 0; i < plan->call_count; i++) {
		assert_int_equal(result.times->call_start_ns[i], plan->call[i].start_ns);
		assert_int_equal(result.times->call_end_ns[i], plan->call[i].end_ns);
	}
	for (uint32_t i = 0; i < plan->work_count; i++) {
		assert_int_equal(result.times->work_start_ns[i], plan->work[i].start_ns);
		assert_int_equal(result.times->work_end_ns[i], plan->work[i].end_ns);
	}
	assert_int_equal(emulate_compare(plan, result.times, &error), 0);
	assert_int_equal(error.max_ns, 0);
	assert_int_equal(error.disorder, 0);
	assert_int_equal(error.recorded_ns, error.emulated_ns);
	plan_times_free(result.times);
}

static void emulate_gives_random_programs_to_the_nanosecond(void **state)
{
	for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
		struct plan *plan;

		program_make(&program, seed);
		plan = plan_of_program();
		assert_as_recorded(plan);
		program_plan_free(plan);
	}
}

/* Delays that no machine would have: what is recorded is reproduced all the same. */
static void emulate_gives_jittered_programs_to_the_nanosecond(void **state)
{
	for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
		struct plan *plan;
		uint64_t random = seed;

		program_make(&program, seed);
		plan = plan_of_program();
		for (uint32_t i = 0; i < plan->work_count; i++)
			if (plan->work[i].engine != PLAN_ENGINE_NONE) {
				/* Later, and what waits for it starts as much later. */
				uint64_t room = plan->work[i].end_ns - plan->work[i].start_ns;

				plan->work[i].start_ns += program_random(&random, room);
			}
		plan_attribute(plan);
		assert_as_recorded(plan);
		program_plan_free(plan);
	}
}

/* A changed plan whose times are known: nothing is changed in it. Who had to wait for room, and for
 * whom, is read from the times, so that now and then the order is another one. */
static void emulate_of_a_changed_plan_keeps_to_the_machine(void **state)
{
	uint64_t exact = 0;

	for (uint64_t seed = 0; seed < PROGRAMS; seed++) {
		struct emulate_result result;
		struct plan *plan;
		uint64_t makespan_ns;

		program_make(&program, seed);
		plan = plan_of_program();
		makespan_ns = plan->end_ns - plan->start_ns;
		plan->changed = true;
		assert_int_equal(emulate(plan, &result), 0);
		exact += result.makespan_ns == makespan_ns;
		assert_in_range(result.makespan_ns, makespan_ns * 97 / 100,
				makespan_ns * 103 / 100);
		plan_times_free(result.times);
		program_plan_free(plan);
	}
	assert_true(exact > PROGRAMS * 95 / 100);
}

static uint64_t makespan_of(const struct plan *plan)
{
	struct emulate_result result;

	assert_int_equal(emulate(plan, &result), 0);
	plan_times_free(result.times);
	return result.makespan_ns;
}

/* Two kernels that were one after the other on one stream are put on two. */
static uint64_t apart(uint32_t blocks)
{
	struct plan *plan;
	uint64_t ns;

	program_begin(&program);
	for (int i = 0; i < 2; i++)
		program_add(&program, 0,
			    (struct step){ .kind = KERNEL, .ns = 100000, .blocks = blocks });
	plan = plan_of_program();
	assert_int_equal(makespan_of(plan), 4096 + 100000 + 1024 + 100000);
	plan->work[1].before = PLAN_NONE;
	plan->work[1].stream = 1;
	plan->changed = true;
	ns = makespan_of(plan);
	program_plan_free(plan);
	return ns;
}

static void emulate_runs_kernels_beside_each_other_only_where_both_fit(void **state)
{
	/* Four multiprocessors hold eight such blocks. */
	assert_int_equal(apart(4), 1024 + 256 + 4096 + 100000);
	assert_int_equal(apart(5), 4096 + 100000 + 1024 + 100000);
	assert_int_equal(apart(4000), 4096 + 100000 + 1024 + 100000);
}

static void emulate_knows_what_a_kernel_takes(void **state)
{
	static const struct {
		uint32_t threads, registers, shared, statics;
		uint32_t held; /* blocks of a multiprocessor */
	} rows[] = {
		{ 1024, 0, 0, 0, 2 },	    { 256, 0, 0, 0, 8 },	   { 32, 0, 0, 0, 32 },
		{ 256, 64, 0, 0, 4 },	    { 256, 255, 0, 0, 1 },	   { 33, 0, 0, 0, 32 },
		{ 128, 0, 100000, 0, 2 },   { 128, 0, 60000, 57000, 1 },   { 128, 0, 232448, 0, 1 },
		{ 1, 0, UINT32_MAX, 0, 1 }, { 1024, UINT32_MAX, 0, 0, 1 },
	};
	struct plan *plan;

	program_begin(&program);
	program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 1000, .blocks = 1 });
	plan = plan_of_program();
	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		plan->op[0].block[0] = rows[i].threads;
		plan->op[0].registers = rows[i].registers;
		plan->op[0].shared_bytes = rows[i].shared;
		plan->op[0].static_bytes = rows[i].statics;
		plan_attribute(plan);
		assert_int_equal(plan->work[0].share, PLAN_SHARE_ALL / (4 * rows[i].held));
	}
	/* Where it is not known, as many as ever ran at once. */
	plan->device[0].multiprocessors = 0;
	plan_attribute(plan);
	assert_int_equal(plan->work[0].share, PLAN_SHARE_ALL);
	program_plan_free(plan);
}

static void emulate_copies_one_after_the_other_in_each_direction(void **state)
{
	struct plan *plan;

	program_begin(&program);
	program_add(&program, 0, (struct step){ .kind = COPY_IN, .ns = 50000 });
	program_add(&program, 0, (struct step){ .kind = COPY_IN, .ns = 50000, .stream = 1 });
	program_add(&program, 0, (struct step){ .kind = COPY_OUT, .ns = 50000, .stream = 2 });
	plan = plan_of_program();
	assert_int_equal(plan->work[1].behind, 0);
	assert_int_equal(plan->work[1].bound, PLAN_BOUND_ENGINE);
	assert_int_equal(plan->work[1].behind_ns, 1024);
	assert_int_equal(plan->work[2].behind, PLAN_NONE);
	assert_int_equal(plan->device[0].width[PLAN_ENGINE_HTOD], 1);
	/* The first is gone: the second starts when its launch lets it. */
	plan->work[0].flags |= PLAN_DROPPED;
	plan->changed = true;
	assert_int_equal(makespan_of(plan), (1024 + 256) * 2 + 4096 + 50000);
	program_plan_free(plan);
}

static void emulate_wakes_who_waits(void **state)
{
	struct plan *plan;

	program_begin(&program);
	program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 50000 });
	program_add(&program, 0, (struct step){ .kind = SYNC_STREAM });
	program_add(&program, 0, (struct step){ .kind = SYNC_STREAM });
	plan = plan_of_program();
	assert_int_equal(makespan_of(plan), 4096 + 50000 + 2048 + 256 + 1024);
	/* Now there is nothing to wait for. */
	plan->work[0].duration_ns = 0;
	plan->work[0].launch_ns = 0;
	plan->changed = true;
	assert_int_equal(makespan_of(plan), 1024 + 256 + 1024 + 256 + 1024);
	program_plan_free(plan);
}

static void emulate_refuses_circles(void **state)
{
	struct emulate_result result;
	struct plan *plan;

	program_begin(&program);
	program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 1000 });
	program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 1000 });
	plan = plan_of_program();
	plan->work[0].before = 1;
	assert_int_equal(emulate(plan, &result), -ELOOP);
	plan->work[0].before = PLAN_NONE;
	plan->call[0].before = 0;
	assert_int_equal(emulate(plan, &result), -ELOOP);
	program_plan_free(plan);
}

static void emulate_of_nothing_is_nothing(void **state)
{
	struct emulate_result result;
	struct emulate_error error;
	struct emulate_busy busy;
	struct op *op;
	size_t count;
	struct plan *plan;

	program_begin(&program);
	plan = plan_of_program();
	assert_int_equal(emulate(plan, &result), 0);
	assert_int_equal(result.makespan_ns, 0);
	assert_int_equal(emulate_compare(plan, result.times, &error), 0);
	assert_int_equal(emulate_busy(plan, result.times, &busy), 0);
	assert_int_equal(busy.any_ns, 0);
	assert_int_equal(emulate_ops(plan, result.times, &op, &count), 0);
	assert_int_equal(count, 0);
	free(op);
	plan_times_free(result.times);
	program_plan_free(plan);
}

static void emulate_says_how_busy_devices_are(void **state)
{
	struct emulate_result result;
	struct emulate_busy busy;
	struct plan *plan;

	program_begin(&program);
	program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 50000 });
	program_add(&program, 0, (struct step){ .kind = COPY_IN, .ns = 60000, .stream = 1 });
	plan = plan_of_program();
	assert_int_equal(emulate(plan, &result), 0);
	assert_int_equal(emulate_busy(plan, result.times, &busy), 0);
	assert_int_equal(busy.any_ns, 1024 + 256 + 60000);
	assert_int_equal(busy.device_ns[0], busy.any_ns);
	assert_int_equal(busy.engine_ns[PLAN_ENGINE_COMPUTE], 50000);
	assert_int_equal(busy.engine_ns[PLAN_ENGINE_HTOD], 60000);
	plan_times_free(result.times);
	program_plan_free(plan);
	assert_int_equal(machine_says(), 1024 + 256 + 4096 + 60000);
}

static void emulate_gives_ops_with_their_new_times(void **state)
{
	struct emulate_result result;
	struct op *op;
	size_t count;
	struct plan *plan;

	program_begin(&program);
	program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 50000 });
	program_add(&program, 0, (struct step){ .kind = KERNEL, .ns = 50000 });
	program_add(&program, 0, (struct step){ .kind = SYNC_STREAM });
	plan = plan_of_program();
	for (int i = 0; i < 2; i++)
		plan->op[i].seen_ns = 1;
	plan->work[0].flags |= PLAN_DROPPED;
	plan->call[0].flags |= PLAN_DROPPED;
	plan->changed = true;
	assert_int_equal(emulate(plan, &result), 0);
	assert_int_equal(emulate_ops(plan, result.times, &op, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(op[0].kind, OP_LAUNCH);
	assert_int_equal(op[0].start_ns, result.times->call_start_ns[1]);
	assert_int_equal(op[0].gpu_start_ns, result.times->work_start_ns[1]);
	assert_int_equal(op[0].gpu_end_ns, op[0].gpu_start_ns + 50000);
	assert_int_equal(op[0].seen_ns, result.times->call_end_ns[2]);
	assert_int_equal(op[1].end_ns, result.times->call_end_ns[2]);
	free(op);
	plan_times_free(result.times);
	program_plan_free(plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(emulate_gives_random_programs_to_the_nanosecond),
		cmocka_unit_test(emulate_gives_jittered_programs_to_the_nanosecond),
		cmocka_unit_test(emulate_of_a_changed_plan_keeps_to_the_machine),
		cmocka_unit_test(emulate_runs_kernels_beside_each_other_only_where_both_fit),
		cmocka_unit_test(emulate_knows_what_a_kernel_takes),
		cmocka_unit_test(emulate_copies_one_after_the_other_in_each_direction),
		cmocka_unit_test(emulate_wakes_who_waits),
		cmocka_unit_test(emulate_refuses_circles),
		cmocka_unit_test(emulate_of_nothing_is_nothing),
		cmocka_unit_test(emulate_says_how_busy_devices_are),
		cmocka_unit_test(emulate_gives_ops_with_their_new_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
