/* test_watch_rest: windows of the exact tier that end with CUPTI switched off, or are ever longer,
 * or do not come any more: the budget holds, and what is missed is told. */
#include "watch_fixture.h"

#define EXACT_BUDGET 0.05

static struct program exact(void)
{
	struct program program = launch_bound;

	program.exact = true;
	program.call_ns = 6000;
	program.switch_cost_ns = 25 * NS_PER_MS;
	return program;
}

/* A part of the time that goes by in windows, lately. */
static double watched(struct program *program, uint64_t ns)
{
	uint64_t on_ns = program->on_ns, from_ns = program->now_ns;

	program_run(program, ns);
	return (double)(program->on_ns - on_ns) / (double)(program->now_ns - from_ns);
}

static void what_rest_costs_is_part_of_the_price_and_windows_have_less(void **state)
{
	struct program program = exact();
	double before, price;

	program_start(&program, EXACT_BUDGET, 3);
	program_run(&program, MINUTES(2));
	before = watched(&program, MINUTES(20));
	program.watch.config.rest = EXACT_BUDGET / 2;
	program_run(&program, MINUTES(2));
	assert_true(watched(&program, MINUTES(20)) < 0.7 * before);
	price = watch_price(&program.watch).now;
	assert_true(price > EXACT_BUDGET / 2 && price < 1.1 * EXACT_BUDGET);
	assert_true(watch_price(&program.watch).cold >= EXACT_BUDGET / 2);
}

static void longer_windows_are_as_much_rarer(void **state)
{
	struct program program = exact();
	double share;
	uint64_t windows = 0, opened_ns = 0;

	program_start(&program, EXACT_BUDGET, 3);
	program_run(&program, MINUTES(2));
	share = watched(&program, MINUTES(20));
	program.watch.config.turn_ns = 32 * NS_PER_S;
	program_run(&program, MINUTES(30));
	for (uint64_t until_ns = program.now_ns + MINUTES(120); program.now_ns < until_ns;) {
		program_run(&program, NS_PER_S);
		windows += program.watch.opened_ns != opened_ns;
		opened_ns = program.watch.opened_ns;
	}
	/* At 1 s each there would be 6 a minute. */
	assert_in_range(windows, 5, 60);
	assert_true(fabs(watched(&program, MINUTES(120)) - share) < 0.5 * share);
	assert_false(watch_price(&program.watch).over);
}

static void where_no_window_is_opened_any_more_that_is_told(void **state)
{
	struct program program = exact();
	uint64_t seen, made, estimated;

	program_start(&program, EXACT_BUDGET, 3);
	program_run(&program, MINUTES(5));
	program.watch.config.closed = true;
	program_run(&program, MINUTES(1));
	seen = program.seen;
	made = program.cycles_made;
	estimated = program.estimated;
	program_run(&program, MINUTES(10));
	assert_int_equal(program.seen, seen);
	/* By the last window. */
	made = program.cycles_made - made;
	estimated = program.estimated - estimated;
	assert_true(made > 100000);
	assert_true(fabs((double)estimated - (double)made) < 0.3 * (double)made);
	assert_true(program.now_ns - program.watch.last_ns < MINUTES(1));
	program.watch.config.closed = false;
	program_run(&program, MINUTES(5));
	assert_true(program.seen > seen);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_rest_costs_is_part_of_the_price_and_windows_have_less),
		cmocka_unit_test(longer_windows_are_as_much_rarer),
		cmocka_unit_test(where_no_window_is_opened_any_more_that_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
