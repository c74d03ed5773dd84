/* Verdicts on what stacks allocate, over rows made by hand: who is shown when, in which order, and
 * why. */
#include "tests/unit/query_fixture.h"

#include "core/leak/verdict.h"

#define PID 4000000

/* A block of each stack, so old, and what became of the stack's blocks. */
static void add_growth(struct store *store, uint64_t stack, uint64_t age_s, uint64_t bytes,
		       struct core_growth growth)
{
	add_allocation(store, stack, 1, bytes, stack, MEMORY_DEVICE,
		       fixture_now_ns - age_s * SECOND_NS);
	growth.process = 1;
	growth.stack_id = stack;
	growth.fn = FN_ALLOC;
	growth.kind = MEMORY_DEVICE;
	growth.since_ns = fixture_now_ns - age_s * SECOND_NS;
	growth.birth_ns = fixture_now_ns - 3 * SECOND_NS;
	if (growth.verdict)
		store_add(store, &growth);
}

static int setup(void **state)
{
	const struct core_device device = { .process = 1, .memory_bytes = 10000 };
	const struct core_memory memory = {
		.process = 1, .kind = MEMORY_DEVICE, .live_bytes = 4000, .live_count = 5
	};
	struct fixture *fixture;
	struct store *store;

	fixture_setup(state);
	fixture = *state;
	assert_int_equal(fixture_open(fixture), 0);
	store = fixture->store;
	add_process(store, 1, PID, 0);
	store_add(store, &device);
	store_add(store, &memory);
	add_growth(store, 1, 90, 100,
		   (struct core_growth){ .verdict = VERDICT_LEAK,
					 .confidence = 98,
					 .allocations = 60,
					 .kept = 50,
					 .kept_bytes = 5120,
					 .usual_ns = 2 * SECOND_NS,
					 .grows_ns = fixture_now_ns - 80 * SECOND_NS,
					 .bytes_per_hour = 3000,
					 .bytes_per_step = 12,
					 .laplace_ppm = -2500000 });
	add_growth(store, 2, 90, 700,
		   (struct core_growth){ .verdict = VERDICT_GROWING,
					 .confidence = 70,
					 .kept = 5,
					 .kept_bytes = 700,
					 .grows_ns = fixture_now_ns - 70 * SECOND_NS });
	add_growth(store, 3, 40, 800,
		   (struct core_growth){ .verdict = VERDICT_YOUNG,
					 .ready_ns = fixture_now_ns + 15 * SECOND_NS });
	add_growth(store, 4, 90, 900, (struct core_growth){ .verdict = VERDICT_HELD });
	add_growth(
		store, 5, 90, 1500,
		(struct core_growth){ .verdict = VERDICT_CACHE, .allocations = 40, .frees = 30 });
	add_growth(store, 6, 95, 10, (struct core_growth){ 0 });
	store_commit(store, fixture_now_ns);
	fixture->store = store_free(store);
	return 0;
}

/* The rows' places in an answer: each text comes after the one before it. */
static void expect_in_order(void **state, Tracesmith__V1__QueryRequest *query, size_t rows,
			    const char *const *text)
{
	struct answer_text answer = { 0 };
	const char *at;

	run_named(*state, query, &answer);
	assert_int_equal(answer.rows, rows);
	at = answer.text;
	for (; *text; text++) {
		const char *found = strstr(at, *text);

		if (!found)
			fail_msg("no '%s' in '%s'", *text, at);
		at = found;
	}
	answer_text_done(&answer);
}

static void leaks_come_first_and_what_rests_does_not_come(void **state)
{
	static const char *const text[] = {
		"\"verdict\":\"leak\"",
		"\"bytes\":100,\"count\":1,\"bytes_per_hour\":3000,\"bytes_per_step\":12,\"full_"
		"ns\":7200000000000,",
		"\"confidence\":980000,\"laplace\":-2500000,",
		"\"why\":\"50 blocks (5.00 KiB) of the last 1.33 min outlived the 2.00 s "
		"after which others are freed, and more keep coming\"",
		"\"verdict\":\"growing\"",
		"\"full_ns\":null",
		"\"why\":\"5 blocks (700 B) of the last 1.17 min are kept: ",
		"\"verdict\":\"not yet\"",
		"\"why\":\"watched for 40.0 s, needs 15.0 s more\"",
		"\"verdict\":\"not yet\"",
		"\"why\":\"its blocks were not followed one by one\"",
		NULL,
	};

	expect_in_order(state, &QUERY(.name = "leaks"), 4, text);
}

static void all_that_is_old_is_shown_if_asked_for(void **state)
{
	static const char *const text[] = {
		"\"verdict\":\"leak\"",
		"\"verdict\":\"growing\"",
		"\"verdict\":\"cache\"",
		"\"why\":\"full: what it holds does not grow, 30 of 40 blocks were freed\"",
		"\"verdict\":\"held\"",
		"\"why\":\"allocated 3.00 s ago, and kept\"",
		"\"verdict\":\"not yet\"",
		NULL,
	};

	expect_in_order(state, &QUERY(.name = "leaks", .min_age_ns = 60 * SECOND_NS), 5, text);
}

static void metrics_count_leaks(void **state)
{
	static const char *const text[] = { "{\"process\":1,\"device\":0,\"leaks\":1}", NULL };

	expect_in_order(state, &QUERY(.name = "metrics-leaks"), 1, text);
}

/* Stacks of one place are one row, with the verdict that is of most concern. */
static void place_has_the_worst_verdict(void **state)
{
	static const char *const text[] = { "\"verdict\":\"leak\"", "\"bytes\":4010,\"count\":6,",
					    NULL };

	expect_in_order(state, &QUERY(.name = "leaks", .by = QUERY_BY_IS_MODULE), 1, text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaks_come_first_and_what_rests_does_not_come),
		cmocka_unit_test(all_that_is_old_is_shown_if_asked_for),
		cmocka_unit_test(metrics_count_leaks),
		cmocka_unit_test(place_has_the_worst_verdict),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
