/* test_query_windows: simulated programs, recorded in windows within a budget; what the queries
 * estimate of calls, kernels and the device's states is right on average, and as often within its
 * interval as it says. */
#include <math.h>
#include <setjmp.h>

#include "core/price/row.h"
#include "core/price/tally.h"
#include "tests/unit/windows_fixture.h"

#define PID	    4000000
#define PROGRAMS    200
#define COVERED	    168 /* 84 % at "90 %": three standard deviations */
#define SECONDS	    300
#define TICK_NS	    25000000ull
#define LINK_NS	    15000000ull
#define CUPTI_NS    40000000ull /* to bring it in, or take it out */
#define AHEAD_NS    20000000ull /* to tell it when */
#define START_NS    (fixture_now_ns - 1000 * SECOND_NS)
#define WORK_NS	    20e6
#define HIT_NS	    100e3 /* what a recorded call costs the program */
#define BUDGET	    0.03

#define UNSURE	    0.03  /* a price, as a standard deviation */
#define NINE_OF_TEN 1.645 /* standard deviations hold so many */

enum { ADD, GEMM, NAMES };
enum { NAME_ADD = 11 };

static const double kernel_ns[NAMES] = { 60e3, 300e3 };

struct second {
	uint64_t calls, count[NAMES], ns[NAMES], busy_ns, idle_ns;
};

/* A step is so much work, launches, and a wait for the GPU; half of a period has other launches
 * than the rest. */
struct program {
	struct watch watch;
	struct tally tally;
	uint32_t id, period;
	bool wanted, recording;
	uint64_t now_ns, tick_ns, at_ns; /* at_ns: recording changes */
	struct second seen[SECONDS + 3], made;
};

struct estimates {
	struct estimate {
		double truth, told, by;
	} of[PROGRAMS + 1];
};

static struct program program;
static bool changing;	      /* the programs of changing_run() */
static uint32_t only = NAMES; /* the kernel of priced_run() */
static struct estimates calls, counts[NAMES], times[NAMES], running, idle, dense, sparse;

static void add_whole(struct store *store)
{
	uint64_t hits = tally_take(&program.tally, program.tick_ns);

	store_add(store, &(struct core_watch){ .second = program.tick_ns / SECOND_NS,
					       .process = program.id,
					       .part = PRICE_EXACT,
					       .whole = hits });
}

static void take_cycle(struct store *store)
{
	struct watch_cycle cycle;
	struct core_watch row;

	/* Somebody asks now and then. */
	if (program.id % 2 && uniform() < 0.02)
		watch_tell(&program.watch, program.tick_ns);
	while (watch_take_cycle(&program.watch, &cycle)) {
		tally_cycle(&program.tally, &cycle);
		row = row_of_cycle(&cycle, program.id, PRICE_EXACT);
		store_add(store, &row);
	}
}

/* As daemon/price/price.c does it. */
static void program_tick(struct store *store)
{
	bool whole = program.watch.phase == WATCH_WHOLE && program.watch.since_ns;
	bool wanted = watch_tick(&program.watch, program.tick_ns, program.recording);

	take_cycle(store);
	if (whole && (program.watch.phase != WATCH_WHOLE ||
		      program.tick_ns - program.tally.told_ns >= SECOND_NS))
		add_whole(store);
	if (wanted != program.wanted) {
		program.wanted = wanted;
		program.at_ns = program.tick_ns + (wanted ? LINK_NS + CUPTI_NS : AHEAD_NS);
		if (!wanted)
			tally_shut(&program.tally, program.at_ns, 0);
	}
	program.tick_ns += TICK_NS;
}

static void program_switch(void)
{
	if (program.recording != program.wanted && program.now_ns >= program.at_ns) {
		program.recording = program.wanted;
		if (program.wanted)
			tally_open(&program.tally, program.at_ns);
	}
}

static struct second *program_second(void)
{
	return &program.seen[(program.now_ns - START_NS) / SECOND_NS];
}

static void program_launch(uint32_t name, uint32_t count, uint64_t *busy_ns)
{
	uint64_t ns = (uint64_t)(count * kernel_ns[name] * (0.8 + 0.4 * uniform()));
	struct second *second = program_second();

	program.made.calls += count;
	program.made.count[name] += count;
	program.made.ns[name] += ns;
	*busy_ns += ns;
	for (uint32_t i = 0; i < count && program.recording; i++) {
		watch_hit(&program.watch);
		second->calls += tally_hit(&program.tally, program.now_ns);
	}
	if (!program.recording)
		return;
	second->count[name] += count;
	second->ns[name] += ns;
}

static void program_step(uint64_t step, struct store *store)
{
	bool first = step % program.period < program.period / 2;
	double work_ns = WORK_NS * (0.9 + 0.2 * uniform());
	uint64_t before = program.made.calls, busy_ns = 0, step_ns;

	program_switch();
	program_launch(ADD, first ? 60 : 10, &busy_ns);
	program_launch(GEMM, first ? 4 : 30, &busy_ns);
	if (program.recording)
		work_ns += (double)(program.made.calls - before) * HIT_NS;
	step_ns = (uint64_t)work_ns;
	program.made.busy_ns += busy_ns;
	program.made.idle_ns += step_ns - busy_ns;
	if (program.recording) {
		program_second()->busy_ns += busy_ns;
		program_second()->idle_ns += step_ns - busy_ns;
	}
	program.now_ns += step_ns;
	watch_cold_call(&program.watch);
	watch_cold(&program.watch, program.now_ns);
	while (program.tick_ns <= program.now_ns)
		program_tick(store);
}

static void add_second(struct store *store, uint64_t second, const struct second *seen)
{
	struct core_busy busy = { .second = second, .process = program.id };

	add_rollup(store, program.id, FN_LAUNCH, OP_LAUNCH, seen->calls,
		   (struct core_rollup){ .second = second });
	for (uint32_t name = 0; name < NAMES; name++)
		store_add(store, &(struct core_work){ .second = second,
						      .process = program.id,
						      .kind = OP_KERNEL,
						      .name = NAME_ADD + name,
						      .count = seen->count[name],
						      .total_ns = seen->ns[name],
						      .min_ns = 1,
						      .max_ns = 1000000 });
	busy.state = OP_STATE_RUNNING;
	busy.kernels = 1;
	busy.ns = seen->busy_ns;
	store_add(store, &busy);
	busy.state = OP_STATE_IDLE;
	busy.kernels = 0;
	busy.ns = seen->idle_ns;
	store_add(store, &busy);
}

static void program_run(uint32_t id, struct store *store)
{
	const struct watch_config config = {
		.budget = BUDGET, .hit_ns = 8000, .turn_ns = SECOND_NS, .switch_ns = SECOND_NS / 20
	};

	memset(&program, 0, sizeof(program));
	program.id = id;
	program.now_ns = program.tick_ns = START_NS;
	program.wanted = program.recording = true;
	program.period = (uint32_t)(4 * exp(6 * uniform()));
	watch_init(&program.watch, &config, id);
	tally_init(&program.tally);
	for (uint64_t step = 0; program.now_ns < START_NS + SECONDS * SECOND_NS; step++)
		program_step(step, store);
	watch_end(&program.watch, program.now_ns);
	take_cycle(store);
	for (uint64_t i = 0; i < ARRAY_SIZE(program.seen); i++)
		if (program.seen[i].calls)
			add_second(store, START_NS / SECOND_NS + i, &program.seen[i]);
	add_process(store, id, PID + id, program.now_ns);
	store_commit(store, START_NS); /* so nothing is old enough to be condensed */
	calls.of[id].truth = (double)program.made.calls;
	for (uint32_t name = 0; name < NAMES; name++) {
		counts[name].of[id].truth = (double)program.made.count[name];
		times[name].of[id].truth = (double)program.made.ns[name];
	}
	running.of[id].truth = (double)program.made.busy_ns;
	idle.of[id].truth = (double)program.made.idle_ns;
}

static void take(struct estimates *estimates, const char *row, const char *column, const char *by)
{
	struct estimate *estimate = &estimates->of[(int)number(row, "pid") - PID];
	double watched = number(row, "watched") / 1e6;

	assert_true(estimate->told == 0);
	assert_true(watched > 0.03 && watched < 0.5);
	estimate->told = number(row, column);
	estimate->by = number(row, by);
}

static void take_row(const char *query, const char *row)
{
	uint32_t name = !!strstr(row, "\"name\":\"gemm\"");

	if (changing) {
		take(strstr(row, "cuLaunchKernelEx") ? &sparse : &dense, row, "calls",
		     "plus_minus");
	} else if (strcmp(query, "launches") == 0) {
		take(&calls, row, "calls", "plus_minus");
	} else if (strcmp(query, "kernels") == 0) {
		take(&counts[name], row, "count", "plus_minus");
		take(&times[name], row, "total_ns", "plus_minus_ns");
	} else {
		take(strstr(row, "running") ? &running : &idle, row, "total_ns", "plus_minus_ns");
	}
}

static void estimate(const struct fixture *fixture, const char *query)
{
	Tracesmith__V1__QueryRequest request = TRACESMITH__V1__QUERY_REQUEST__INIT;
	struct answer_text answer = { 0 };

	request.name = (char *)query;
	request.limit = 5 * PROGRAMS;
	run_named(fixture, &request, &answer);
	assert_int_equal(answer.rows, only < NAMES || (strcmp(query, "launches") == 0 && !changing)
					      ? PROGRAMS
					      : 2 * PROGRAMS);
	for (char *row = strstr(answer.text, "{\"pid\""); row; row = strstr(row, "\n{")) {
		row += *row == '\n';
		row[strcspn(row, "\n")] = '\0';
		take_row(query, row);
		row += strlen(row);
		*row = '\n';
	}
	answer_text_done(&answer);
}

/* Of the probe tier: first calls of one function, in many windows, then of another, in few. */
static void changing_run(uint32_t id, struct store *store)
{
	static const struct phase {
		uint32_t fn;
		double seconds, rate, gap_ns;
		struct estimates *estimates;
	} phases[] = {
		{ FN_LAUNCH, 100, 2000, 0.5e9, &dense },
		{ FN_OTHER, SECONDS - 100, 1000, 4e9, &sparse },
	};
	double now_ns = (double)START_NS;

	for (size_t i = 0; i < ARRAY_SIZE(phases); i++) {
		const struct phase *phase = &phases[i];
		double end_ns = now_ns + phase->seconds * SECOND_NS;

		while (now_ns < end_ns) {
			double gap_ns = 2 * uniform() * phase->gap_ns,
			       open_ns = (0.3 + 0.2 * uniform()) * 1e9;
			double gap = round(gap_ns / 1e9 * phase->rate * (0.8 + 0.4 * uniform()));
			double seen = round(open_ns / 1e9 * phase->rate * (0.8 + 0.4 * uniform()));
			double opened_ns = now_ns + gap_ns,
			       first = SECOND_NS - fmod(opened_ns, SECOND_NS);
			struct watch_cycle cycle = {
				.start_ns = (uint64_t)now_ns,
				.end_ns = (uint64_t)(opened_ns + open_ns),
				.opened_ns = (uint64_t)opened_ns,
				.watched_ns = (uint64_t)open_ns,
				.hits = (uint64_t)seen,
				.missed = (uint64_t)(seen / open_ns * gap_ns),
				.window = true,
			};
			struct core_watch row = row_of_cycle(&cycle, id, PRICE_PROBES);
			uint64_t of_first = (uint64_t)(seen * fmin(first / open_ns, 1));

			store_add(store, &row);
			add_rollup(store, id, phase->fn, OP_LAUNCH, of_first,
				   (struct core_rollup){ .second = row.second });
			add_rollup(store, id, phase->fn, OP_LAUNCH, cycle.hits - of_first,
				   (struct core_rollup){ .second = row.second + 1 });
			phase->estimates->of[id].truth += gap + seen;
			now_ns = opened_ns + open_ns;
		}
	}
	add_process(store, id, PID + id, (uint64_t)now_ns);
	store_commit(store, START_NS);
}

static double normal(void)
{
	double sum = -6;

	for (int i = 0; i < 12; i++)
		sum += uniform();
	return sum;
}

/* Of the exact tier: each window tells the same, but the price is a little off, and with it what
 * all of them missed. */
static void priced_run(uint32_t id, struct store *store)
{
	double off = UNSURE * normal(), now_ns = (double)START_NS;

	while (now_ns < (double)START_NS + SECONDS * 1e9) {
		double gap_ns = floor(1 + 6 * uniform()) * 1e9;
		struct watch_cycle cycle = {
			.start_ns = (uint64_t)now_ns,
			.end_ns = (uint64_t)(now_ns + gap_ns + 1e9),
			.opened_ns = (uint64_t)(now_ns + gap_ns),
			.watched_ns = SECOND_NS,
			.hits = 2000,
			.missed = (uint64_t)(2000 * gap_ns / 1e9 * (1 + off)),
			.window = true,
		};
		struct core_watch row;

		cycle.missed_by = (uint64_t)((double)cycle.missed * NINE_OF_TEN * UNSURE);
		row = row_of_cycle(&cycle, id, PRICE_EXACT);
		store_add(store, &row);
		store_add(store, &(struct core_work){ .second = row.second,
						      .process = id,
						      .kind = OP_KERNEL,
						      .name = NAME_ADD,
						      .count = cycle.hits,
						      .total_ns = cycle.hits * 1000,
						      .min_ns = 1000,
						      .max_ns = 1000 });
		counts[ADD].of[id].truth += 2000 + 2000 * gap_ns / 1e9;
		times[ADD].of[id].truth += 1000 * (2000 + 2000 * gap_ns / 1e9);
		now_ns += gap_ns + 1e9;
	}
	add_process(store, id, PID + id, (uint64_t)now_ns);
	store_commit(store, START_NS);
}

static int setup(void **state)
{
	struct fixture *fixture;

	if (windows_setup(state) != 0)
		return -1;
	fixture = *state;
	srand(3);
	memset(counts, 0, sizeof(counts));
	memset(times, 0, sizeof(times));
	store_add_name(fixture->store, NAME_ADD, "add", 3);
	store_add_name(fixture->store, NAME_ADD + GEMM, "gemm", 4);
	return 0;
}

static int setup_programs(void **state)
{
	struct fixture *fixture;

	if (setup(state) != 0)
		return -1;
	fixture = *state;
	for (uint32_t id = 1; id <= PROGRAMS; id++)
		program_run(id, fixture->store);
	fixture_commit(fixture, START_NS);
	estimate(fixture, "launches");
	estimate(fixture, "kernels");
	estimate(fixture, "idle");
	return 0;
}

static int setup_priced(void **state)
{
	struct fixture *fixture;

	if (setup(state) != 0)
		return -1;
	fixture = *state;
	for (uint32_t id = 1; id <= PROGRAMS; id++)
		priced_run(id, fixture->store);
	fixture_commit(fixture, START_NS);
	only = ADD;
	estimate(fixture, "kernels");
	return 0;
}

static int setup_changing(void **state)
{
	struct fixture *fixture;

	if (setup(state) != 0)
		return -1;
	fixture = *state;
	only = NAMES;
	changing = true;
	for (uint32_t id = 1; id <= PROGRAMS; id++)
		changing_run(id, fixture->store);
	fixture_commit(fixture, START_NS);
	estimate(fixture, "launches");
	return 0;
}

static void assert_right(const struct estimates *estimates)
{
	double ratio = 0;
	int covered = 0;

	for (uint32_t id = 1; id <= PROGRAMS; id++) {
		const struct estimate *estimate = &estimates->of[id];

		assert_true(estimate->told > 0);
		ratio += estimate->told / estimate->truth / PROGRAMS;
		covered += fabs(estimate->told - estimate->truth) <= estimate->by;
	}
	assert_true(fabs(ratio - 1) < 0.02);
	assert_in_range(covered, COVERED, PROGRAMS);
}

static void calls_are_as_often_within_their_interval_as_it_says(void **state)
{
	assert_right(&calls);
}

static void kernels_are_too(void **state)
{
	for (uint32_t name = 0; name < NAMES; name++)
		assert_right(&counts[name]);
}

static void so_is_their_time(void **state)
{
	for (uint32_t name = 0; name < NAMES; name++)
		assert_right(&times[name]);
}

static void so_are_the_states_of_the_device(void **state)
{
	assert_right(&running);
	assert_right(&idle);
}

static void what_the_price_leaves_open_is_in_the_interval(void **state)
{
	assert_right(&counts[ADD]);
	assert_right(&times[ADD]);
}

static void calls_of_a_function_are_estimated_by_the_windows_of_its_time(void **state)
{
	assert_right(&dense);
	assert_right(&sparse);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_as_often_within_their_interval_as_it_says),
		cmocka_unit_test(kernels_are_too),
		cmocka_unit_test(so_is_their_time),
		cmocka_unit_test(so_are_the_states_of_the_device),
	};
	static const struct CMUnitTest priced[] = {
		cmocka_unit_test(what_the_price_leaves_open_is_in_the_interval),
	};
	static const struct CMUnitTest by_function[] = {
		cmocka_unit_test(calls_of_a_function_are_estimated_by_the_windows_of_its_time),
	};

	return cmocka_run_group_tests(tests, setup_programs, fixture_teardown) ||
	       cmocka_run_group_tests(priced, setup_priced, fixture_teardown) ||
	       cmocka_run_group_tests(by_function, setup_changing, fixture_teardown);
}
