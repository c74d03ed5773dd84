/* test_watch_first: a budget holds from the beginning, while the price is not known yet. */
#include "watch_fixture.h"

/* From the first second on, with the price of the first turns not yet known. */
static double program_first(struct program program, double budget, uint64_t ns)
{
	double paid = 0, all = 0;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct program one = program;

		program_start(&one, budget, seed);
		program_run(&one, ns);
		paid += (double)one.paid_ns;
		all += (double)(one.now_ns - START_NS) - (double)one.paid_ns;
	}
	return paid / all;
}

/* CUPTI takes 25 ms whenever it comes or goes. */
static struct program exact(void)
{
	struct program program = launch_bound;

	program.exact = true;
	program.call_ns = 6000;
	program.switch_cost_ns = 25 * NS_PER_MS;
	return program;
}

static void the_budget_holds_from_the_beginning(void **state)
{
	struct program dear = exact();

	assert_true(program_first(exact(), 0.03, 20 * NS_PER_S) < 0.033);
	assert_true(program_first(exact(), 0.03, MINUTES(1)) < 0.03);
	/* Also where a hit costs twice the estimate. */
	dear.call_ns = 6000 * 2;
	assert_true(program_first(dear, 0.03, MINUTES(1)) < 0.04);
	/* The turns of probes follow one another, and are paid back. */
	assert_true(program_first(launch_bound, BUDGET, 20 * NS_PER_S) < 2 * BUDGET);
	assert_true(program_first(launch_bound, BUDGET, 35 * NS_PER_S) < 1.05 * BUDGET);
}

/* Its calls were counted by the probes alone, before somebody attached to it with a budget. */
static void who_is_known_is_not_watched_whole_first(void **state)
{
	struct program program = exact();
	struct watch before;
	uint64_t made;

	program_start(&program, 0.03, 3);
	program_run(&program, MINUTES(2));
	before = program.watch;
	program_start(&program, 0.03, 3);
	watch_init_after(&program.watch, &before.config, &before);
	program_run(&program, 4 * TICK_NS);
	made = program.seen;
	assert_true(program.watch.phase != WATCH_WHOLE);
	program_run(&program, MINUTES(1));
	assert_true((double)program.paid_ns < 0.03 * (double)MINUTES(1));
	assert_true(program.seen > made);
	/* Of one that made few calls nobody wants windows. */
	before.rate = 1;
	program.calls = 1;
	watch_init_after(&program.watch, &before.config, &before);
	program_run(&program, MINUTES(1));
	assert_int_equal(program.watch.phase, WATCH_WHOLE);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_budget_holds_from_the_beginning),
		cmocka_unit_test(who_is_known_is_not_watched_whole_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
