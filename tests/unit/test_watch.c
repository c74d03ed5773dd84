/* test_watch: a simulated program that pays a known price is watched within its budget, and the
 * price found is the one it pays. */
#include "watch_fixture.h"

static void a_launch_bound_program_stays_within_its_budget(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct program program = launch_bound;
		struct watch_price price;
		uint64_t from_ns, paid_ns;

		program_start(&program, BUDGET, seed);
		program_run(&program, MINUTES(1));
		from_ns = program.now_ns;
		paid_ns = program.paid_ns;
		program_run(&program, MINUTES(10));
		price = watch_price(&program.watch);
		assert_int_equal(price.basis, WATCH_MEASURED);
		assert_true((double)(program.paid_ns - paid_ns) <
			    BUDGET * 1.1 * (double)(program.now_ns - from_ns));
		/* And not much less than it could be. */
		assert_true((double)(program.paid_ns - paid_ns) >
			    BUDGET * 0.5 * (double)(program.now_ns - from_ns));
		assert_true(fabs(price.whole - program_truth(&program)) < 0.02);
		assert_true(price.share < 0.1 && price.share > 0.02);
		assert_false(price.over);
	}
}

/* Calls that are always watched are part of the price, and windows get what they leave. */
static void cold_calls_count_against_the_budget(void **state)
{
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct program program = launch_bound;
		struct watch_price price;
		uint64_t from_ns, paid_ns;

		program.cold = 6;
		program_start(&program, BUDGET, seed);
		program_run(&program, MINUTES(1));
		from_ns = program.now_ns;
		paid_ns = program.paid_ns;
		program_run(&program, MINUTES(10));
		price = watch_price(&program.watch);
		assert_true(fabs(price.cold - 6 * 4000 / 4.2e6) < 0.002);
		assert_true((double)(program.paid_ns - paid_ns) <
			    BUDGET * 1.2 * (double)(program.now_ns - from_ns));
		assert_true(fabs(price.now - BUDGET) < BUDGET * 0.4);
		assert_false(price.over);
		program.cold = 20;
		program_run(&program, MINUTES(2));
		assert_true(watch_price(&program.watch).over);
	}
}

/* It makes few hot calls, and waits many times: what a hit costs is found with a wide interval, and
 * what it pays for the calls that are always watched is known no better. */
static void of_few_hot_calls_the_price_is_as_unsure(void **state)
{
	unsigned within = 0;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct program program = launch_bound;
		struct watch_price price;
		double true_price;

		program.work_ns = 400000;
		program.calls = 4;
		program.call_ns = 500;
		program.cold = 8;
		program.noise = 0.05;
		program_start(&program, BUDGET, seed);
		watch_measure(&program.watch);
		program_run(&program, MINUTES(1));
		price = watch_price(&program.watch);
		true_price = (program.cold + price.share * program.calls) * program.call_ns /
			     program.work_ns;
		assert_int_equal(price.basis, WATCH_MEASURED);
		assert_true(price.now_low <= price.now && price.now <= price.now_high);
		within += price.now_low <= true_price && true_price <= price.now_high;
	}
	assert_true(within >= 32);
}

/* A launch-bound program of the exact tier: CUPTI takes 30 ms whenever it comes or goes. */
static void what_switching_costs_is_part_of_the_price(void **state)
{
	double told = 0, true_price = 0;

	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct program program = launch_bound;
		uint64_t from_ns, paid_ns;

		program.exact = true;
		program.call_ns = 6000;
		program.switch_cost_ns = 30 * NS_PER_MS;
		program_start(&program, 0.03, seed);
		program_run(&program, MINUTES(1));
		from_ns = program.now_ns;
		paid_ns = program.paid_ns;
		program_run(&program, MINUTES(10));
		assert_true((double)(program.paid_ns - paid_ns) <
			    0.03 * 1.1 * (double)(program.now_ns - from_ns));
		assert_true((double)(program.paid_ns - paid_ns) >
			    0.03 * 0.6 * (double)(program.now_ns - from_ns));
		true_price += (double)(program.paid_ns - paid_ns) / 10 /
			      (double)(program.now_ns - from_ns - program.paid_ns + paid_ns);
		told += watch_price(&program.watch).now / 10;
	}
	assert_true(fabs(told - true_price) < 0.003);
}

/* Not by the turns of the measurement, of which half were watched. */
static void the_price_told_is_that_of_the_plan_at_once(void **state)
{
	struct program program = launch_bound;

	program.exact = true;
	program.call_ns = 6000;
	program_start(&program, 0.03, 3);
	while (watch_price(&program.watch).basis != WATCH_MEASURED)
		program_run(&program, TICK_NS);
	program_run(&program, TICK_NS);
	assert_true(watch_price(&program.watch).now < 0.035);
}

static void the_interval_has_the_true_price_as_often_as_it_says(void **state)
{
	int covered = 0;

	for (uint64_t seed = 1; seed <= 200; seed++) {
		struct program program = launch_bound;
		struct watch_price price;
		double truth = 0;
		uint64_t ticks;

		program.call_ns = 200 * (double)(seed % 20);
		program_start(&program, 0.0001, seed);
		watch_measure(&program.watch);
		/* The program drifts meanwhile. */
		for (ticks = 0; watch_is_measuring(&program.watch); ticks++) {
			program_run(&program, TICK_NS);
			truth += program_price(&program, program_work_ns(&program));
		}
		truth /= (double)ticks;
		price = watch_price(&program.watch);
		assert_int_equal(price.basis, WATCH_MEASURED);
		assert_int_equal(price.pairs, WATCH_MEASURE_PAIRS);
		covered += price.whole_low <= truth && price.whole_high >= truth;
	}
	assert_in_range(covered, 168, 200);
}

static void a_program_that_waits_for_the_gpu_is_watched_whole(void **state)
{
	struct program program = launch_bound;
	struct watch_price price;

	program.gpu_ns = 7000000;
	program_start(&program, BUDGET, 3);
	program_run(&program, MINUTES(5));
	price = watch_price(&program.watch);
	assert_int_equal(program.watch.phase, WATCH_WHOLE);
	assert_int_equal(price.basis, WATCH_MEASURED);
	assert_true(fabs(price.now) < 0.005);
	assert_true((double)program.seen > 0.98 * (double)program.made);
}

static void a_cheap_program_is_never_interrupted(void **state)
{
	struct program program = launch_bound;

	program.calls = 5;
	program_start(&program, BUDGET, 3);
	program_run(&program, MINUTES(5));
	assert_int_equal(program.seen, program.made);
	assert_int_equal(watch_price(&program.watch).basis, WATCH_ESTIMATED);
	assert_true(watch_price(&program.watch).now > 0.003);
}

/* The same hits are a larger part of the time that is left to it. */
static void who_waits_for_a_processor_pays_more(void **state)
{
	struct program program = launch_bound;
	struct watch_price price;

	program.calls = 5;
	program_start(&program, BUDGET, 3);
	program_run(&program, MINUTES(1));
	price = watch_price(&program.watch);
	watch_had(&program.watch, 0.25);
	assert_true(fabs(watch_price(&program.watch).now - 4 * price.now) < 1e-9);
	assert_int_equal(program.watch.phase, WATCH_WHOLE);
	program_run(&program, MINUTES(1));
	assert_int_equal(watch_price(&program.watch).basis, WATCH_MEASURED);
}

static void without_a_budget_nothing_is_interrupted(void **state)
{
	struct program program = launch_bound;

	program_start(&program, 0, 3);
	program_run(&program, MINUTES(2));
	assert_int_equal(program.seen, program.made);
	watch_measure(&program.watch);
	program_run(&program, MINUTES(2));
	assert_true(fabs(watch_price(&program.watch).whole - program_truth(&program)) < 0.02);
	assert_int_equal(program.watch.phase, WATCH_WHOLE);
}

static void without_cold_calls_the_estimate_holds(void **state)
{
	struct program program = launch_bound;
	struct watch_price price;

	program.silent = true;
	program_start(&program, BUDGET, 3);
	program_run(&program, MINUTES(10));
	price = watch_price(&program.watch);
	assert_int_equal(price.basis, WATCH_ESTIMATED);
	assert_true(price.share > 0.04 && price.share < 0.12);
}

/* Mean ratio of estimated to made calls, of a program whose calls come in bursts of so many steps.
 */
static double program_bias(uint64_t steps)
{
	double sum = 0;

	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct program program = launch_bound;
		uint64_t step = 0;

		program_start(&program, BUDGET, seed);
		program_run(&program, MINUTES(1));
		program.estimated = program.cycles_made = 0;
		while (program.now_ns < (uint64_t)(START_NS + MINUTES(10))) {
			program.calls = step++ % (3 * steps) < steps ? 400 : 100;
			program_step(&program);
		}
		sum += (double)program.estimated / (double)program.cycles_made;
	}
	return sum / 40;
}

/* Windows at random times see each phase of a program in proportion, also where some phases are
 * slowed down more than others. */
static void windows_do_not_go_in_step_with_the_program(void **state)
{
	double slow = program_bias(500), fast = program_bias(5);

	assert_true(fabs(slow - 1) < 0.02);
	assert_true(fabs(fast - 1) < 0.02);
}

static void a_budget_out_of_reach_is_told(void **state)
{
	struct program program = launch_bound;

	program_start(&program, 0.00001, 3);
	program_run(&program, MINUTES(5));
	assert_true(watch_price(&program.watch).over);
	assert_true(watch_price(&program.watch).now < 0.002);
}

/* Steps longer than a turn: turns get longer. */
static void slow_steps_are_measured_too(void **state)
{
	struct program program = launch_bound;
	struct watch_price price;

	program.work_ns = 150e6;
	program.calls = 10000;
	program_start(&program, BUDGET, 3);
	program_run(&program, MINUTES(20));
	price = watch_price(&program.watch);
	assert_int_equal(price.basis, WATCH_MEASURED);
	assert_true(fabs(price.whole - program_truth(&program)) < 0.05);
	assert_true(price.now < BUDGET * 1.4);
}

static void what_becomes_expensive_is_measured_again(void **state)
{
	struct program program = launch_bound;

	program.gpu_ns = 7000000;
	program_start(&program, BUDGET, 3);
	program_run(&program, MINUTES(2));
	assert_int_equal(program.watch.phase, WATCH_WHOLE);
	program.gpu_ns = 0;
	program_run(&program, MINUTES(1));
	program.paid_ns = 0;
	program_run(&program, MINUTES(5));
	assert_true((double)program.paid_ns < BUDGET * 1.2 * (double)MINUTES(5));
}

/* Whoever takes the budget away does not wait for the end of a gap. */
static void without_a_budget_any_longer_it_is_watched_at_once(void **state)
{
	struct watch_config none = { .budget = 0, .hit_ns = HIT_NS };
	struct program program = launch_bound;
	uint64_t seen, made;

	program_start(&program, 0.001, 3);
	program_run(&program, MINUTES(2));
	while (program.watch.phase != WATCH_GAP)
		program_run(&program, TICK_NS);
	watch_configure(&program.watch, &none);
	program.tick_ns = program.now_ns;
	program_run(&program, 4 * TICK_NS);
	seen = program.seen;
	made = program.made;
	program_run(&program, MINUTES(1));
	assert_int_equal(program.seen - seen, program.made - made);
	assert_true(watch_price(&program.watch).share == 1);
}

/* A budget that is back is kept by what was measured before. */
static void what_is_not_watched_yet_is_not_told_as_watched(void **state)
{
	struct watch_config none = { .budget = 0, .hit_ns = HIT_NS };
	struct program program = launch_bound;

	program_start(&program, BUDGET, 3);
	program_run(&program, MINUTES(2));
	while (program.watch.phase != WATCH_GAP)
		program_run(&program, TICK_NS);
	program.stuck = true;
	watch_configure(&program.watch, &none);
	program_run(&program, MINUTES(1));
	assert_int_equal(program.watch.phase, WATCH_WHOLE);
	assert_true(watch_price(&program.watch).share < 0.1);
	program.stuck = false;
	program_run(&program, MINUTES(1));
	assert_true(watch_price(&program.watch).share == 1);
}

static void a_budget_that_comes_back_is_kept_at_once(void **state)
{
	struct watch_config none = { .budget = 0, .hit_ns = HIT_NS };
	struct watch_config some = { .budget = BUDGET, .hit_ns = HIT_NS };
	struct program program = launch_bound;
	uint32_t pairs;

	program_start(&program, BUDGET, 3);
	program_run(&program, MINUTES(2));
	watch_configure(&program.watch, &none);
	program_run(&program, MINUTES(1));
	pairs = program.watch.pairs;
	watch_configure(&program.watch, &some);
	program_run(&program, 3 * NS_PER_S);
	assert_in_range(program.watch.pairs, pairs, pairs + 1);
	assert_true(program.watch.phase != WATCH_WHOLE && program.watch.share < 0.1);
	program.paid_ns = 0;
	program_run(&program, MINUTES(2));
	assert_true((double)program.paid_ns < BUDGET * 1.2 * (double)MINUTES(2));
	/* But it is, when it may have changed. */
	watch_configure(&program.watch, &none);
	program_run(&program, MINUTES(6));
	watch_configure(&program.watch, &some);
	program_run(&program, 2 * NS_PER_S);
	assert_true(program.watch.pairs < pairs);
}

static void a_larger_budget_does_not_wait_for_the_end_of_a_gap(void **state)
{
	struct watch_config large = { .budget = 0.05, .hit_ns = HIT_NS };
	struct program program = launch_bound;
	uint64_t since_ns;

	program_start(&program, 0.001, 3);
	program_run(&program, MINUTES(2));
	while (program.watch.phase != WATCH_GAP || program.watch.length_ns < 60 * NS_PER_S)
		program_run(&program, TICK_NS);
	since_ns = program.now_ns;
	watch_configure(&program.watch, &large);
	while (program.watch.phase != WATCH_WINDOW)
		program_run(&program, TICK_NS);
	assert_true(program.now_ns - since_ns < 30 * NS_PER_S);
}

/* In windows a price is minutes old. */
static void on_request_it_is_measured_afresh(void **state)
{
	struct program program = launch_bound;
	uint64_t since_ns;

	program_start(&program, BUDGET, 3);
	program_run(&program, MINUTES(5));
	program.call_ns /= 4;
	since_ns = program.now_ns;
	watch_measure(&program.watch);
	assert_true(watch_is_measuring(&program.watch));
	while (watch_is_measuring(&program.watch))
		program_run(&program, TICK_NS);
	assert_true(program.now_ns - since_ns < 20 * NS_PER_S);
	assert_int_equal(watch_price(&program.watch).pairs, WATCH_MEASURE_PAIRS);
	assert_true(watch_price(&program.watch).turned_ns > since_ns);
	assert_true(fabs(watch_price(&program.watch).whole - program_truth(&program)) < 0.03);
}

/* A process ends in the middle of a cycle: what it missed is counted all the same. */
static void the_last_cycle_counts(void **state)
{
	struct program program = launch_bound;
	struct watch_cycle cycle;
	uint64_t ends_ns, told;

	program_start(&program, BUDGET, 5);
	program_run(&program, MINUTES(2));
	watch_end(&program.watch, program.now_ns);
	for (ends_ns = told = 0; watch_take_cycle(&program.watch, &cycle); ends_ns = cycle.end_ns)
		told += cycle.hits + cycle.missed;
	assert_int_equal(ends_ns, program.now_ns);
	assert_true(fabs((double)told / (double)program.cycle_made - 1) < 0.2);
}

/* Nothing of the time before a window waits for its end. */
static void who_asks_in_a_window_is_told_what_it_missed_before(void **state)
{
	struct program program = launch_bound;
	struct watch_cycle cycle, last = { 0 };
	uint64_t since_ns, watched_ns = 0;
	struct watch ended;

	program_start(&program, BUDGET, 5);
	program_run(&program, MINUTES(2));
	while (program.watch.phase != WATCH_WINDOW || !program.watch.since_ns)
		program_run(&program, TICK_NS);
	while (watch_take_cycle(&program.watch, &cycle))
		;
	since_ns = program.watch.since_ns;
	watch_tell(&program.watch, since_ns + TICK_NS);
	assert_true(watch_take_cycle(&program.watch, &cycle));
	assert_int_equal(cycle.end_ns, since_ns);
	assert_true(cycle.missed > 0 && cycle.error2 > 0);
	/* How long the open window has lasted is reported once. */
	assert_true(watch_take_cycle(&program.watch, &last));
	assert_int_equal(last.opened_ns, since_ns);
	assert_int_equal(last.end_ns - last.start_ns, TICK_NS);
	assert_int_equal(last.watched_ns, TICK_NS);
	assert_int_equal(last.missed, 0);
	watch_tell(&program.watch, since_ns + TICK_NS);
	assert_false(watch_take_cycle(&program.watch, &cycle));
	ended = program.watch;
	watch_end(&ended, since_ns + 3 * TICK_NS);
	while (watch_take_cycle(&ended, &cycle))
		watched_ns += cycle.watched_ns;
	assert_int_equal(watched_ns, 2 * TICK_NS);
	assert_int_equal(ended.window_ns, 3 * TICK_NS);
	/* Nor while the probes come. */
	while (program.watch.phase != WATCH_GAP || !program.watch.since_ns)
		program_run(&program, TICK_NS);
	program.stuck = true;
	while (program.watch.phase != WATCH_WINDOW)
		program_run(&program, TICK_NS);
	watch_tell(&program.watch, program.now_ns);
	while (watch_take_cycle(&program.watch, &cycle))
		last = cycle;
	assert_int_equal(last.end_ns, program.now_ns);
}

/* What it does in windows by eight threads costs it an eighth of the time that their hits take: it
 * does not make eight times as many calls without. */
static void threads_share_what_their_hits_take(void **state)
{
	struct watch_config config = { .budget = BUDGET, .hit_ns = HIT_NS };
	uint64_t missed = 0, ns = START_NS;
	struct watch_cycle cycle;
	struct watch watch;

	watch_init(&watch, &config, 5);
	watch_threads(&watch, 8);
	watch_tick(&watch, ns, true);
	for (int i = 0; i < 100000; i++)
		watch_hit(&watch);
	ns += 250 * NS_PER_MS;
	assert_false(watch_tick(&watch, ns, true));
	watch_tick(&watch, ns + 1, false);
	watch_tell(&watch, ns + 250 * NS_PER_MS);
	while (watch_take_cycle(&watch, &cycle))
		missed += cycle.missed;
	assert_in_range(missed, 100000, 130000);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_launch_bound_program_stays_within_its_budget),
		cmocka_unit_test(cold_calls_count_against_the_budget),
		cmocka_unit_test(of_few_hot_calls_the_price_is_as_unsure),
		cmocka_unit_test(what_switching_costs_is_part_of_the_price),
		cmocka_unit_test(the_price_told_is_that_of_the_plan_at_once),
		cmocka_unit_test(the_interval_has_the_true_price_as_often_as_it_says),
		cmocka_unit_test(a_program_that_waits_for_the_gpu_is_watched_whole),
		cmocka_unit_test(a_cheap_program_is_never_interrupted),
		cmocka_unit_test(who_waits_for_a_processor_pays_more),
		cmocka_unit_test(without_a_budget_nothing_is_interrupted),
		cmocka_unit_test(without_cold_calls_the_estimate_holds),
		cmocka_unit_test(windows_do_not_go_in_step_with_the_program),
		cmocka_unit_test(a_budget_out_of_reach_is_told),
		cmocka_unit_test(slow_steps_are_measured_too),
		cmocka_unit_test(what_becomes_expensive_is_measured_again),
		cmocka_unit_test(without_a_budget_any_longer_it_is_watched_at_once),
		cmocka_unit_test(what_is_not_watched_yet_is_not_told_as_watched),
		cmocka_unit_test(a_budget_that_comes_back_is_kept_at_once),
		cmocka_unit_test(a_larger_budget_does_not_wait_for_the_end_of_a_gap),
		cmocka_unit_test(on_request_it_is_measured_afresh),
		cmocka_unit_test(the_last_cycle_counts),
		cmocka_unit_test(who_asks_in_a_window_is_told_what_it_missed_before),
		cmocka_unit_test(threads_share_what_their_hits_take),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
