/* test_query_cost: what a process pays, as `cost` and `ps` tell it. */
#include "tests/unit/query_fixture.h"
#include <setjmp.h>

#define PID	  4000000
#define NEVER	  (PID + 9)
#define OTHER	  77 /* a part that this version does not know */
#define UNTIL_NS  123456789
#define TURNED_NS 12345678

enum { ESTIMATED = 1, MEASURED, ENDED, EXACT };

/* In windows, with all stacks, and a thread of the library that takes 2 % of a core. */
static void add_exact(struct store *store)
{
	struct core_price price = {
		.process = EXACT,
		.part = PRICE_EXACT,
		.measured = true,
		.turns = 6,
		.budget_ppm = 30000,
		.share_ppm = 200000,
		.cost_ppm = 25000,
		.cost_low_ppm = 20000,
		.cost_high_ppm = 30000,
	};
	const struct core_collect collect = {
		.process = EXACT,
		.records = TS_RECORD_KERNELS,
		.since_ns = 1,
		.own_ns = SECOND_NS / 50,
		.busy_ns = SECOND_NS / 10,
		.wall_ns = SECOND_NS,
		.cycles = 3,
	};

	const struct core_process process = {
		.id = EXACT,
		.pid = PID + EXACT,
		.comm = "job4",
		.first_ns = fixture_second() * SECOND_NS,
		.light = true,
	};

	store_add(store, &process);
	store_add(store, &price);
	/* What windows have taken the place of. */
	price = (struct core_price){ .process = EXACT, .part = PRICE_PROBES, .measured = true };
	store_add(store, &price);
	price = (struct core_price){
		.process = EXACT,
		.part = PRICE_STACKS,
		.whole_ppm = 8000,
		.cost_ppm = 8000,
		.cold_ppm = 500,
		.share_ppm = 1000000,
		.calls_per_s = 4000,
		.hit_ns = 2000,
		.cpu_ppm = 8000,
	};
	store_add(store, &price);
	price.part = PRICE_STACKS_INSIDE;
	price.cost_ppm = 3300;
	store_add(store, &price);
	store_add(store, &collect);
}

static int setup(void **state)
{
	struct fixture *fixture;
	struct core_price price = {
		.process = ESTIMATED,
		.part = PRICE_PROBES,
		.budget_ppm = 10000,
		.share_ppm = 1000000,
		.whole_ppm = 3000,
		.cost_ppm = 3000,
		.calls_per_s = 1000,
		.hit_ns = 3000,
	};

	if (fixture_setup(state) != 0)
		return -1;
	fixture = *state;
	if (fixture_open(fixture) != 0)
		return -1;
	add_process(fixture->store, ESTIMATED, PID + ESTIMATED, 0);
	add_process(fixture->store, MEASURED, PID + MEASURED, 0);
	add_process(fixture->store, ENDED, PID + ENDED, fixture_now_ns - SECOND_NS);
	store_add(fixture->store, &price);
	price.process = ENDED;
	store_add(fixture->store, &price);
	price = (struct core_price){
		.process = MEASURED,
		.part = PRICE_PROBES,
		.measured = true,
		.turns = 12,
		.share_ppm = 50000,
		.whole_ppm = 180000,
		.whole_low_ppm = 140000,
		.whole_high_ppm = 220000,
		.cost_ppm = 9000,
		.cost_low_ppm = 7000,
		.cost_high_ppm = 11000,
		.cold_ppm = 100,
		.over = true,
		.until_ns = UNTIL_NS,
		.turned_ns = TURNED_NS,
		.cpu_ppm = 400,
	};
	store_add(fixture->store, &price);
	price.part = OTHER;
	price.cost_ppm = price.cost_low_ppm = price.cost_high_ppm = -500;
	store_add(fixture->store, &price);
	add_exact(fixture->store);
	fixture_commit(fixture, fixture_now_ns);
	return 0;
}

static void expect_part(void **state, Tracesmith__V1__QueryRequest query, const char *part)
{
	struct answer_text answer = { 0 };

	run_named(*state, &query, &answer);
	if (!strstr(answer.text, part))
		fail_msg("%s\nis not in\n%s", part, answer.text);
	answer_text_done(&answer);
}

static void cost_tells_what_a_figure_rests_on(void **state)
{
	expect_part(
		state, QUERY(.name = "cost", .pid = PID + ESTIMATED),
		"\"comm\":\"job1\",\"part\":\"probes\",\"cost\":3000,\"low\":null,\"high\":null,"
		"\"budget\":10000,\"until_ns\":null,\"over\":0,\"watched\":1000000,"
		"\"whole\":3000,\"whole_low\":null,\"whole_high\":null,\"cold\":0,\"cpu\":null,"
		"\"calls_per_s\":1000,\"hit_ns\":3000,\"turns\":0,\"measured\":\"estimated\","
		"\"turned_ns\":null,\"records\":null,\"inside\":null,\"cycles\":null}");
	expect_part(
		state, QUERY(.name = "cost", .pid = PID + MEASURED),
		"\"part\":\"probes\",\"cost\":9000,\"low\":7000,\"high\":11000,"
		"\"budget\":null,\"until_ns\":123456789,\"over\":1,\"watched\":50000,"
		"\"whole\":180000,\"whole_low\":140000,\"whole_high\":220000,\"cold\":100,"
		"\"cpu\":400,\"calls_per_s\":0,\"hit_ns\":null,\"turns\":12,"
		"\"measured\":\"in "
		"place\",\"turned_ns\":12345678,\"records\":null,\"inside\":null,\"cycles\":null}");
	expect_part(state, QUERY(.name = "cost", .pid = PID + MEASURED), "\"part\":\"part 77\",");
}

static void who_has_ended_pays_nothing(void **state)
{
	expect_part(state, QUERY(.name = "cost", .pid = PID + ENDED), "\"rows\":[],");
	refuse(state, QUERY(.name = "cost", .pid = NEVER), TRACESMITH__V1__ERROR__CODE__NOT_FOUND,
	       "has not used CUDA");
}

/* Of all parts; an interval needs all of them measured. */
static void ps_sums_the_parts(void **state)
{
	expect_part(state, QUERY(.name = "ps", .pid = PID + ESTIMATED),
		    "\"cost\":3000,\"cost_low\":null,\"cost_high\":null,");
	expect_part(state, QUERY(.name = "ps", .pid = PID + MEASURED),
		    "\"cost\":8500,\"cost_low\":6500,\"cost_high\":10500,");
}

static void stacks_and_the_thread_are_parts_that_do_not_add_up(void **state)
{
	Tracesmith__V1__QueryRequest query = QUERY(.name = "cost", .pid = PID + EXACT);

	expect_part(state, query,
		    "\"part\":\"exact\",\"cost\":25000,\"low\":20000,\"high\":30000,"
		    "\"budget\":30000,");
	expect_part(state, query, "\"turned_ns\":null,\"records\":1,\"inside\":1,\"cycles\":3}");
	expect_part(
		state, query,
		"\"part\":\"stacks\",\"cost\":8000,\"low\":null,\"high\":null,\"budget\":null,");
	expect_part(state, query,
		    "\"cold\":500,\"cpu\":8000,\"calls_per_s\":4000,\"hit_ns\":2000,\"turns\":0,"
		    "\"measured\":\"estimated\",");
	expect_part(state, query, "\"part\":\"stacks-inside\",\"cost\":3300,\"low\":null,");
	expect_part(state, query, "\"part\":\"thread\",\"cost\":null,");
	expect_part(state, query,
		    "\"cpu\":20000,\"calls_per_s\":null,\"hit_ns\":null,\"turns\":0,"
		    "\"measured\":\"counted\",");
	expect_part(state, QUERY(.name = "ps", .pid = PID + EXACT),
		    "\"cost\":25000,\"cost_low\":20000,\"cost_high\":30000,\"budget\":30000,");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(cost_tells_what_a_figure_rests_on),
		cmocka_unit_test(who_has_ended_pays_nothing),
		cmocka_unit_test(ps_sums_the_parts),
		cmocka_unit_test(stacks_and_the_thread_are_parts_that_do_not_add_up),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
