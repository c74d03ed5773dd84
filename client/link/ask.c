/* Ask: sends one request and writes its rows as they arrive. */
#include "client/link/ask.h"

#include <errno.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/link.h"
#include "client/link/wording.h"
#include "client/output/table.h"
#include "core/base/array.h"
#include "core/base/time.h"

/* QueryRequest.by, from 1 on. */
static const char *const bys[] = { "stack", "stream", "line", "function", "module", "op" };

/* A query of the list, with the options that set the fields that it takes. */
static int put_listed(struct table *table, const Tracesmith__V1__Row *row)
{
	Tracesmith__V1__Value name, text, options, *values[] = { &name, &text, &options };
	Tracesmith__V1__Row listed = *row;
	_cleanup_(freep) char *words = NULL;

	if (row->n_value != ARRAY_SIZE(values) ||
	    row->value[2]->value_case != TRACESMITH__V1__VALUE__VALUE_TEXT)
		return -EPROTO;
	words = wording_options(row->value[2]->text);
	if (!words)
		return -ENOMEM;
	name = *row->value[0];
	text = *row->value[1];
	options = *row->value[2];
	options.text = words;
	listed.value = values;
	return table_row(table, &listed);
}

static int put(struct table *table, const Tracesmith__V1__Reply *reply)
{
	int r = 0;

	switch (reply->body_case) {
	case TRACESMITH__V1__REPLY__BODY_COLUMNS:
		return table_columns(table, reply->columns);
	case TRACESMITH__V1__REPLY__BODY_ROWS:
		for (size_t i = 0; r == 0 && i < reply->rows->n_row; i++)
			r = table->whole ? put_listed(table, reply->rows->row[i])
					 : table_row(table, reply->rows->row[i]);
		return r;
	case TRACESMITH__V1__REPLY__BODY_DONE:
		return table_end(table, reply->done);
	default:
		return -EPROTO;
	}
}

static int take(void *data, const Tracesmith__V1__Reply *reply)
{
	int r = put(data, reply);

	if (r == -ENOMEM)
		complain_memory();
	else if (r < 0 && r != -EINVAL)
		complain("Cannot interpret the daemon's answer: %s", strerror(-r));
	return r;
}

int ask_link(struct link *link, const struct options *options, const ProtobufCMessage *body,
	     const char *query)
{
	struct table table;
	int r;

	table_init(&table, options, query, link_hello(link)->wall_offset_ns);
	table.whole = body->descriptor == &tracesmith__v1__list_request__descriptor;
	r = link_converse(link, body, take, &table, NULL);
	table_done(&table);
	return r;
}

int ask(const struct options *options, const ProtobufCMessage *body, const char *query)
{
	_cleanup_(link_freep) struct link *link = NULL;

	if (link_open(options, &link) < 0)
		return EXIT_FAILED;
	return ask_link(link, options, body, query) < 0 ? EXIT_FAILED : EXIT_DONE;
}

/* The exit status for an error. -ENOENT: the process is unknown if --pid was given, else the query.
 */
static int query_status(const struct options *options, int error)
{
	if (error == -EINVAL ||
	    (error == -ENOENT && !(options->given & (OPTION(PID) | OPTION(USER)))))
		return EXIT_USAGE;
	return error < 0 ? EXIT_FAILED : EXIT_DONE;
}

/* 0: unknown, and said. */
static uint32_t by_of(const char *name)
{
	for (uint32_t i = 0; i < ARRAY_SIZE(bys); i++)
		if (strcmp(name, bys[i]) == 0)
			return i + 1;
	complain("--by needs stack, stream, line, function, module or op (got '%s')", name);
	return 0;
}

static const char *by_given(const struct options *options)
{
	return options->given & OPTION(BY_STACK)    ? "stack"
	       : options->given & OPTION(BY_STREAM) ? "stream"
						    : options->by;
}

int ask_query(const struct options *options, const char *name)
{
	uint32_t by = by_given(options) ? by_of(by_given(options)) : 0;
	_cleanup_(link_freep) struct link *link = NULL;
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;

	if (by_given(options) && !by)
		return EXIT_USAGE;
	if (link_open(options, &link) < 0)
		return EXIT_FAILED;
	query.name = (char *)name;
	query.pid = (uint32_t)options->pid;
	query.limit = options->limit;
	query.stream = (uint32_t)options->stream;
	if (options->user)
		query.user = (char *)options->user;
	if (options->name)
		query.match = (char *)options->name;
	if (options->sort)
		query.sort = (char *)options->sort;
	if (options->given & OPTION(MIN_AGE))
		query.min_age_ns = options->min_age_ns ? options->min_age_ns : 1;
	query.all = (options->given & OPTION(ALL)) != 0;
	if (options->given & OPTION(SINCE))
		query.since_ns = link_time(link, &options->since);
	if (options->given & OPTION(UNTIL))
		query.until_ns = link_time(link, &options->until);
	query.by = by;
	if (options->given & OPTION(DEVICE)) {
		query.device_given_case = TRACESMITH__V1__QUERY_REQUEST__DEVICE_GIVEN_DEVICE;
		query.device = (uint32_t)options->device;
	}
	return query_status(options, ask_link(link, options, &query.base, name));
}
