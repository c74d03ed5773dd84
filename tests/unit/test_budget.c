/* test_budget: less and less is recorded until the bound is kept, and more again when it may be. */
#include "cupti_fixture.h"

#include <pthread.h>

#include "inject/budget.h"
#include "inject/launcher.h"

#define WANTED	  TS_RECORDS_DEFAULT
#define LIMIT	  30000
#define SECOND_NS 1000000000ull

static int setup(void **state)
{
	put_reset();
	launcher_forget_all();
	return 0;
}

static void without_a_bound_nothing_is_left_out(void **state)
{
	struct budget_rule rule = { .limit_ppm = 0 };

	for (int i = 0; i < 100; i++)
		assert_false(budget_rule_turn(&rule, WANTED, 1000000, 1));
	assert_int_equal(budget_left_out(&rule, WANTED, 0), 0);
}

static void over_the_bound_twice_leads_a_step_down(void **state)
{
	struct budget_rule rule = { .limit_ppm = LIMIT };
	uint32_t before = 0;

	assert_false(budget_rule_turn(&rule, WANTED, LIMIT + 1, 1));
	assert_false(budget_rule_turn(&rule, WANTED, LIMIT - 1, 1));
	assert_false(budget_rule_turn(&rule, WANTED, LIMIT + 1, 1));
	for (int step = 1; step <= 3; step++) {
		uint32_t left_out;

		while (!budget_rule_turn(&rule, WANTED, LIMIT + 1, 1))
			;
		left_out = budget_left_out(&rule, WANTED, 0);
		assert_int_equal(left_out & before, before);
		assert_int_not_equal(left_out, before);
		assert_false(left_out & TS_RECORD_KERNELS);
		before = left_out;
	}
	assert_true(before & TS_RECORD_CALLS);
	assert_true(before & TS_RECORD_COPIES);
	assert_false(before & ~(uint32_t)WANTED);
}

static void in_the_last_steps_kernels_are_recorded_for_a_part_of_the_time(void **state)
{
	struct budget_rule rule = { .limit_ppm = LIMIT };
	uint32_t windows, out = 0;

	while (budget_rule_windows(&rule) == 1)
		budget_rule_turn(&rule, WANTED, LIMIT + 1, 1);
	windows = budget_rule_windows(&rule);
	for (uint32_t i = 0; i < 1000; i++)
		out += !!(budget_left_out(&rule, WANTED, i * windows * SECOND_NS / 2000) &
			  TS_RECORD_KERNELS);
	assert_in_range(out, 490, 510);
	for (int i = 0; i < 100; i++)
		budget_rule_turn(&rule, WANTED, LIMIT + 1, windows);
	for (uint32_t i = out = 0; i < 1000; i++)
		out += !!(budget_left_out(&rule, WANTED, i * windows * SECOND_NS / 2000) &
			  TS_RECORD_KERNELS);
	assert_in_range(out, 940, 960);
}

static void under_half_of_it_for_long_leads_back_up(void **state)
{
	struct budget_rule rule = { .limit_ppm = LIMIT };
	int turns = 1;

	while (!budget_rule_turn(&rule, WANTED, LIMIT + 1, 1))
		;
	for (int i = 0; i < 100; i++)
		assert_false(budget_rule_turn(&rule, WANTED, LIMIT * 3 / 4, 1));
	while (!budget_rule_turn(&rule, WANTED, LIMIT / 3, 1))
		turns++;
	assert_int_equal(turns, 20);
	assert_int_equal(budget_left_out(&rule, WANTED, 0), 0);
}

static void steps_that_change_nothing_are_passed_over(void **state)
{
	const uint32_t wanted = TS_RECORD_KERNELS | TS_RECORD_CALLS;
	struct budget_rule rule = { .limit_ppm = LIMIT };

	while (!budget_rule_turn(&rule, wanted, LIMIT + 1, 1))
		;
	assert_int_equal(budget_left_out(&rule, wanted, 0), TS_RECORD_CALLS);
}

static void each_half_second_says_what_was_spent(void **state)
{
	struct launcher *launcher = launcher_note(thread_id());

	budget_set(SECOND_NS, 0, WANTED);
	launcher_charge(launcher, 5000000);
	budget_tick(SECOND_NS + SECOND_NS / 4);
	assert_int_equal(put_count, 0);
	budget_tick(SECOND_NS + SECOND_NS / 2);
	assert_int_equal(put_count, 1);
	assert_int_equal(put[0].event.kind, TS_EVENT_COST);
	assert_int_equal(put[0].event.start_ns, SECOND_NS);
	assert_int_equal(put[0].event.end_ns, SECOND_NS + SECOND_NS / 2);
	assert_int_equal(put[0].event.cost.busy_ns, 5000000);
	assert_int_equal(put[0].event.cost.busiest_ppm, 10000);
	budget_tick(2 * SECOND_NS);
	assert_int_equal(put[1].event.cost.busy_ns, 0);
}

static void thread_that_pays_too_much_has_its_records_lowered(void **state)
{
	struct launcher *launcher = launcher_note(thread_id());
	uint64_t now_ns = SECOND_NS;

	budget_set(now_ns, LIMIT, WANTED);
	for (int i = 0; i < 2; i++) {
		launcher_charge(launcher, 50000000);
		now_ns += SECOND_NS / 2;
		budget_tick(now_ns);
	}
	assert_int_not_equal(budget_tick(now_ns), 0);
}

static void *note(void *data)
{
	*(struct launcher **)data = launcher_note(thread_id());
	return NULL;
}

static void threads_are_told_apart_and_forgotten_when_gone(void **state)
{
	struct launcher *launcher = launcher_note(thread_id()), *gone;
	pthread_t thread;
	uint64_t most_ns;
	uint32_t tid;

	assert_ptr_equal(launcher_note(thread_id()), launcher);
	assert_ptr_equal(launcher_find(thread_id()), launcher);
	assert_int_equal(pthread_create(&thread, NULL, note, &gone), 0);
	pthread_join(thread, NULL);
	assert_ptr_not_equal(gone, launcher);
	tid = gone->tid;
	wait_until_gone(tid);
	launcher_charge(gone, 3);
	launcher_charge(launcher, 5);
	assert_int_equal(launcher_costs(&most_ns), 8);
	assert_int_equal(most_ns, 5);
	launcher_costs(&most_ns);
	assert_null(launcher_find(tid));
	assert_ptr_equal(launcher_find(thread_id()), launcher);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(without_a_bound_nothing_is_left_out, setup),
		cmocka_unit_test_setup(over_the_bound_twice_leads_a_step_down, setup),
		cmocka_unit_test_setup(
			in_the_last_steps_kernels_are_recorded_for_a_part_of_the_time, setup),
		cmocka_unit_test_setup(under_half_of_it_for_long_leads_back_up, setup),
		cmocka_unit_test_setup(steps_that_change_nothing_are_passed_over, setup),
		cmocka_unit_test_setup(each_half_second_says_what_was_spent, setup),
		cmocka_unit_test_setup(thread_that_pays_too_much_has_its_records_lowered, setup),
		cmocka_unit_test_setup(threads_are_told_apart_and_forgotten_when_gone, setup),
	};

	return cmocka_run_group_tests_name("budget", tests, NULL, NULL);
}
