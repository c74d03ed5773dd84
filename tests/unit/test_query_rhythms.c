/* test_query_rhythms: programs of ten kinds of rhythm, each watched in windows by a watch as the
 * daemon does it; what the queries estimate of their launches is within its bounds as often as
 * these say, and these are narrow enough to be of use. TS_TABLE=1 prints how often and how narrow,
 * by kind. */
#include <math.h>
#include <setjmp.h>

#include "core/price/row.h"
#include "core/price/tally.h"
#include "tests/unit/windows_fixture.h"

#define TRIALS	 30 /* of each kind and length, alone and beside others */
#define PID	 4000000
#define TICK_NS	 25000000ull
#define GAP_NS	 250000000ull /* between two ticks in a gap */
#define START_NS (fixture_now_ns - 1000 * SECOND_NS)
#define MS	 1e6
#define CALL_NS	 1000.
#define HIT_NS	 3000.
#define BUDGET	 0.01
#define SECONDS	 64

/* The other one is what a second thread does evenly, where there is one. */
enum function_of { LAUNCH, OTHER, FUNCTIONS };

static const uint16_t functions_of[FUNCTIONS] = { FN_LAUNCH, FN_OTHER };

enum kind {
	STEADY,
	PHASES,
	RAMPS,
	BURSTS,
	PAUSES,
	STEPS,
	EVENTS,
	ALTERNATING,
	WALK,
	THREADS,
	KINDS,
};

static const char *const kinds[KINDS] = {
	"steady",	"phases", "ramps",	 "bursts",	"pauses",
	"synced steps", "events", "alternating", "random walk", "two threads",
};

/* How long programs run, how long a link takes on this host, and how wide intervals are at most: of
 * half of the programs, and of nine of ten. */
static const struct host {
	const char *name;
	double least_s, most_s, link_ns, median, nine_of_ten;
} hosts[] = {
	{ "1 to 2.5 s", 1, 2.5, 15 * MS, 0.22, 0.8 },
	{ "3 to 6 s", 3, 6, 15 * MS, 0.14, 0.4 },
	{ "3 to 6 s, busy", 3, 6, 150 * MS, 0.14, 0.5 },
	{ "20 to 60 s", 20, 60, 15 * MS, 0.21, 0.95 },
};
#define PROGRAMS (ARRAY_SIZE(hosts) * KINDS * TRIALS)

/* A program, and what is seen of it. */
struct rhythm {
	const struct host *host;
	enum kind kind;
	struct watch watch;
	struct tally tally;
	uint32_t id;
	bool open, wanted;
	uint64_t now_ns, tick_ns, at_ns; /* at_ns: the links change */
	uint64_t asked_ns;
	uint64_t seen[FUNCTIONS][SECONDS + 8], made[FUNCTIONS];
	/* Of the phase that goes on: */
	uint64_t until_ns;
	double rate, wait_ns, level;
	bool other;
};

static struct trial {
	double truth, told, by;
	bool windows;
} trials[PROGRAMS + 1][FUNCTIONS];

static double between(double least, double most)
{
	return least + (most - least) * uniform();
}

/* As many each time as it is larger. */
static double spread(double least, double most)
{
	return least * exp(log(most / least) * uniform());
}

/* As daemon/price/told.c does it. */
static void take_cycle(struct rhythm *rhythm, struct store *store)
{
	struct watch_cycle cycle;
	struct core_watch row;

	while (watch_take_cycle(&rhythm->watch, &cycle)) {
		tally_cycle(&rhythm->tally, &cycle);
		row = row_of_cycle(&cycle, rhythm->id, PRICE_PROBES);
		store_add(store, &row);
	}
}

static uint64_t next_tick_ns(const struct rhythm *rhythm)
{
	uint64_t rests_ns = watch_rests_until(&rhythm->watch);
	uint64_t soon_ns = rhythm->tick_ns + TICK_NS, late_ns = rhythm->tick_ns + GAP_NS;

	if (rests_ns == UINT64_MAX || rests_ns < soon_ns)
		return soon_ns;
	return rests_ns < late_ns ? rests_ns : late_ns;
}

/* Who looks at it all the time, as `tsctl top` does, changes nothing. */
static void look(struct rhythm *rhythm, struct store *store)
{
	if (rhythm->id % 2 || rhythm->tick_ns < rhythm->asked_ns + SECOND_NS)
		return;
	rhythm->asked_ns = rhythm->tick_ns;
	watch_tell(&rhythm->watch, rhythm->tick_ns);
	take_cycle(rhythm, store);
}

static void tick(struct rhythm *rhythm, struct store *store)
{
	bool whole = rhythm->watch.phase == WATCH_WHOLE && rhythm->watch.since_ns;
	bool wanted = watch_tick(&rhythm->watch, rhythm->tick_ns, rhythm->open);

	if (wanted && rhythm->open && !tally_is_open(&rhythm->tally))
		tally_open(&rhythm->tally, rhythm->tick_ns);
	take_cycle(rhythm, store);
	if (whole)
		tally_take(&rhythm->tally, rhythm->tick_ns);
	if (wanted != rhythm->wanted) {
		rhythm->wanted = wanted;
		rhythm->at_ns = rhythm->tick_ns + (uint64_t)between(0.5 * rhythm->host->link_ns,
								    1.5 * rhythm->host->link_ns);
		if (!wanted)
			tally_shut(&rhythm->tally, rhythm->tick_ns, 0);
	}
	if (rhythm->tick_ns >= rhythm->at_ns)
		rhythm->open = wanted;
	look(rhythm, store);
	rhythm->tick_ns = next_tick_ns(rhythm);
}

static void pass(struct rhythm *rhythm, double ns, struct store *store)
{
	rhythm->now_ns += (uint64_t)ns;
	while (rhythm->tick_ns <= rhythm->now_ns)
		tick(rhythm, store);
}

static uint64_t second_of(const struct rhythm *rhythm)
{
	return rhythm->now_ns / SECOND_NS - START_NS / SECOND_NS;
}

static void launch(struct rhythm *rhythm, enum function_of which, double count, struct store *store)
{
	for (uint64_t i = 0; i < (uint64_t)count; i++) {
		rhythm->made[which]++;
		if (rhythm->open && tally_hit(&rhythm->tally, rhythm->now_ns)) {
			rhythm->seen[which][second_of(rhythm)]++;
			if (watch_hit(&rhythm->watch))
				rhythm->tick_ns = rhythm->now_ns;
		}
		pass(rhythm, rhythm->open ? CALL_NS + HIT_NS : CALL_NS, store);
	}
}

/* A call that is always seen. */
static void synchronize(struct rhythm *rhythm, struct store *store)
{
	watch_cold_hits(&rhythm->watch, 2);
	watch_cold_call(&rhythm->watch);
	watch_cold(&rhythm->watch, rhythm->now_ns);
	pass(rhythm, CALL_NS + HIT_NS, store);
}

static bool is_next(struct rhythm *rhythm, double least_ms, double most_ms)
{
	if (rhythm->now_ns < rhythm->until_ns)
		return false;
	rhythm->until_ns = rhythm->now_ns + (uint64_t)(between(least_ms, most_ms) * MS);
	rhythm->other = !rhythm->other;
	return true;
}

/* Some calls and a wait. */
static void play(struct rhythm *rhythm, struct store *store)
{
	double level = rhythm->level, many = level, wait_ns = MS * between(0.8, 1.2);

	switch (rhythm->kind) {
	case PHASES:
		if (is_next(rhythm, 50, 1500))
			rhythm->rate = uniform() < 0.2 ? 0 : between(1, 2 * level);
		many = rhythm->rate;
		break;
	case RAMPS:
		is_next(rhythm, 500, 4000);
		rhythm->rate += level / 500;
		if (rhythm->rate > 2 * level)
			rhythm->rate = 0;
		many = rhythm->rate;
		break;
	case BURSTS:
		many = uniform() < 0.05 ? 20 * level : 0;
		break;
	case PAUSES:
		if (is_next(rhythm, 200, 1000) && rhythm->other)
			wait_ns = between(300, 2000) * MS;
		break;
	case STEPS:
		if (is_next(rhythm, 200, 2000))
			rhythm->wait_ns = spread(2, 60) * MS;
		many = 10 * level;
		wait_ns = rhythm->wait_ns * between(0.9, 1.1);
		break;
	case EVENTS:
		if (is_next(rhythm, 200, 2000))
			rhythm->wait_ns = spread(0.3, 3) * MS;
		many = between(0, 2 * level);
		wait_ns = rhythm->wait_ns * between(0.5, 1.5);
		break;
	case ALTERNATING:
		is_next(rhythm, 100, 400);
		many = rhythm->other ? level : level / 5;
		wait_ns = rhythm->other ? wait_ns : wait_ns / 5;
		break;
	case WALK:
		rhythm->rate = fmin(fmax(rhythm->rate + between(-3, 3), 0), 3 * level);
		many = rhythm->rate;
		break;
	case THREADS:
		if (is_next(rhythm, 50, 1500))
			rhythm->rate = uniform() < 0.3 ? 0 : between(1, 2 * level);
		many = rhythm->rate;
		launch(rhythm, OTHER, round(level / 2), store);
		break;
	default:
		break;
	}
	launch(rhythm, LAUNCH, round(many), store);
	synchronize(rhythm, store);
	pass(rhythm, wait_ns, store);
}

static void run(const struct host *host, enum kind kind, uint32_t id, struct store *store)
{
	const struct watch_config config = { .budget = BUDGET, .hit_ns = (uint64_t)HIT_NS };
	struct rhythm rhythm = {
		.host = host,
		.kind = kind,
		.id = id,
		.now_ns = START_NS,
		.tick_ns = START_NS,
		.open = true,
		.wanted = true,
		.level = spread(8, 60),
	};
	uint64_t end_ns;

	rhythm.rate = between(0, 2 * rhythm.level);
	end_ns = START_NS + (uint64_t)(between(host->least_s, host->most_s) * 1e9);
	watch_init(&rhythm.watch, &config, id * 0x9e3779b97f4a7c15);
	tally_init(&rhythm.tally);
	while (rhythm.now_ns < end_ns)
		play(&rhythm, store);
	watch_end(&rhythm.watch, rhythm.now_ns);
	take_cycle(&rhythm, store);
	for (uint64_t i = 0; i < FUNCTIONS * ARRAY_SIZE(rhythm.seen[0]); i++) {
		uint64_t which = i % FUNCTIONS, second = i / FUNCTIONS;

		if (rhythm.seen[which][second])
			add_rollup(store, id, functions_of[which], OP_LAUNCH,
				   rhythm.seen[which][second],
				   (struct core_rollup){ .second = START_NS / SECOND_NS + second });
	}
	add_process(store, id, PID + id, rhythm.now_ns);
	store_commit(store, START_NS); /* so nothing is old enough to be condensed */
	for (int which = 0; which < FUNCTIONS; which++)
		trials[id][which].truth = (double)rhythm.made[which];
}

static void estimate(const struct fixture *fixture)
{
	Tracesmith__V1__QueryRequest request = TRACESMITH__V1__QUERY_REQUEST__INIT;
	struct answer_text answer = { 0 };
	double pid;

	request.name = (char *)"launches";
	request.limit = FUNCTIONS * PROGRAMS;
	run_named(fixture, &request, &answer);
	assert_in_range(answer.rows, PROGRAMS, FUNCTIONS * PROGRAMS);
	for (char *row = strstr(answer.text, "{\"pid\""); row; row = strstr(row, "\n{")) {
		struct trial *trial;

		row += *row == '\n';
		row[strcspn(row, "\n")] = '\0';
		pid = number(row, "pid");
		trial = &trials[(int)pid - PID][!!strstr(row, "KernelEx")];
		trial->told = number(row, "calls");
		trial->windows = row_number(row, "plus_minus", &trial->by);
		row += strlen(row);
		*row = '\n';
	}
	answer_text_done(&answer);
}

static int setup(void **state)
{
	struct fixture *fixture;
	uint32_t id = 0;

	if (windows_setup(state) != 0)
		return -1;
	fixture = *state;
	srand(getenv("TS_SEED") ? (unsigned int)atoi(getenv("TS_SEED")) : 3);
	for (size_t host = 0; host < ARRAY_SIZE(hosts); host++)
		for (int kind = 0; kind < KINDS; kind++)
			for (int i = 0; i < TRIALS; i++)
				run(&hosts[host], (enum kind)kind, ++id, fixture->store);
	fixture_commit(fixture, START_NS);
	estimate(fixture);
	return 0;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

struct summary {
	size_t windows, covered;
	double median, nine_of_ten, off, error, worst; /* parts of the truth */
};

static struct summary sum_up(size_t from, size_t count)
{
	struct summary summary = { 0 };
	double by[FUNCTIONS * PROGRAMS];

	for (size_t i = FUNCTIONS * from; i < FUNCTIONS * (from + count); i++) {
		const struct trial *trial = &trials[i / FUNCTIONS][i % FUNCTIONS];
		double off = trial->told - trial->truth;

		/* It was watched whole. */
		if (!trial->windows && trial->told == trial->truth)
			continue;
		by[summary.windows++] = trial->by / trial->truth;
		summary.covered += fabs(off) <= trial->by + 1;
		summary.off += off / trial->truth;
		summary.error += fabs(off) / trial->truth;
		summary.worst = fmax(summary.worst, fabs(off) / fmax(trial->by, 1));
	}
	qsort(by, summary.windows, sizeof(*by), by_size);
	summary.median = summary.windows ? by[summary.windows / 2] : 0;
	summary.nine_of_ten = summary.windows ? by[summary.windows * 9 / 10] : 0;
	summary.off /= (double)summary.windows;
	summary.error /= (double)summary.windows;
	return summary;
}

static void print(const char *name, const struct summary *summary)
{
	printf("%-14s %4zu  covered %5.1f %%  median %5.1f %%  p90 %5.1f %%  bias %5.1f %%  "
	       "off %5.1f %%  worst %.1f\n",
	       name, summary->windows, 100. * (double)summary->covered / (double)summary->windows,
	       100 * summary->median, 100 * summary->nine_of_ten, 100 * summary->off,
	       100 * summary->error, summary->worst);
}

static void print_kinds(size_t first)
{
	for (size_t kind = 0; kind < KINDS; kind++) {
		struct summary summary = sum_up(first + kind * TRIALS, TRIALS);

		print(kinds[kind], &summary);
	}
}

static void estimates_hold_and_are_of_use(void **state)
{
	struct summary all;

	for (size_t host = 0; host < ARRAY_SIZE(hosts) && getenv("TS_TABLE"); host++) {
		all = sum_up(1 + host * KINDS * TRIALS, KINDS * TRIALS);
		print_kinds(1 + host * KINDS * TRIALS);
		print(hosts[host].name, &all);
	}
	for (size_t host = 0; host < ARRAY_SIZE(hosts); host++) {
		all = sum_up(1 + host * KINDS * TRIALS, KINDS * TRIALS);
		assert_true(all.covered * 100 >= all.windows * 88);
		assert_true(all.median <= hosts[host].median);
		assert_true(all.nine_of_ten <= hosts[host].nine_of_ten);
		assert_true(fabs(all.off) < 0.03);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(estimates_hold_and_are_of_use),
	};

	return cmocka_run_group_tests(tests, setup, fixture_teardown);
}
