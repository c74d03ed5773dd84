/* Cost: the rows of the query, as parts of one process's cost. */
#include "client/cost/cost.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"

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
	X(RECORDS, "records")

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
	int column[FIELD_COUNT]; /* -1: this daemon does not have it */
};

void cost_done(struct cost *cost)
{
	free(cost->note);
}

bool cost_part_is(const struct cost_part *part, const char *name)
{
	return strcmp(part->name, name) == 0;
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

static int take_columns(struct asked *asked, const Tracesmith__V1__Columns *columns)
{
	for (int f = 0; f < FIELD_COUNT; f++) {
		asked->column[f] = -1;
		for (size_t i = 0; i < columns->n_column; i++)
			if (strcmp(columns->column[i]->name, field_names[f]) == 0)
				asked->column[f] = (int)i;
	}
	return asked->column[FIELD_PART] < 0 ? -EPROTO : 0;
}

static const Tracesmith__V1__Value *value_of(const struct asked *asked,
					     const Tracesmith__V1__Row *row, enum field field)
{
	int column = asked->column[field];

	return column >= 0 && (size_t)column < row->n_value ? row->value[column] : NULL;
}

static int64_t number_of(const struct asked *asked, const Tracesmith__V1__Row *row,
			 enum field field)
{
	const Tracesmith__V1__Value *value = value_of(asked, row, field);

	return value ? rows_integer(value) : 0;
}

static void text_of(const struct asked *asked, const Tracesmith__V1__Row *row, enum field field,
		    char text[COST_TEXT])
{
	const Tracesmith__V1__Value *value = value_of(asked, row, field);
	const char *found = value ? rows_text(value) : NULL;

	snprintf(text, COST_TEXT, "%s", found ? found : "");
}

static struct cost_share share_of(const struct asked *asked, const Tracesmith__V1__Row *row,
				  enum field middle, enum field low, enum field high)
{
	const Tracesmith__V1__Value *value = value_of(asked, row, low);

	return (struct cost_share){
		.middle = number_of(asked, row, middle),
		.low = number_of(asked, row, low),
		.high = number_of(asked, row, high),
		.measured = value && value->value_case == TRACESMITH__V1__VALUE__VALUE_INTEGER,
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

static void take_row(const struct asked *asked, const Tracesmith__V1__Row *row)
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
	if (cost_part_is(part, "stacks") || cost_part_is(part, "thread"))
		return;
	add_up(cost, part);
	cost->budget = number_of(asked, row, FIELD_BUDGET);
	cost->until_ns = number_of(asked, row, FIELD_UNTIL);
}

static int take(void *data, const Tracesmith__V1__Reply *reply)
{
	struct asked *asked = data;

	switch (reply->body_case) {
	case TRACESMITH__V1__REPLY__BODY_COLUMNS:
		return take_columns(asked, reply->columns);
	case TRACESMITH__V1__REPLY__BODY_ROWS:
		for (size_t i = 0; i < reply->rows->n_row; i++)
			take_row(asked, reply->rows->row[i]);
		return 0;
	case TRACESMITH__V1__REPLY__BODY_DONE:
		if (reply->done->note && *reply->done->note)
			asked->cost->note = strdup(reply->done->note);
		return 0;
	default:
		return -EPROTO;
	}
}

/* The budget of the settings, where a process may have another. */
static void ask_setting(struct link *link, struct cost *cost)
{
	Tracesmith__V1__StatusRequest status = TRACESMITH__V1__STATUS_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

	request.body_case = TRACESMITH__V1__REQUEST__BODY_STATUS;
	request.status = &status;
	if (link_send(link, &request) < 0 || link_next(link, &reply) < 0 ||
	    reply->body_case != TRACESMITH__V1__REPLY__BODY_STATUS)
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
	struct asked asked = { .cost = cost };
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	int r;

	query.name = "cost";
	query.pid = cost->pid;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_QUERY;
	request.query = &query;
	r = link_converse(link, &request, take, &asked, NULL);
	if (r == -EPROTO)
		complain("Unexpected answer from the daemon");
	if (r >= 0 && cost->count)
		ask_setting(link, cost);
	return r;
}
