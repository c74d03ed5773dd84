/* Answer: keeps what comes; stacks are left out, their rows have a column `where`. */
#include "client/report/answer.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/output/loss.h"
#include "client/output/table.h"
#include "core/base/text.h"

static const char *keep(struct report_answer *answer, const char *text)
{
	return arena_text(&answer->arena, text, strlen(text));
}

static int keep_columns(struct report_answer *ret, const struct tracesmith_answer *answer)
{
	const size_t count = tracesmith_answer_columns(answer);

	if (count > ANSWER_COLUMNS_MAX)
		return -EPROTO;
	for (; ret->columns < count; ret->columns++) {
		enum tracesmith_unit unit;
		const char *name = tracesmith_answer_column(answer, ret->columns, &unit);

		ret->type[ret->columns] = (uint8_t)unit;
		ret->column[ret->columns] = keep(ret, name);
		if (!ret->column[ret->columns])
			return -ENOMEM;
	}
	return 0;
}

static int keep_row(struct report_answer *ret, const struct tracesmith_answer *answer,
		    const struct table *table)
{
	struct answer_row *row = &ret->row[ret->rows];

	for (size_t i = 0; i < ret->columns; i++) {
		const Tracesmith__V1__Value *value = answer_value(answer, ret->rows, i);
		_cleanup_(freep) char *text = table_cell(table, value, ret->type[i]);
		struct tracesmith_cell cell;

		tracesmith_answer_cell(answer, ret->rows, i, &cell);
		row->known[i] = cell.type != TRACESMITH_NULL;
		row->number[i] = cell.integer;
		row->cell[i] = text ? keep(ret, text) : NULL;
		if (!row->cell[i])
			return -ENOMEM;
	}
	ret->rows++;
	return 0;
}

static int keep_rows(struct report_answer *ret, const struct tracesmith_answer *answer,
		     const struct table *table)
{
	const size_t count = tracesmith_answer_rows(answer);
	int r = 0;

	ret->row = calloc(count + 1, sizeof(*ret->row));
	if (!ret->row)
		return -ENOMEM;
	while (r == 0 && ret->rows < count)
		r = keep_row(ret, answer, table);
	return r;
}

static int keep_end(struct report_answer *answer, const Tracesmith__V1__Done *done)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0;
	FILE *file = text_open(&text, &size);

	if (!file)
		return -ENOMEM;
	loss_write(file, done);
	if (text_close(file) < 0)
		return -ENOMEM;
	text[strcspn(text, "\n")] = '\0';
	answer->loss = keep(answer, text);
	answer->note = keep(answer, done->note ? done->note : "");
	return answer->loss && answer->note ? 0 : -ENOMEM;
}

int report_ask(struct link *link, const struct options *options, const char *query, uint64_t limit,
	       uint32_t by, struct report_answer *ret)
{
	Tracesmith__V1__QueryRequest what = TRACESMITH__V1__QUERY_REQUEST__INIT;
	_cleanup_(answer_freep) struct tracesmith_answer *answer = NULL;
	struct table table;
	int r;

	*ret = (struct report_answer){ .note = "", .loss = "" };
	table_init(&table, options, query, link_hello(link)->wall_offset_ns);
	what.name = (char *)query;
	what.pid = (uint32_t)options->pid;
	what.limit = limit;
	what.by = by;
	if (options->given & OPTION(SINCE))
		what.since_ns = link_time(link, &options->since);
	if (options->given & OPTION(UNTIL))
		what.until_ns = link_time(link, &options->until);
	r = link_answer(link, &what.base, &answer);
	if (r < 0)
		return r;
	r = keep_columns(ret, answer);
	if (r == 0)
		r = keep_rows(ret, answer, &table);
	if (r == 0)
		r = keep_end(ret, answer_end(answer));
	if (r == -ENOMEM)
		complain_memory();
	else if (r < 0)
		complain("Cannot interpret the daemon's answer: %s", strerror(-r));
	return r;
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
