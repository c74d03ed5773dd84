/* Cost: the rows of the query, as parts of one process's cost. */
#include "client/cost/cost.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/link.h"

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
	X(TURNED, "turned_ns")                                                                     \
	X(BASIS, "measured")                                                                       \
	X(RECORDS, "records")                                                                      \
	X(INSIDE, "inside")                                                                        \
	X(CYCLES, "cycles")

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

struct asked {
	struct cost *cost;
	const struct tracesmith_answer *answer;
	size_t column[FIELD_COUNT]; /* none of it: this daemon does not have it */
};

void cost_done(struct cost *cost)
{
	free(cost->note);
}

bool cost_part_is(const struct cost_part *part, const char *name)
{
	return strcmp(part->name, name) == 0;
}

bool cost_part_adds(const struct cost_part *part)
{
	return !cost_part_is(part, "stacks") && !cost_part_is(part, "stacks-inside") &&
	       !cost_part_is(part, "thread");
}

const struct cost_part *cost_find(const struct cost *cost, const char *name)
{
	for (size_t i = 0; i < cost->count; i++)
		if (cost_part_is(&cost->part[i], name))
			return &cost->part[i];
	return NULL;
}

const struct cost_part *cost_budgeted(const struct cost *cost)
{
	const struct cost_part *exact = cost_find(cost, "exact");

	return exact ? exact : cost_find(cost, "probes");
}

static void find_columns(struct asked *asked)
{
	const size_t count = tracesmith_answer_columns(asked->answer);

	for (int f = 0; f < FIELD_COUNT; f++) {
		asked->column[f] = count;
		for (size_t i = 0; i < count; i++)
			if (strcmp(tracesmith_answer_column(asked->answer, i, NULL),
				   field_names[f]) == 0)
				asked->column[f] = i;
	}
}

static struct tracesmith_cell cell_of(const struct asked *asked, size_t row, enum field field)
{
	struct tracesmith_cell cell;

	tracesmith_answer_cell(asked->answer, row, asked->column[field], &cell);
	return cell;
}

static int64_t number_of(const struct asked *asked, size_t row, enum field field)
{
	return cell_of(asked, row, field).integer;
}

static void text_of(const struct asked *asked, size_t row, enum field field, char text[COST_TEXT])
{
	const char *found = cell_of(asked, row, field).text;

	snprintf(text, COST_TEXT, "%s", found ? found : "");
}

static struct cost_share share_of(const struct asked *asked, size_t row, enum field middle,
				  enum field low, enum field high)
{
	return (struct cost_share){
		.middle = number_of(asked, row, middle),
		.low = number_of(asked, row, low),
		.high = number_of(asked, row, high),
		.measured = cell_of(asked, row, low).type == TRACESMITH_INTEGER,
	};
}

/* What is a share of another part is not to be added to it. */
static void add_up(struct cost *cost, const struct cost_part *part)
{
	cost->sum.measured = part->cost.measured && (!cost->summed++ || cost->sum.measured);
	cost->sum.middle += part->cost.middle;
	cost->sum.low += part->cost.low;
	cost->sum.high += part->cost.high;
}

static void take_row(const struct asked *asked, size_t row)
{
	struct cost *cost = asked->cost;
	struct cost_part *part = &cost->part[cost->count];

	if (cost->count == COST_PARTS_MAX)
		return;
	cost->count++;
	text_of(asked, row, FIELD_COMM, cost->comm);
	text_of(asked, row, FIELD_PART, part->name);
	part->cost = share_of(asked, row, FIELD_COST, FIELD_LOW, FIELD_HIGH);
	part->whole = share_of(asked, row, FIELD_WHOLE, FIELD_WHOLE_LOW, FIELD_WHOLE_HIGH);
	part->watched = number_of(asked, row, FIELD_WATCHED);
	part->cold = number_of(asked, row, FIELD_COLD);
	part->cpu = number_of(asked, row, FIELD_CPU);
	part->calls_per_s = number_of(asked, row, FIELD_CALLS);
	part->hit_ns = number_of(asked, row, FIELD_HIT);
	part->turns = number_of(asked, row, FIELD_TURNS);
	part->turned_ns = number_of(asked, row, FIELD_TURNED);
	part->over = number_of(asked, row, FIELD_OVER);
	part->records = (uint32_t)number_of(asked, row, FIELD_RECORDS);
	text_of(asked, row, FIELD_BASIS, part->basis);
	part->inside = number_of(asked, row, FIELD_INSIDE);
	cost->cycles = number_of(asked, row, FIELD_CYCLES);
	if (!cost_part_adds(part))
		return;
	add_up(cost, part);
	cost->budget = number_of(asked, row, FIELD_BUDGET);
	cost->until_ns = number_of(asked, row, FIELD_UNTIL);
}

/* The budget of the settings, where a process may have another. */
static void ask_setting(struct link *link, struct cost *cost)
{
	Tracesmith__V1__StatusRequest status = TRACESMITH__V1__STATUS_REQUEST__INIT;
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

	if (link_single(link, &status.base, TRACESMITH__V1__REPLY__BODY_STATUS, &reply) < 0)
		return;
	for (size_t i = 0; i < reply->status->n_item; i++) {
		const Tracesmith__V1__StatusReply__Item *item = reply->status->item[i];

		if (strcmp(item->section, "price") != 0 || strcmp(item->name, "budget_ppm") != 0)
			continue;
		cost->setting_known = true;
		cost->setting = item->number;
	}
}

int cost_ask(struct link *link, struct cost *cost)
{
	_cleanup_(answer_freep) struct tracesmith_answer *answer = NULL;
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	struct asked asked = { .cost = cost };
	int r;

	query.name = "cost";
	query.pid = cost->pid;
	r = link_answer(link, &query.base, &answer);
	if (r < 0)
		return r;
	asked.answer = answer;
	find_columns(&asked);
	if (asked.column[FIELD_PART] == tracesmith_answer_columns(answer)) {
		complain("Unexpected answer from the daemon");
		return -EPROTO;
	}
	for (size_t row = 0; row < tracesmith_answer_rows(answer); row++)
		take_row(&asked, row);
	if (*tracesmith_answer_note(answer))
		cost->note = strdup(tracesmith_answer_note(answer));
	if (cost->count)
		ask_setting(link, cost);
	return 0;
}
