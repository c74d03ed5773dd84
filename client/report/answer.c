/* Answer: keeps what comes; stacks are left out, their rows have a column `where`. */
#include "client/report/answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/output/loss.h"
#include "client/output/table.h"
#include "core/base/vector.h"

/* For the units of cells. */
struct taking {
	struct report_answer *answer;
	struct table table;
};

static const char *keep(struct report_answer *answer, const char *text)
{
	return arena_text(&answer->arena, text, strlen(text));
}

static int take_columns(struct report_answer *answer, const Tracesmith__V1__Columns *columns)
{
	if (answer->columns || columns->n_column > ANSWER_COLUMNS_MAX)
		return -EPROTO;
	for (size_t i = 0; i < columns->n_column; i++) {
		answer->type[i] = (uint8_t)columns->column[i]->type;
		answer->column[i] = keep(answer, columns->column[i]->name);
		if (!answer->column[i])
			return -ENOMEM;
		answer->columns++;
	}
	return 0;
}

static int take_row(struct taking *taking, const Tracesmith__V1__Row *row)
{
	struct report_answer *answer = taking->answer;
	struct answer_row *kept;

	if (row->n_value != answer->columns)
		return -EPROTO;
	if (VECTOR_ROOM(answer->row, answer->room, answer->rows + 1) < 0)
		return -ENOMEM;
	kept = &answer->row[answer->rows++];
	for (size_t i = 0; i < row->n_value; i++) {
		const Tracesmith__V1__Value *value = row->value[i];
		_cleanup_(freep) char *cell = table_cell(&taking->table, value, answer->type[i]);

		kept->known[i] = value->value_case != TRACESMITH__V1__VALUE__VALUE__NOT_SET;
		kept->number[i] = value->value_case == TRACESMITH__V1__VALUE__VALUE_INTEGER
					  ? value->integer
					  : 0;
		kept->cell[i] = cell ? keep(answer, cell) : NULL;
		if (!kept->cell[i])
			return -ENOMEM;
	}
	return 0;
}

static int take_end(struct report_answer *answer, const Tracesmith__V1__Done *done)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *file = open_memstream(&text, &size);

	if (!file)
		return -ENOMEM;
	loss_write(file, done);
	if (fclose(file) != 0)
		return -ENOMEM;
	text[strcspn(text, "\n")] = '\0';
	answer->loss = keep(answer, text);
	answer->note = keep(answer, done->note ? done->note : "");
	return answer->loss && answer->note ? 0 : -ENOMEM;
}

static int take(void *data, const Tracesmith__V1__Reply *reply)
{
	struct taking *taking = data;
	int r = 0;

	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_COLUMNS)
		r = take_columns(taking->answer, reply->columns);
	else if (reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE)
		r = take_end(taking->answer, reply->done);
	else if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ROWS)
		for (size_t i = 0; r == 0 && i < reply->rows->n_row; i++)
			r = take_row(taking, reply->rows->row[i]);
	if (r < 0)
		complain("Cannot interpret the daemon's answer: %s", strerror(-r));
	return r;
}

int report_ask(struct link *link, const struct options *options, const char *query, uint64_t limit,
	       uint32_t by, struct report_answer *ret)
{
	Tracesmith__V1__QueryRequest what = TRACESMITH__V1__QUERY_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	struct taking taking = { .answer = ret };

	*ret = (struct report_answer){ .note = "", .loss = "" };
	table_init(&taking.table, options, query, link_hello(link)->wall_offset_ns);
	what.name = (char *)query;
	what.pid = (uint32_t)options->pid;
	what.limit = limit;
	what.by = by;
	if (options->given & OPTION(SINCE))
		what.since_ns = link_time(link, &options->since);
	if (options->given & OPTION(UNTIL))
		what.until_ns = link_time(link, &options->until);
	request.body_case = TRACESMITH__V1__REQUEST__BODY_QUERY;
	request.query = &what;
	return link_converse(link, &request, take, &taking, NULL);
}

void report_answer_done(struct report_answer *answer)
{
	free(answer->row);
	arena_clear(&answer->arena);
	*answer = (struct report_answer){ 0 };
}

static size_t find(const struct report_answer *answer, size_t row, const char *column)
{
	size_t i = 0;

	while (i < answer->columns && strcmp(answer->column[i], column) != 0)
		i++;
	return row < answer->rows && answer->row[row].known[i] ? i : ANSWER_COLUMNS_MAX;
}

int64_t answer_number(const struct report_answer *answer, size_t row, const char *column)
{
	size_t i = find(answer, row, column);

	return i < answer->columns ? answer->row[row].number[i] : 0;
}

const char *answer_cell(const struct report_answer *answer, size_t row, const char *column)
{
	size_t i = find(answer, row, column);

	return i < answer->columns ? answer->row[row].cell[i] : "";
}

int64_t answer_sum(const struct report_answer *answer, const char *column)
{
	int64_t sum = 0;

	for (size_t i = 0; i < answer->rows; i++)
		sum += answer_number(answer, i, column);
	return sum;
}
