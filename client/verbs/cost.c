/* tsctl cost: what tracing costs: a table of all processes, or sentences about one, with what other
 * budgets would make of it. Only what was measured, or follows from it, is told. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/base/argument.h"
#include "client/link/ask.h"
#include "client/link/link.h"
#include "client/link/rows.h"
#include "client/output/json.h"
#include "client/verbs/command.h"
#include "core/base/array.h"
#include "core/base/clock.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/base/utf8.h"
#include "core/price/share.h"

#define PPM	    1e6
#define PERCENT_PPM 1e4
#define ASK_NS	    (250 * NS_PER_MS)
#define PARTS_MAX   8
#define TEXT_MAX    32
#define SHARE_TEXT  64
#define WATCHED_MIN 0.01 /* below it windows come about as seldom as they may */

/* Columns of the query. */
#define FIELDS(X)                                                                                  \
	X(COMM, "comm")                                                                            \
	X(PART, "part")                                                                            \
	X(COST, "cost")                                                                            \
	X(LOW, "low")                                                                              \
	X(HIGH, "high")                                                                            \
	X(BUDGET, "budget")                                                                        \
	X(UNTIL, "until_ns")                                                                       \
	X(OVER, "over")                                                                            \
	X(WATCHED, "watched")                                                                      \
	X(WHOLE, "whole")                                                                          \
	X(WHOLE_LOW, "whole_low")                                                                  \
	X(WHOLE_HIGH, "whole_high")                                                                \
	X(COLD, "cold")                                                                            \
	X(CPU, "cpu")                                                                              \
	X(CALLS, "calls_per_s")                                                                    \
	X(HIT, "hit_ns")                                                                           \
	X(TURNS, "turns")                                                                          \
	X(TURNED, "turned_ns")

enum field {
#define X(id, name) FIELD_##id,
	FIELDS(X)
#undef X
		FIELD_COUNT
};

static const char *const field_names[] = {
#define X(id, name) name,
	FIELDS(X)
#undef X
};

/* Shares in parts per million. */
struct share {
	int64_t middle, low, high;
	bool measured; /* false: there is no interval */
};

struct part {
	char name[TEXT_MAX];
	struct share cost, whole;
	int64_t watched, cold, cpu, calls_per_s, hit_ns, turns, turned_ns;
	bool over;
};

struct cost {
	uint32_t pid;
	uint64_t now_ns; /* of the daemon */
	char comm[TEXT_MAX];
	int64_t budget, until_ns; /* 0: none */
	size_t count;
	struct part part[PARTS_MAX];
	struct share sum;
	int column[FIELD_COUNT]; /* -1: this daemon does not have it */
	char *note;
};

static void cost_done(struct cost *cost)
{
	free(cost->note);
}

static int take_columns(struct cost *cost, const Tracesmith__V1__Columns *columns)
{
	for (int f = 0; f < FIELD_COUNT; f++) {
		cost->column[f] = -1;
		for (size_t i = 0; i < columns->n_column; i++)
			if (strcmp(columns->column[i]->name, field_names[f]) == 0)
				cost->column[f] = (int)i;
	}
	return cost->column[FIELD_PART] < 0 ? -EPROTO : 0;
}

static const Tracesmith__V1__Value *value_of(const struct cost *cost,
					     const Tracesmith__V1__Row *row, enum field field)
{
	int column = cost->column[field];

	return column >= 0 && (size_t)column < row->n_value ? row->value[column] : NULL;
}

static int64_t number_of(const struct cost *cost, const Tracesmith__V1__Row *row, enum field field)
{
	const Tracesmith__V1__Value *value = value_of(cost, row, field);

	return value ? rows_integer(value) : 0;
}

static void text_of(const struct cost *cost, const Tracesmith__V1__Row *row, enum field field,
		    char text[TEXT_MAX])
{
	const Tracesmith__V1__Value *value = value_of(cost, row, field);
	const char *found = value ? rows_text(value) : NULL;

	snprintf(text, TEXT_MAX, "%s", found ? found : "");
}

static struct share share_of(const struct cost *cost, const Tracesmith__V1__Row *row,
			     enum field middle, enum field low, enum field high)
{
	const Tracesmith__V1__Value *value = value_of(cost, row, low);

	return (struct share){
		.middle = number_of(cost, row, middle),
		.low = number_of(cost, row, low),
		.high = number_of(cost, row, high),
		.measured = value && value->value_case == TRACESMITH__V1__VALUE__VALUE_INTEGER,
	};
}

static bool is_exact(const struct part *part)
{
	return strcmp(part->name, "exact") == 0;
}

static bool is_budgeted(const struct part *part)
{
	return is_exact(part) || strcmp(part->name, "probes") == 0;
}

static void take_row(struct cost *cost, const Tracesmith__V1__Row *row)
{
	struct part *part = &cost->part[cost->count];

	if (cost->count == PARTS_MAX)
		return;
	cost->count++;
	text_of(cost, row, FIELD_COMM, cost->comm);
	text_of(cost, row, FIELD_PART, part->name);
	part->cost = share_of(cost, row, FIELD_COST, FIELD_LOW, FIELD_HIGH);
	part->whole = share_of(cost, row, FIELD_WHOLE, FIELD_WHOLE_LOW, FIELD_WHOLE_HIGH);
	part->watched = number_of(cost, row, FIELD_WATCHED);
	part->cold = number_of(cost, row, FIELD_COLD);
	part->cpu = number_of(cost, row, FIELD_CPU);
	part->calls_per_s = number_of(cost, row, FIELD_CALLS);
	part->hit_ns = number_of(cost, row, FIELD_HIT);
	part->turns = number_of(cost, row, FIELD_TURNS);
	part->turned_ns = number_of(cost, row, FIELD_TURNED);
	part->over = number_of(cost, row, FIELD_OVER);
	if (is_budgeted(part)) {
		cost->budget = number_of(cost, row, FIELD_BUDGET);
		cost->until_ns = number_of(cost, row, FIELD_UNTIL);
	}
	cost->sum.measured = part->cost.measured && (cost->count == 1 || cost->sum.measured);
	cost->sum.middle += part->cost.middle;
	cost->sum.low += part->cost.low;
	cost->sum.high += part->cost.high;
}

static int take(void *data, const Tracesmith__V1__Reply *reply)
{
	struct cost *cost = data;

	switch (reply->body_case) {
	case TRACESMITH__V1__REPLY__BODY_COLUMNS:
		return take_columns(cost, reply->columns);
	case TRACESMITH__V1__REPLY__BODY_ROWS:
		for (size_t i = 0; i < reply->rows->n_row; i++)
			take_row(cost, reply->rows->row[i]);
		return 0;
	case TRACESMITH__V1__REPLY__BODY_DONE:
		if (reply->done->note && *reply->done->note)
			cost->note = strdup(reply->done->note);
		return 0;
	default:
		return -EPROTO;
	}
}

static int ask_cost(struct link *link, struct cost *cost)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	int r;

	query.name = "cost";
	query.pid = cost->pid;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_QUERY;
	request.query = &query;
	r = link_converse(link, &request, take, cost, NULL);
	if (r == -EPROTO)
		complain("Unexpected answer from the daemon");
	return r;
}

static int64_t price_within(const struct part *part, int64_t whole, double watched)
{
	double price = share_price((double)(whole - part->cold) / PPM, 0, watched);

	return (int64_t)(price * PPM) + part->cold;
}

/* What a budget would make of it, as the daemon keeps one: on the safe side of the middle, and
 * after what calls that are always watched cost. False: not told, because nothing would change or
 * it is out of reach. */
static bool foresee(const struct part *part, int64_t budget, struct share *ret,
		    int64_t *ret_watched)
{
	const struct share *whole = &part->whole;
	double middle = (double)(whole->middle > part->cold ? whole->middle - part->cold : 0);
	double high = (double)(whole->high - part->cold), watched = 1;
	double judged = whole->measured ? (middle + high) / 2 : middle;

	if (budget && (whole->measured ? whole->high : whole->middle) <= budget)
		return false;
	if (budget)
		watched = share_within((double)(budget - part->cold) / PPM, judged / PPM, 0);
	if (watched < WATCHED_MIN)
		return false;
	*ret = (struct share){
		.middle = price_within(part, whole->middle, watched),
		.low = price_within(part, whole->low, watched),
		.high = price_within(part, whole->high, watched),
		.measured = whole->measured,
	};
	*ret_watched = (int64_t)(watched * PPM);
	return true;
}

/* The n-th other budget that would change something; false after the last. */
static bool other_budget(const struct cost *cost, const struct part *part, size_t *n,
			 int64_t *ret_budget, struct share *ret, int64_t *ret_watched)
{
	static const int64_t budgets[] = { 0, 50000, 20000, 10000, 5000 };

	while (*n < ARRAY_SIZE(budgets)) {
		*ret_budget = budgets[(*n)++];
		/* What windows of the exact tier cost by coming and going is not told. */
		if (*ret_budget == cost->budget || (*ret_budget && is_exact(part)) ||
		    (*ret_budget == 0 && part->watched >= (int64_t)PPM))
			continue;
		if (foresee(part, *ret_budget, ret, ret_watched))
			return true;
	}
	return false;
}

/* The part that the budget bounds. */
static const struct part *find_budgeted(const struct cost *cost)
{
	for (size_t i = 0; i < cost->count; i++)
		if (is_budgeted(&cost->part[i]))
			return &cost->part[i];
	return NULL;
}

static const char *percent(char text[SHARE_TEXT], int64_t ppm)
{
	snprintf(text, SHARE_TEXT, "%.2f %%", (double)ppm / PERCENT_PPM);
	return text;
}

static const char *interval(char text[SHARE_TEXT], const struct share *share)
{
	*text = '\0';
	if (share->measured)
		snprintf(text, SHARE_TEXT, " (%.2f to %.2f %%)", (double)share->low / PERCENT_PPM,
			 (double)share->high / PERCENT_PPM);
	return text;
}

static void write_head(const struct cost *cost)
{
	char comm[3 * TEXT_MAX], share[SHARE_TEXT], range[SHARE_TEXT], time[UNITS_TEXT_SIZE];
	bool nothing = cost->sum.measured && cost->sum.low <= 0;

	utf8_visible(comm, cost->comm, strlen(cost->comm));
	interval(range, &cost->sum);
	if (nothing)
		printf("Process %u (%s) pays nothing in speed that can be measured%s", cost->pid,
		       comm, range);
	else
		printf("Process %u (%s) pays %s of its speed%s", cost->pid, comm,
		       percent(share, cost->sum.middle), range);
	if (cost->budget)
		printf("; its budget is %.4g %%", (double)cost->budget / PERCENT_PPM);
	else
		fputs("; it has no budget", stdout);
	if (cost->until_ns > (int64_t)cost->now_ns)
		printf(" for another %s",
		       units_nanoseconds(time, cost->until_ns - (int64_t)cost->now_ns));
	putchar('\n');
}

static void write_basis(const struct cost *cost, const struct part *part)
{
	char time[UNITS_TEXT_SIZE];
	int64_t ago_ns = (int64_t)cost->now_ns - part->turned_ns;

	if (part->cost.measured) {
		printf("measured in place, %" PRId64 " turns", part->turns);
		if (part->turned_ns)
			printf(", %s ago", units_nanoseconds(time, ago_ns > 0 ? ago_ns : 0));
	} else if (part->hit_ns) {
		printf("estimated from %" PRId64 " calls/s at %s", part->calls_per_s,
		       units_nanoseconds(time, part->hit_ns));
	} else {
		fputs("estimated", stdout);
	}
	putchar('\n');
}

static void write_part(const struct cost *cost, const struct part *part)
{
	char share[SHARE_TEXT], range[SHARE_TEXT];

	printf("  %s: %s%s, ", part->name, percent(share, part->cost.middle),
	       interval(range, &part->cost));
	write_basis(cost, part);
	if (part->watched < (int64_t)PPM)
		printf("    watched %.1f %% of the time; all of the time it would be %s%s\n",
		       (double)part->watched / PERCENT_PPM, percent(share, part->whole.middle),
		       interval(range, &part->whole));
	if (part->cpu)
		printf("    CPU time: at least %s of a core\n", percent(share, part->cpu));
	if (part->over)
		puts("    the budget is out of reach: windows come as seldom as they may");
}

static void write_others(const struct cost *cost)
{
	const struct part *part = find_budgeted(cost);
	char name[SHARE_TEXT], share[SHARE_TEXT], range[SHARE_TEXT];
	int64_t budget, watched;
	bool first = true;
	struct share then;

	for (size_t n = 0; part && other_budget(cost, part, &n, &budget, &then, &watched);) {
		if (first)
			printf("With another budget ('tsctl budget %u …') it would cost:\n",
			       cost->pid);
		first = false;
		snprintf(name, sizeof(name), "%.4g%%", (double)budget / PERCENT_PPM);
		printf("  %-5s %s%s, %+.2f points, watched %.1f %% of the time\n",
		       budget ? name : "none", percent(share, then.middle), interval(range, &then),
		       (double)(then.middle - part->cost.middle) / PERCENT_PPM,
		       (double)watched / PERCENT_PPM);
	}
}

static void number_json(const char *name, int64_t number, bool known)
{
	printf(",\"%s\":", name);
	printf(known ? "%" PRId64 : "null", number);
}

static void share_json(const char *prefix, const char *middle, const struct share *share)
{
	char name[TEXT_MAX];

	number_json(middle, share->middle, true);
	snprintf(name, sizeof(name), "%slow", prefix);
	number_json(name, share->low, share->measured);
	snprintf(name, sizeof(name), "%shigh", prefix);
	number_json(name, share->high, share->measured);
}

static void part_json(const struct part *part)
{
	fputs("{\"part\":", stdout);
	json_string(stdout, part->name);
	share_json("", "cost", &part->cost);
	number_json("turns", part->turns, true);
	number_json("turned_ns", part->turned_ns, part->turned_ns);
	number_json("watched", part->watched, true);
	share_json("whole_", "whole", &part->whole);
	number_json("cpu", part->cpu, part->cpu);
	number_json("calls_per_s", part->calls_per_s, part->hit_ns);
	number_json("hit_ns", part->hit_ns, part->hit_ns);
	printf(",\"measured\":%s,\"over\":%s}", part->cost.measured ? "true" : "false",
	       part->over ? "true" : "false");
}

static void others_json(const struct cost *cost)
{
	const struct part *part = find_budgeted(cost);
	int64_t budget, watched;
	struct share then;
	const char *comma = "";

	for (size_t n = 0; part && other_budget(cost, part, &n, &budget, &then, &watched);) {
		printf("%s{\"part\":", comma);
		json_string(stdout, part->name);
		comma = ",";
		number_json("budget", budget, budget);
		share_json("", "cost", &then);
		number_json("watched", watched, true);
		putchar('}');
	}
}

static void write_json(const struct cost *cost)
{
	printf("{\"pid\":%u,\"comm\":", cost->pid);
	json_string(stdout, cost->comm);
	share_json("", "cost", &cost->sum);
	number_json("budget", cost->budget, cost->budget);
	number_json("until_ns", cost->until_ns, cost->until_ns);
	fputs(",\"parts\":[", stdout);
	for (size_t i = 0; i < cost->count; i++) {
		fputs(i ? "," : "", stdout);
		part_json(&cost->part[i]);
	}
	fputs("],\"others\":[", stdout);
	others_json(cost);
	puts("]}");
}

static void write_cost(const struct options *options, const struct cost *cost)
{
	if (options->given & OPTION_JSON) {
		write_json(cost);
		return;
	}
	write_head(cost);
	for (size_t i = 0; i < cost->count; i++)
		write_part(cost, &cost->part[i]);
	write_others(cost);
}

static int ask_measure(struct link *link, uint32_t pid, bool start, Tracesmith__V1__Reply **ret)
{
	Tracesmith__V1__MeasureRequest measure = TRACESMITH__V1__MEASURE_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	int r;

	measure.pid = pid;
	measure.start = start;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_MEASURE;
	request.measure = &measure;
	r = link_send(link, &request);
	return r < 0 ? r : link_next(link, ret);
}

static int measure(struct link *link, uint32_t pid)
{
	const struct timespec pause = timespec_of(ASK_NS);
	bool progress = isatty(STDERR_FILENO), busy = true;
	int r = 0;

	for (bool start = true; r >= 0 && busy; start = false) {
		_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

		if (!start)
			nanosleep(&pause, NULL);
		r = ask_measure(link, pid, start, &reply);
		if (r >= 0 && reply->body_case != TRACESMITH__V1__REPLY__BODY_MEASURE) {
			complain("Unexpected answer from the daemon");
			r = -EPROTO;
		}
		if (r < 0)
			break;
		busy = reply->measure->busy;
		if (progress)
			fprintf(stderr, "\rMeasuring: %u of %u turns ", reply->measure->turns,
				reply->measure->wanted);
	}
	if (progress)
		fputs("\r\033[K", stderr);
	return r;
}

static int show(const struct options *options, struct link *link, uint32_t pid)
{
	_cleanup_(cost_done) struct cost cost = { .pid = pid };
	uint64_t asked_ns = clock_ns(CLOCK_MONOTONIC);

	if ((options->given & OPTION_NOW) && measure(link, pid) < 0)
		return EXIT_FAILED;
	cost.now_ns = link_hello(link)->now_ns + clock_ns(CLOCK_MONOTONIC) - asked_ns;
	if (ask_cost(link, &cost) < 0)
		return EXIT_FAILED;
	if (cost.count == 0)
		return complain("%s", cost.note ? cost.note : "Nothing is known of this process");
	write_cost(options, &cost);
	return EXIT_DONE;
}

int cmd_cost(const struct options *options, int count, char **argument)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct options asked = *options;
	uint32_t pid;

	if (count == 0 && (options->given & OPTION_NOW)) {
		complain("--now measures one process: name it ('tsctl cost PID --now')");
		return EXIT_USAGE;
	}
	if (count == 0)
		return ask_query(options, "cost");
	if (argument_pid(argument[0], &pid) < 0)
		return EXIT_USAGE;
	if (link_open(options, &link) < 0)
		return EXIT_FAILED;
	if (!(options->given & (OPTION_CSV | OPTION_WIDE)))
		return show(options, link, pid);
	if ((options->given & OPTION_NOW) && measure(link, pid) < 0)
		return EXIT_FAILED;
	asked.pid = pid;
	asked.given |= OPTION_PID;
	return ask_query(&asked, "cost");
}
