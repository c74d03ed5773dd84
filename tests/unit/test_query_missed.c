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
	int64_t missed, error;
} programs[] = {
	{ "seen in both windows",
	  { 100, 0, 300, 0 },
	  "\"calls\":9400,\"plus_minus\":1323,",
	  MISSED,
	  ERROR },
	{ "only before the one that missed them",
	  { 100, 0, 0, 0 },
	  "\"calls\":9100,\"plus_minus\":1323,",
	  MISSED,
	  ERROR },
	{ "only when nothing had been missed",
	  { 0, 50, 0, 0 },
	  "\"calls\":9050,\"plus_minus\":1323,",
	  MISSED,
	  ERROR },
	{ "in milliseconds, maybe one", { 0, 0, 300, 0 }, "\"calls\":301,\"plus_minus\":1,", 1, 0 },
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
					       .missed = program->missed,
					       .error2 = program->error * program->error });
	for (uint64_t i = 0; i < ARRAY_SIZE(program->calls); i++)
		if (program->calls[i])
			add_rollup(store, id, FN_LAUNCH, OP_LAUNCH, program->calls[i],
				   (struct core_rollup){ .second = second + i });
}

#define WINDOW(ago_, watched_, gap_)                                                               \
	{                                                                                          \
		.ago = ago_, .watched = watched_, .gap = gap_                                      \
	}

/* Programs that make PER_S calls a second, and their windows: seconds since each opened, its
 * length, and the length of the gaps that it stands for. After the last window nothing is watched,
 * or, if `whole`, everything. */
static const struct windows {
	const char *name;
	bool whole;
	struct window {
		double ago, watched, gap;
		bool late; /* a part of the window before that came after its sums were made */
	} window[3];
	struct question {
		double since, until; /* seconds ago */
	} question[6];
} windows[] = {
	{ "a long gap",
	  false,
	  { WINDOW(20, 0.25, 29.75) },
	  { { 0.1, 0 }, { 5, 0 }, { 5.5, 0 }, { 18.5, 0 }, { 20, 0 }, { 28, 0 } } },
	{ "watched whole since then", true, { WINDOW(20, 0.25, 29.75) }, { { 5, 0 } } },
	{ "a window that is open",
	  false,
	  { WINDOW(30, 0.25, 19.75), WINDOW(10, 10, 0) },
	  { { 5, 0 }, { 8, 0 } } },
	{ "a long window before",
	  false,
	  { WINDOW(20, 8, 22) },
	  { { 15, 0 }, { 12.5, 0 }, { 10, 0 }, { 30, 0 } } },
	{ "a time that ended",
	  false,
	  { WINDOW(20, 8, 22) },
	  { { 25, 14 }, { 25, 5 }, { 15, 10 }, { 5, 2 } } },
	{ "sums made before the gap was over",
	  false,
	  { WINDOW(20, 0.25, 22), { .ago = 15, .gap = 7.75, .late = true } },
	  { { 5, 0 }, { 10, 0 }, { 18, 0 } } },
};

static void add_windows(struct store *store, uint32_t id, const struct windows *of)
{
	uint64_t first_ns = fixture_now_ns - 40 * SECOND_NS, end_ns = fixture_now_ns;

	add_process(store, id, PID + id, 0);
	for (size_t i = 0; i < ARRAY_SIZE(of->window) && of->window[i].ago > 0; i++) {
		const struct window *window = &of->window[i];
		uint64_t opened_ns = fixture_now_ns - (uint64_t)(window->ago * SECOND_NS);
		uint64_t seen = (uint64_t)(window->watched * PER_S), second = opened_ns / SECOND_NS;

		store_add(store,
			  &(struct core_watch){
				  .second = second,
				  .process = id,
				  .part = PRICE_PROBES,
				  .windows = !window->late,
				  .watched_ns = (uint64_t)(window->watched * SECOND_NS),
				  .all_ns = (uint64_t)((window->watched + window->gap) * SECOND_NS),
				  .seen = seen,
				  .missed = (int64_t)(window->gap * PER_S),
				  .error2 = ERROR * ERROR });
		for (uint64_t at = second; seen; at++) {
			double from_s = fmax((double)at - (double)opened_ns / SECOND_NS, 0);
			double to_s = fmin((double)(at + 1) - (double)opened_ns / SECOND_NS,
					   window->watched);
			uint64_t calls = (uint64_t)round((to_s - from_s) * PER_S);

			calls = calls < seen && to_s < window->watched ? calls : seen;
			add_rollup(store, id, FN_LAUNCH, OP_LAUNCH, calls,
				   (struct core_rollup){ .second = at });
			seen -= calls;
		}
		if (of->whole)
			end_ns = opened_ns + SECOND_NS;
	}
	store_add(store, &(struct core_loss){ .process = id,
					      .reason = LOSS_WINDOWS,
					      .start_ns = first_ns,
					      .end_ns = end_ns,
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
	for (uint32_t i = 0; i < ARRAY_SIZE(windows); i++)
		add_windows(fixture->store, ARRAY_SIZE(programs) + i, &windows[i]);
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

/* In whole seconds. */
static double length_of(const struct question *question)
{
	uint64_t since_ns = fixture_now_ns - (uint64_t)(question->since * SECOND_NS);
	uint64_t until_ns = fixture_now_ns - (uint64_t)(question->until * SECOND_NS);
	uint64_t end_ns =
		question->until > 0 ? (until_ns / SECOND_NS + 1) * SECOND_NS : fixture_now_ns;

	return (double)(end_ns - since_ns / SECOND_NS * SECOND_NS) / SECOND_NS;
}

static void check_question(void **state, uint32_t i, const struct question *question)
{
	Tracesmith__V1__QueryRequest launches =
		QUERY(.name = (char *)"launches", .pid = PID + ARRAY_SIZE(programs) + i,
		      .since_ns =
			      (int64_t)(fixture_now_ns - (uint64_t)(question->since * SECOND_NS)),
		      .until_ns =
			      (int64_t)(fixture_now_ns - (uint64_t)(question->until * SECOND_NS)));
	/* A window counts from the second in which it opened. */
	double off = windows[i].window[0].watched > 1 ? PER_S : 2;
	double calls = PER_S * length_of(question), told, by = 0;
	struct answer_text answer = { 0 };

	run_named(*state, &launches, &answer);
	if (windows[i].whole) {
		assert_non_null(strstr(answer.text, "\"rows\":[]"));
	} else {
		told = number(answer.text, "calls");
		row_number(answer.text, "plus_minus", &by);
		if (fabs(told - calls) > off || by > 1.2 * calls)
			fail_msg("%s, %g s to %g s ago: %.0f ± %.0f, not %.0f", windows[i].name,
				 question->since, question->until, told, by, calls);
	}
	answer_text_done(&answer);
}

/* Questions of any length, with any start and end, get an estimate. */
static void each_time_has_its_estimate(void **state)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(windows); i++)
		for (size_t k = 0; k < 6 && windows[i].question[k].since > 0; k++)
			check_question(state, i, &windows[i].question[k]);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(estimates_have_bounds),
		cmocka_unit_test(each_time_has_its_estimate),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
