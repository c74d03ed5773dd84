/* Fleet query: fills a query's text with what was asked for. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/base/complain.h"
#include "client/fleet/fill.h"
#include "client/fleet/fleet.h"
#include "client/fleet/head.h"
#include "client/fleet/rows.h"
#include "client/fleet/state.h"
#include "core/base/array.h"
#include "core/base/distance.h"
#include "core/base/time.h"
#include "core/limits.h"

#define LIMIT_DEFAULT 1000
#define WINDOW_BYTES  256
#define NUMBER_BYTES  24
#define HOUR_S	      3600

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

/* Unix seconds. */
static int64_t second_of(const struct moment *moment, int64_t now_ns)
{
	return (moment->ago ? now_ns - moment->ns : moment->ns) / NS_PER_S;
}

/* What is asked for, as SQL. Those that end with a parenthesis are conditions. */
struct asked {
	char since[NUMBER_BYTES + 16], until[NUMBER_BYTES + 16], limit[NUMBER_BYTES];
	char rank[NUMBER_BYTES + 16], window[WINDOW_BYTES];
	char *host, *job, *process; /* conditions on columns of these names */
	char *asked, *of_job;	    /* on host, boot and process of any table */
};

static void asked_done(struct asked *asked)
{
	free(asked->host);
	free(asked->job);
	free(asked->process);
	free(asked->asked);
	free(asked->of_job);
}

static int set_window(struct asked *asked, const struct options *options, const struct head *head)
{
	struct timespec now;
	int64_t now_ns, since, until;

	clock_gettime(CLOCK_REALTIME, &now);
	now_ns = now.tv_sec * NS_PER_S + now.tv_nsec;
	until = options->given & OPTION(UNTIL) ? second_of(&options->until, now_ns)
					       : now_ns / NS_PER_S;
	since = options->given & OPTION(SINCE) ? second_of(&options->since, now_ns)
					       : until - (int64_t)head->window_ns / NS_PER_S;
	if (since > until) {
		complain("The window ends before it starts");
		return -EINVAL;
	}
	if (since < 0)
		since = 0;
	snprintf(asked->since, sizeof(asked->since), "toDateTime(%" PRId64 ")", since);
	snprintf(asked->until, sizeof(asked->until), "toDateTime(%" PRId64 ")", until);
	/* The first one for the sort key. */
	snprintf(asked->window, sizeof(asked->window),
		 "(toStartOfHour(time) >= toDateTime(%" PRId64 ") AND time >= %s AND time <= %s)",
		 since - since % HOUR_S, asked->since, asked->until);
	return 0;
}

static char *condition(const char *name, const char *value)
{
	const struct fill fills[] = { { "value", value ? value : "", true }, { 0 } };
	char form[64];

	snprintf(form, sizeof(form), "(%s = :value)", name);
	return value ? fill_in(form, fills) : strdup("(1)");
}

/* Processes are looked up where only they know. */
static char *among(const char *host, const char *process)
{
	const struct fill fills[] = { { "host", host, false },
				      { "process", process, false },
				      { 0 } };

	return fill_in(source_query("among"), fills);
}

static int set_asked(struct asked *asked, const struct options *options)
{
	bool rank = options->given & OPTION(RANK);

	snprintf(asked->rank, sizeof(asked->rank), rank ? "(rank = %" PRIu64 ")" : "(1)",
		 options->rank);
	asked->host = condition("host", options->host);
	asked->job = condition("job", options->job);
	if (!asked->host || !asked->job ||
	    asprintf(&asked->process, "(%s AND %s AND %s)", asked->host, asked->job, asked->rank) <
		    0)
		return -ENOMEM;
	asked->asked =
		rank || options->job ? among(asked->host, asked->process) : strdup(asked->host);
	asked->of_job = options->job ? among("(1)", asked->job) : strdup("(1)");
	return asked->asked && asked->of_job ? 0 : -ENOMEM;
}

static int ask(struct server *server, const struct source *source, const struct asked *asked,
	       bool all)
{
	const struct fill fills[] = {
		{ "since", asked->since, false },
		{ "until", asked->until, false },
		{ "limit", asked->limit, false },
		{ "in_window", asked->window, false },
		{ "of_host", asked->host, false },
		{ "is_host", asked->host, false },
		{ "is_rank", asked->rank, false },
		{ "is_job", asked->job, false },
		{ "of_job", asked->of_job, false },
		{ "of_process", asked->process, false },
		{ "asked", asked->asked, false },
		{ "all", all ? "1" : "0", false },
		{ 0 },
	};
	_cleanup_(freep) char *statement = fill_in(source_statement(source), fills);

	if (!statement) {
		complain("Not enough memory");
		return -ENOMEM;
	}
	/* Rows that replace each other have the same day. */
	if (server->number >= STATE_MODERN)
		server->settings = "&do_not_merge_across_partitions_select_final=1"
				   "&joined_subquery_requires_alias=0";
	return server_ask(server, statement);
}

/* As if the server had answered. */
static int list(const struct options *options)
{
	_cleanup_(freep) char *text = NULL;
	size_t size = 0, length;
	struct head head;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return -ENOMEM;
	fputs("query\toptions\ttext\nString\tString\tString\n", out);
	for (const struct source *source = source_queries; source->name; source++) {
		if (head_read(source, &head) < 0 || head.internal)
			continue;
		length = strlen(head.options);
		fprintf(out, "%s\t%.*s\t%s\n", source->name, length ? (int)length - 2 : 0,
			head.options + 1, head.text);
	}
	if (fclose(out) != 0)
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
	if (!source || check_options(options, &head, name) < 0 ||
	    set_window(&asked, options, &head) < 0)
		return EXIT_USAGE;
	if (limit > LIMIT_QUERY_ROWS)
		limit = LIMIT_QUERY_ROWS;
	snprintf(asked.limit, sizeof(asked.limit), "%" PRIu64, limit + 1);
	if (set_asked(&asked, options) < 0)
		return complain("Not enough memory");
	r = server_open(options, &server);
	if (r < 0)
		return r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	r = state_need(server);
	if (r == 0)
		r = ask(server, source, &asked, options->given & OPTION(ALL));
	if (r == 0)
		r = rows_write(server->answer, options, name, &head, limit);
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
