/* test_query_missed: what is estimated of calls between windows has bounds in any case. */
#include <math.h>

#include "tests/unit/windows_fixture.h"

#define PID    4000000
#define MISSED 9000
#define ERROR  500
#define GAP_S  20
#define PER_S  1000

/* Watched for a second, and then in two windows, of which the first one missed nothing: what it
 * did in the second of each. */
static const struct program {
	const char *name;
	uint64_t calls[4];
	const char *row; /* of its launches, as far as it goes */
} programs[] = {
	{ "seen in both windows", { 100, 0, 300, 0 }, "\"calls\":9400,\"plus_minus\":1323," },
	{ "only before the one that missed them",
	  { 100, 0, 0, 0 },
	  "\"calls\":9100,\"plus_minus\":1323," },
	{ "only when nothing had been missed",
	  { 0, 50, 0, 0 },
	  "\"calls\":9050,\"plus_minus\":1323," },
};

enum { WAITING = ARRAY_SIZE(programs), WHOLE };

static void add_program(struct store *store, uint32_t id, const struct program *program)
{
	uint64_t second = fixture_second();

	add_process(store, id, PID + id, 0);
	store_add(store, &(struct core_watch){ .second = second,
					       .process = id,
					       .part = PRICE_PROBES,
					       .windows = 1,
					       .watched_ns = SECOND_NS / 4,
					       .all_ns = SECOND_NS / 4 });
	store_add(store, &(struct core_watch){ .second = second + 2,
					       .process = id,
					       .part = PRICE_PROBES,
					       .windows = 1,
					       .watched_ns = SECOND_NS / 4,
					       .all_ns = 2 * SECOND_NS,
					       .missed = MISSED,
					       .error2 = ERROR * ERROR });
	for (uint64_t i = 0; i < ARRAY_SIZE(program->calls); i++)
		if (program->calls[i])
			add_rollup(store, id, FN_LAUNCH, OP_LAUNCH, program->calls[i],
				   (struct core_rollup){ .second = second + i });
}

/* Its last window was GAP_S ago, and the one before as long before that; it is still in windows, or
 * has been watched whole since the last one. */
static void add_waiting(struct store *store, uint32_t id, bool whole)
{
	uint64_t opened_ns = fixture_now_ns - GAP_S * SECOND_NS;
	uint64_t second = opened_ns / SECOND_NS;

	add_process(store, id, PID + id, 0);
	store_add(store,
		  &(struct core_watch){ .second = second,
					.process = id,
					.part = PRICE_PROBES,
					.windows = 1,
					.watched_ns = SECOND_NS / 4,
					.all_ns = (GAP_S + GAP_S / 2) * SECOND_NS + SECOND_NS / 4,
					.missed = GAP_S * 3 / 2 * PER_S,
					.error2 = ERROR * ERROR });
	add_rollup(store, id, FN_LAUNCH, OP_LAUNCH, PER_S / 4,
		   (struct core_rollup){ .second = second });
	store_add(store,
		  &(struct core_loss){ .process = id,
				       .reason = LOSS_WINDOWS,
				       .start_ns = opened_ns - GAP_S * SECOND_NS,
				       .end_ns = whole ? opened_ns + SECOND_NS : fixture_now_ns,
				       .count = 1 });
}

static int setup(void **state)
{
	struct fixture *fixture;

	if (windows_setup(state) != 0)
		return -1;
	fixture = *state;
	for (uint32_t i = 0; i < ARRAY_SIZE(programs); i++)
		add_program(fixture->store, i, &programs[i]);
	add_waiting(fixture->store, WAITING, false);
	add_waiting(fixture->store, WHOLE, true);
	fixture_commit(fixture, fixture_now_ns);
	return 0;
}

static void estimates_have_bounds(void **state)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(programs); i++) {
		Tracesmith__V1__QueryRequest queries[] = {
			QUERY(.name = (char *)"launches", .pid = PID + i),
			QUERY(.name = (char *)"apis", .pid = PID + i),
		};

		for (size_t k = 0; k < ARRAY_SIZE(queries); k++) {
			struct answer_text answer = { 0 };

			run_named(*state, &queries[k], &answer);
			if (!strstr(answer.text, programs[i].row))
				fail_msg("%s, %s: %s", programs[i].name, queries[k].name,
					 answer.text);
			answer_text_done(&answer);
		}
	}
}

static void ask_since(void **state, uint32_t id, uint64_t ago_ns, struct answer_text *ret)
{
	Tracesmith__V1__QueryRequest launches =
		QUERY(.name = (char *)"launches", .pid = PID + id,
		      .since_ns = (int64_t)(fixture_now_ns - ago_ns));

	run_named(*state, &launches, ret);
}

/* However short the time that somebody asks about, and wherever it starts: in whole seconds. */
static void times_between_windows_have_rows(void **state)
{
	static const double seconds[] = { 0.1, 5, 5.5, GAP_S - 1.5, GAP_S, GAP_S + 8 };

	for (size_t i = 0; i < ARRAY_SIZE(seconds); i++) {
		uint64_t ago_ns = (uint64_t)(seconds[i] * SECOND_NS);
		uint64_t since_ns = (fixture_now_ns - ago_ns) / SECOND_NS * SECOND_NS;
		struct answer_text answer = { 0 };
		double calls, by;

		ask_since(state, WAITING, ago_ns, &answer);
		calls = number(answer.text, "calls");
		by = number(answer.text, "plus_minus");
		if (fabs(calls - PER_S * (double)(fixture_now_ns - since_ns) / SECOND_NS) > 1 ||
		    by < ERROR * calls / (GAP_S * 1.5 * PER_S) || by > 0.7 * calls)
			fail_msg("%g s: %.0f ± %.0f", seconds[i], calls, by);
		answer_text_done(&answer);
	}
}

static void nothing_is_added_where_all_was_watched(void **state)
{
	struct answer_text answer = { 0 };

	ask_since(state, WHOLE, 5 * SECOND_NS, &answer);
	assert_non_null(strstr(answer.text, "\"rows\":[]"));
	answer_text_done(&answer);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(estimates_have_bounds),
		cmocka_unit_test(times_between_windows_have_rows),
		cmocka_unit_test(nothing_is_added_where_all_was_watched),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
