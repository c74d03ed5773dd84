/* Fleet query: fills a query's text with what was asked for. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/fleet/asked.h"
#include "client/fleet/fleet.h"
#include "client/fleet/head.h"
#include "client/fleet/rows.h"
#include "client/fleet/state.h"
#include "core/base/array.h"
#include "core/base/distance.h"
#include "core/base/text.h"
#include "core/limits.h"

#define LIMIT_DEFAULT 1000

static const struct source *find(const char *name, struct head *ret)
{
	const struct source *near = NULL;

	for (const struct source *source = source_queries; source->name; source++) {
		if (head_read(source, ret) < 0 || ret->internal)
			continue;
		if (strcmp(source->name, name) == 0)
			return source;
		if (!near && distance_near(name, source->name))
			near = source;
	}
	if (near)
		complain("Unknown query '%s': did you mean '%s'?", name, near->name);
	else
		complain("Unknown query '%s': see 'tsctl fleet query list'", name);
	return NULL;
}

static int check_options(const struct options *options, const struct head *head, const char *name)
{
	static const struct {
		int number;
		const char *name;
	} takes[] = {
		{ OPTION_NUMBER_JOB, "job" },	  { OPTION_NUMBER_HOST, "host" },
		{ OPTION_NUMBER_RANK, "rank" },	  { OPTION_NUMBER_SINCE, "since" },
		{ OPTION_NUMBER_UNTIL, "until" }, { OPTION_NUMBER_ALL, "all" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(takes); i++) {
		if (!(options->given & OPTION_BIT(takes[i].number)) ||
		    head_takes(head, takes[i].name))
			continue;
		complain("The query '%s' takes no --%s; it takes%.*s", name, takes[i].name,
			 (int)strlen(head->options) - 1, head->options);
		return -EINVAL;
	}
	return 0;
}

static int ask(struct server *server, const struct source *source, const struct asked *asked)
{
	struct fill fills[ASKED_FILLS_MAX];
	_cleanup_(freep) char *statement = NULL;

	asked_fills(asked, fills);
	statement = fill_in(source_statement(source), fills);
	if (!statement) {
		complain_memory();
		return -ENOMEM;
	}
	if (server->number >= STATE_MODERN)
		server->settings = STATE_SELECT_SETTINGS;
	return server_ask(server, statement);
}

/* As if the server had answered. */
static int list(const struct options *options)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0, length;
	struct head head;
	FILE *out = text_open(&text, &size);

	if (!out)
		return -ENOMEM;
	fputs("query\toptions\ttext\tcolumns\nString\tString\tString\tString\n", out);
	for (const struct source *source = source_queries; source->name; source++) {
		if (head_read(source, &head) < 0 || head.internal)
			continue;
		length = strlen(head.options);
		fprintf(out, "%s\t%.*s\t%s\t", source->name, length ? (int)length - 2 : 0,
			head.options + 1, head.text);
		head_write_columns(&head, out);
		fputc('\n', out);
	}
	if (text_close(out) < 0)
		return -ENOMEM;
	return rows_write(text, options, "list", NULL, UINT64_MAX);
}

int fleet_query(const struct options *options, const char *name)
{
	_cleanup_(server_freep) struct server *server = NULL;
	_cleanup_(asked_done) struct asked asked = { 0 };
	uint64_t limit = options->limit ? options->limit : LIMIT_DEFAULT;
	const struct source *source;
	struct head head;
	int r;

	if (strcmp(name, "list") == 0)
		return list(options) < 0 ? EXIT_FAILED : EXIT_DONE;
	source = find(name, &head);
	if (!source || check_options(options, &head, name) < 0)
		return EXIT_USAGE;
	if (limit > LIMIT_QUERY_ROWS)
		limit = LIMIT_QUERY_ROWS;
	r = asked_set(&asked, options, head.window_ns, 0, limit + 1);
	if (r < 0)
		return r == -EINVAL ? EXIT_USAGE : complain_memory();
	r = state_open(options, &server);
	if (r < 0)
		return r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	r = ask(server, source, &asked);
	if (r == 0)
		r = rows_write(server->answer, options, name, &head, limit);
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
