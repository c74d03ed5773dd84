/* tsctl oom: what failed for lack of memory, and for one of these who held what at that moment. As
 * JSON, three answers in one object. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/link/ask.h"
#include "client/link/link.h"
#include "client/output/table.h"
#include "client/verbs/command.h"
#include "core/base/cleanup.h"
#include "core/base/units.h"
#include "core/base/utf8.h"

/* Of a row of the list, what is not shown by tables. */
static const struct {
	const char *column, *text;
} facts[] = {
	{ "time_ns", "when" },
	{ "comm", "process" },
	{ "pid", "pid" },
	{ "device", "device" },
	{ "outcome", "outcome" },
	{ "failures", "failures" },
	{ "fn", "call" },
	{ "kind", "kind" },
	{ "bytes", "asked for" },
	{ "free_bytes", "free" },
	{ "held_bytes", "held" },
	{ "own_bytes", "by itself" },
	{ "cached_bytes", "cached" },
	{ "pieces", "pieces" },
	{ "largest_bytes", "largest" },
	{ "fragmentation", "index" },
	{ "enough", "enough" },
	{ "where", "where" },
};

static size_t column_of(const struct tracesmith_answer *answer, const char *name)
{
	enum tracesmith_unit unit;
	size_t i = 0;

	while (i < tracesmith_answer_columns(answer) &&
	       strcmp(tracesmith_answer_column(answer, i, &unit), name) != 0)
		i++;
	return i;
}

static void write_stack(const Tracesmith__V1__Value *value)
{
	if (!value || value->value_case != TRACESMITH__V1__VALUE__VALUE_STACK)
		return;
	for (size_t i = 0; i < value->stack->n_frame; i++) {
		const char *frame = value->stack->frame[i];
		_cleanup_(freep) char *text = malloc(3 * strlen(frame) + 1);

		if (!text)
			return;
		utf8_visible(text, frame, strlen(frame));
		printf("             %s\n", text);
	}
}

static void write_facts(struct link *link, const struct options *options,
			const struct tracesmith_answer *answer)
{
	struct table table;

	table_init(&table, options, "oom", link_hello(link)->wall_offset_ns);
	for (size_t i = 0; i < sizeof(facts) / sizeof(*facts); i++) {
		size_t column = column_of(answer, facts[i].column);
		const Tracesmith__V1__Value *value = answer_value(answer, 0, column);
		_cleanup_(freep) char *text = NULL;
		enum tracesmith_unit unit;

		if (!value || value->value_case == TRACESMITH__V1__VALUE__VALUE__NOT_SET)
			continue;
		tracesmith_answer_column(answer, column, &unit);
		text = table_cell(&table, value, (Tracesmith__V1__Columns__Type)unit);
		if (text)
			printf("%-12s %s\n", facts[i].text, text);
	}
	write_stack(answer_value(answer, 0, column_of(answer, "stack")));
	table_done(&table);
}

static int ask_part(struct link *link, const struct options *options, const char *name,
		    uint32_t number)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;

	query.name = (char *)name;
	query.number = number;
	return ask_link(link, options, &query.base, name);
}

static int show(const struct options *options, struct link *link, uint32_t number)
{
	static const char *const parts[] = { "oom", "oom-held", "oom-stacks" };
	bool json = options->given & OPTION(JSON), csv = options->given & OPTION(CSV);
	int r = 0;

	for (int i = json || csv ? 0 : 1; r == 0 && i < 3; i++) {
		if (json)
			printf("%s\"%s\":", i ? "," : "{", parts[i]);
		else
			putchar('\n');
		r = ask_part(link, options, parts[i], number);
	}
	if (json && r == 0)
		puts("}");
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}

static int find(struct link *link, uint32_t number, struct tracesmith_answer **ret)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	int r;

	query.name = (char *)"oom";
	query.number = number;
	r = link_answer(link, &query.base, ret);
	if (r < 0)
		return r;
	if (tracesmith_answer_rows(*ret) == 1)
		return 0;
	complain("There is no number %u of yours: 'tsctl oom' lists them", number);
	return -ENOENT;
}

int cmd_oom(const struct options *options, int count, char **argument)
{
	_cleanup_(answer_freep) struct tracesmith_answer *answer = NULL;
	_cleanup_(link_freep) struct link *link = NULL;
	uint64_t number;

	if (count == 0)
		return ask_query(options, "oom");
	if (strcmp(argument[0], "show") != 0 || count != 2 ||
	    units_parse_count(argument[1], &number) < 0 || !number || number > UINT32_MAX) {
		complain("oom needs nothing, or 'show' and a number of its list, as in "
			 "'tsctl oom show 3'");
		return EXIT_USAGE;
	}
	if (link_open(options, &link) < 0 || find(link, (uint32_t)number, &answer) < 0)
		return EXIT_FAILED;
	if (!(options->given & (OPTION(JSON) | OPTION(CSV))))
		write_facts(link, options, answer);
	return show(options, link, (uint32_t)number);
}
