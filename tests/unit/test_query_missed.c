/* test_query_missed: what is estimated of calls between windows has bounds in any case. */
#include "tests/unit/windows_fixture.h"

#define PID    4000000
#define MISSED 9000
#define ERROR  500

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

static int setup(void **state)
{
	struct fixture *fixture;

	if (windows_setup(state) != 0)
		return -1;
	fixture = *state;
	for (uint32_t i = 0; i < ARRAY_SIZE(programs); i++)
		add_program(fixture->store, i, &programs[i]);
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(estimates_have_bounds),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
