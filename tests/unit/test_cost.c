/* test_cost: what stacks cost a process lately, and what other settings would make of its price. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "client/cost/cost.h"
#include "core/base/time.h"
#include "core/price/hit.h"
#include "core/price/share.h"
#include "core/price/walks.h"
#include "inject/walk_timer.h"
#include "proto/event.h"

static void walks_of_the_last_minute_count_at_their_price(void **state)
{
	struct walks walks = { 0 };
	struct walks_price price;

	price = walks_price(&walks);
	assert_int_equal(price.each_ns, 0);
	walks_tick(&walks, NS_PER_S);
	for (uint64_t s = 2; s < 400; s++) {
		walks_add(&walks, WALK_SAMPLED, 20, 40000);
		walks_add(&walks, WALK_ALWAYS, 5, 20000);
		walks_tick(&walks, s * NS_PER_S);
	}
	price = walks_price(&walks);
	assert_float_equal(price.rate, 25, 0.5);
	assert_float_equal(price.cost, 60e-6, 1e-6);
	assert_float_equal(price.always, 20e-6, 1e-6);
	assert_in_range(price.each_ns, 2390, 2410);
	walks_tick(&walks, 2000 * NS_PER_S);
	assert_true(walks_price(&walks).rate < 0.1);
}

/* Ten calls of eleven are walked by the library, and one of a hundred goes through its stub. */
static void walks_of_the_library_count_by_the_calls_that_it_reports(void **state)
{
	struct walks walks = { 0 };
	struct walks_price price;

	assert_int_equal(walks_call_ns(&walks, 165, 1000), 0);
	assert_float_equal(walks_price_inside(&walks, 1000, 165).rate, 0, 1e-9);
	walks_tick(&walks, NS_PER_S);
	for (int i = 0; i < 1100; i++)
		walks_call(&walks, i % 11 != 0, i % 100 == 0);
	walks_add(&walks, WALK_SAMPLED, 11, 11 * 2000);
	walks_tick(&walks, 5 * NS_PER_S);
	price = walks_price_inside(&walks, 22000, 165);
	assert_int_equal(price.each_ns, 165);
	assert_float_equal(price.rate, 20000, 1);
	assert_float_equal(price.cost, 0.0033, 1e-6);
	assert_float_equal(price.always, 0, 1e-9);
	assert_in_range(walks_price(&walks).each_ns, 1999, 2000);
	assert_in_range(walks_call_ns(&walks, 165, 1000), 150 + 30 - 1, 150 + 30);
	/* It has not said what they take, or takes a sample only. */
	assert_in_range(walks_call_ns(&walks, 0, 1000), 30 - 1, 30);
}

static void a_library_is_believed_within_bounds(void **state)
{
	const uint64_t most_ns = 50000;
	struct walk_time time = { 0 };

	assert_int_equal(walk_time_ns(&time), 0);
	walk_time_add(&time, 0, 1000, most_ns);
	walk_time_add(&time, 1, UINT64_MAX, most_ns);
	walk_time_add(&time, UINT32_MAX, UINT64_MAX, most_ns);
	walk_time_add(&time, 10, 10 * (most_ns + 1), most_ns);
	assert_int_equal(walk_time_ns(&time), 0);
	walk_time_add(&time, 10, 1650, most_ns);
	assert_int_equal(walk_time_ns(&time), 165);
	for (int i = 0; i < 100; i++)
		walk_time_add(&time, UINT32_MAX, UINT32_MAX * most_ns, most_ns);
	assert_int_equal(walk_time_ns(&time), most_ns);
	for (int i = 0; i < 1000; i++)
		walk_time_add(&time, 100, 0, most_ns);
	assert_int_equal(walk_time_ns(&time), 1);
}

static void one_walk_of_many_is_timed_without_the_look_at_the_clock(void **state)
{
	const uint64_t one = 1ull << WALK_TIMER_BITS;
	struct walk_timer timer[2] = { { 0 } };
	int taken = 0;

	assert_int_equal(sizeof(timer[0]), 64);
	for (int i = 0; i < 10 * WALK_TIMER_OF; i++)
		taken += walk_timer_takes(&timer[0]);
	assert_int_equal(taken, 10);
	walk_timer_add(&timer[0], 200, 30);
	assert_int_equal(timer[0].total, one + 170);
	walk_timer_add(&timer[0], 20, 30);
	assert_int_equal(timer[0].total, 2 * one + 170);
	/* Somebody else ran meanwhile. */
	walk_timer_add(&timer[0], TS_LIGHT_WALK_MAX_NS + 1, 30);
	walk_timer_add(&timer[0], 200, TS_LIGHT_WALK_MAX_NS + 1);
	assert_int_equal(timer[0].total, 2 * one + 170);
}

static const struct foreseen *foresee(const struct cost *cost, const char *setting)
{
	static struct foreseen foreseen[FORESEEN_MAX];
	size_t count = cost_foresee(cost, foreseen);

	for (size_t i = 0; i < count; i++)
		if (strcmp(foreseen[i].setting, setting) == 0)
			return &foreseen[i];
	return NULL;
}

/* 50,000 calls/s, watched a fifth of the time. */
static struct cost probes(void)
{
	return (struct cost){
		.budget = 20000,
		.count = 2,
		.part = { { .name = "probes",
			    .cost = { 20000, 15000, 25000, true },
			    .whole = { 92000, 67000, 117000, true },
			    .watched = 200000,
			    .cold = 2000,
			    .calls_per_s = 50000 },
			  { .name = "stacks",
			    .cost = { .middle = 60 },
			    .cold = 20,
			    .calls_per_s = 25,
			    .hit_ns = 2400 } },
	};
}

static void a_program_in_the_probe_tier_has_stacks_and_light_mode(void **state)
{
	struct cost cost = probes();
	const struct foreseen *then = foresee(&cost, "launch_stacks = 0");

	assert_non_null(then);
	assert_int_equal(then->then.middle, 20000 - 40);
	assert_int_equal(then->rate, 25);
	then = foresee(&cost, "tsctl attach --light");
	assert_non_null(then);
	/* Cold calls stay as they are; 50,000 calls at 100 ns are 0.5 %. */
	assert_int_equal(then->then.middle, 2000 + 5000);
	assert_int_equal(then->watched, 1000000);
	assert_non_null(foresee(&cost, "none"));
	assert_non_null(foresee(&cost, "1%"));
	assert_null(foresee(&cost, "2%"));
	assert_null(foresee(&cost, "tsctl attach --stacks none"));
	assert_null(foresee(&cost, "tsctl attach --records -kernels"));
}

/* In light mode, 20,000 calls/s at 100 ns with a stack at 165 ns each; the kernel walks few. */
static void a_program_whose_library_walks_has_fewer_stacks(void **state)
{
	struct cost cost = {
		.count = 3,
		.part = { { .name = "probes",
			    .cost = { .middle = 5500 },
			    .watched = 1000000,
			    .cold = 200,
			    .calls_per_s = 20000,
			    .hit_ns = 260,
			    .inside = true },
			  { .name = "stacks",
			    .cost = { .middle = 40 },
			    .cold = 20,
			    .calls_per_s = 20,
			    .hit_ns = 2000 },
			  { .name = "stacks-inside",
			    .cost = { .middle = 3300 },
			    .calls_per_s = 20000,
			    .hit_ns = 165 } },
	};
	const struct foreseen *then = foresee(&cost, "tsctl attach --light --stacks none");

	assert_true(cost_part_adds(&cost.part[0]));
	assert_false(cost_part_adds(&cost.part[1]));
	assert_false(cost_part_adds(&cost.part[2]));
	assert_non_null(then);
	assert_int_equal(then->then.middle, 5500 - 3300 - 20);
	assert_int_equal(then->rate, 20000);
	assert_int_equal(then->each_high_ns, 165);
	then = foresee(&cost, "tsctl attach --light --stacks sampled");
	assert_non_null(then);
	assert_int_equal(then->then.middle, 5500 - 3300 - 20 + 40);
	assert_null(foresee(&cost, "tsctl attach --light"));
	assert_null(foresee(&cost, "launch_stacks = 0"));
	/* Beside CUPTI's records; their graphs do not pay for stacks. */
	strcpy(cost.part[0].name, "exact");
	cost.part[0].cost.middle = 180000;
	cost.part[0].hit_ns = HIT_EXACT_NS + 165 + 2;
	cost.part[0].records = TS_RECORDS_DEFAULT;
	assert_int_equal(foresee(&cost, "tsctl attach --stacks none")->then.middle, 180000 - 3320);
	assert_non_null(foresee(&cost, "tsctl attach --stacks sampled"));
	assert_int_equal(foresee(&cost, "tsctl attach --records -kernels")->each_high_ns, 1800);
}

static void the_budget_of_the_settings_is_offered_by_its_name(void **state)
{
	struct cost cost = probes();
	const struct foreseen *then;

	assert_null(foresee(&cost, "default"));
	cost.setting_known = true;
	cost.setting = 10000;
	then = foresee(&cost, "default");
	assert_non_null(then);
	assert_int_equal(then->budget, 10000);
	assert_in_range(then->then.middle, 2000, 10000);
	assert_null(foresee(&cost, "1%"));
	/* One that it never reaches, or none. */
	cost.setting = 200000;
	assert_in_range(foresee(&cost, "default")->then.middle, 91999, 92000);
	cost.setting = 0;
	assert_int_equal(foresee(&cost, "default")->watched, 1000000);
	assert_null(foresee(&cost, "none"));
	/* Cold calls alone cost more. */
	cost.setting = 1000;
	assert_int_equal(foresee(&cost, "default")->watched, 10000);
	cost.setting = cost.budget;
	assert_null(foresee(&cost, "default"));
}

static void nobody_saves_more_than_he_pays(void **state)
{
	struct cost cost = probes();
	struct cost_part *part = &cost.part[0];

	part->cost = (struct cost_share){ 2010, -3000, 5000, true };
	assert_int_equal(foresee(&cost, "launch_stacks = 0")->then.middle, 2000);
	assert_null(foresee(&cost, "tsctl attach --light"));
	part->cost.middle = 1000;
	assert_null(foresee(&cost, "launch_stacks = 0"));
}

static void the_exact_tier_has_kinds_of_records_and_a_budget(void **state)
{
	struct cost cost = probes();
	struct cost_part *part = &cost.part[0];
	const struct foreseen *then;

	strcpy(part->name, "exact");
	cost.budget = 0;
	part->watched = 1000000;
	part->calls_per_s = 10000;
	part->cost.middle = 80000;
	part->records = TS_RECORDS_DEFAULT;
	assert_null(foresee(&cost, "tsctl attach --records -syncs"));
	assert_null(foresee(&cost, "tsctl attach --light"));
	assert_null(foresee(&cost, "tsctl attach --stacks sampled"));
	assert_int_equal(foresee(&cost, "tsctl attach --stacks none")->then.middle, 80000 - 40);
	assert_int_equal(foresee(&cost, "tsctl attach --budget 3%")->then.middle, 30000);
	/* 10,000 a second at 0.8 to 1.8 us. */
	assert_int_equal(foresee(&cost, "tsctl attach --records -kernels")->then.middle,
			 80000 - 13000);
	/* Some of them launch graphs: 1.5 us a call for records of their parts. */
	part->hit_ns = HIT_EXACT_NS + 1500;
	then = foresee(&cost, "tsctl attach --records -kernels");
	assert_int_equal(then->then.middle, 80000 - 28000);
	assert_int_equal(then->each_low_ns, 2300);
	assert_int_equal(then->each_high_ns, 3300);
	part->hit_ns = HIT_EXACT_NS - 1500; /* with calls reported from inside */
	assert_int_equal(foresee(&cost, "tsctl attach --records -kernels")->then.middle,
			 80000 - 13000);
	part->records |= TS_RECORD_SYNCS;
	assert_int_equal(foresee(&cost, "tsctl attach --records -syncs")->then.middle,
			 80000 - 15000);
	/* All its calls have stacks. */
	cost.part[1].calls_per_s = 10000;
	cost.part[1].cost.middle = 24020;
	assert_int_equal(foresee(&cost, "tsctl attach --stacks sampled")->then.middle,
			 80000 - 24000 + 48);
}

/* CUPTI comes and goes with each window: a fifth of it here. */
static void windows_of_the_exact_tier_cost_their_begin_and_end_too(void **state)
{
	struct cost cost = probes();
	struct cost_part *part = &cost.part[0];
	double whole = share_of_price(0.09), budget = share_of_price(0.008);
	const struct foreseen *then;

	strcpy(part->name, "exact");
	part->cost.middle = 2000 + (int64_t)(share_price(0.09, 0.2, 0.1) * 1e6);
	part->watched = 100000;
	part->whole = (struct cost_share){ 92000, 92000, 92000, true };
	then = foresee(&cost, "1%");
	assert_non_null(then);
	assert_in_range(then->then.middle, 9990, 10000);
	assert_float_equal((double)then->watched / 1e6, budget / (whole + 0.2), 1e-4);
	/* Watched whole there are none. */
	assert_in_range(foresee(&cost, "none")->then.middle, 91999, 92000);
	/* Without windows so far nobody knows. */
	part->watched = 1000000;
	cost.budget = 0;
	assert_null(foresee(&cost, "1%"));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(walks_of_the_last_minute_count_at_their_price),
		cmocka_unit_test(walks_of_the_library_count_by_the_calls_that_it_reports),
		cmocka_unit_test(a_library_is_believed_within_bounds),
		cmocka_unit_test(one_walk_of_many_is_timed_without_the_look_at_the_clock),
		cmocka_unit_test(a_program_whose_library_walks_has_fewer_stacks),
		cmocka_unit_test(a_program_in_the_probe_tier_has_stacks_and_light_mode),
		cmocka_unit_test(the_budget_of_the_settings_is_offered_by_its_name),
		cmocka_unit_test(nobody_saves_more_than_he_pays),
		cmocka_unit_test(the_exact_tier_has_kinds_of_records_and_a_budget),
		cmocka_unit_test(windows_of_the_exact_tier_cost_their_begin_and_end_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
