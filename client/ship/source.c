/* Source: one connection, and one query at a time. */
#include "client/ship/source.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/clock.h"
#include "core/limits.h"
#include "proto/paths.h"

#define PATIENCE_NS (60 * NS_PER_S) /* twice what the daemon gives a query */

void source_close(struct source *source)
{
	if (source->open)
		connection_close(&source->connection);
	source->open = false;
}

static int greet(struct source *source)
{
	_cleanup_(reply_freep) Tracesmith__V1__Reply *refused = NULL;
	int r = connection_greet(&source->connection, &refused);

	if (r < 0)
		return why_fail(source->why, r, "%s", source->connection.message);
	return r ? why_fail(source->why, -EACCES, "The daemon says: %s", refused->error->message)
		 : 0;
}

int source_open(struct source *source, const char *path)
{
	int fd, r;

	if (source->open)
		return 0;
	fd = connection_dial(path, SOCK_STREAM, PATIENCE_NS);
	if (fd == -EACCES || fd == -EPERM)
		return why_fail(
			source->why, fd,
			"No permission to use %s: run tracesmith-ship as root or in the group "
			"'" TS_GROUP "'",
			path);
	if (fd == -ENOENT || fd == -ECONNREFUSED)
		return why_fail(source->why, fd, "No daemon listens on %s", path);
	if (fd < 0)
		return why_fail(source->why, fd, "Cannot connect to %s: %s", path, strerror(-fd));
	connection_init(&source->connection, fd);
	connection_patience(&source->connection, PATIENCE_NS);
	source->open = true;
	r = greet(source);
	if (r < 0)
		source_close(source);
	return r;
}

/* 1: there are more replies; 0: it was the last. */
static int take(struct source *source, const Tracesmith__V1__Reply *reply, source_row_fn *row,
		void *data, bool *truncated)
{
	int r = 0;

	switch (reply->body_case) {
	case TRACESMITH__V1__REPLY__BODY_COLUMNS:
		return 1;
	case TRACESMITH__V1__REPLY__BODY_ROWS:
		for (size_t i = 0; r == 0 && i < reply->rows->n_row; i++)
			r = row(data, reply->rows->row[i]);
		return r < 0 ? r : 1;
	case TRACESMITH__V1__REPLY__BODY_DONE:
		*truncated = reply->done->truncated;
		return 0;
	case TRACESMITH__V1__REPLY__BODY_ERROR:
		return why_fail(source->why, -EREMOTEIO, "The daemon says: %s",
				reply->error->message);
	default:
		return why_fail(source->why, -EPROTO, "The daemon gave an answer of another kind");
	}
}

int source_ask(struct source *source, const char *query, const struct source_about *about,
	       source_row_fn *row, void *data)
{
	Tracesmith__V1__QueryRequest request = TRACESMITH__V1__QUERY_REQUEST__INIT;
	bool truncated = false;
	int r;

	request.name = (char *)query;
	request.limit = LIMIT_QUERY_ROWS;
	request.boot = about->boot;
	request.number = about->minute;
	request.since_ns = about->since_ns;
	request.until_ns = about->until_ns;
	if (about->after) {
		request.after_given_case = TRACESMITH__V1__QUERY_REQUEST__AFTER_GIVEN_AFTER;
		request.after = about->after;
	}
	r = connection_send(&source->connection, &request.base);
	if (r < 0)
		why_fail(source->why, r, "%s", source->connection.message);
	for (int more = r == 0; more > 0;) {
		_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

		r = connection_next(&source->connection, &reply);
		if (r < 0)
			why_fail(source->why, r, "%s", source->connection.message);
		else
			r = take(source, reply, row, data, &truncated);
		more = r;
	}
	/* What is left of the answer would be taken for that of the next question. */
	if (r < 0)
		source_close(source);
	return r < 0 ? r : truncated;
}

uint64_t source_now_ns(const struct source *source)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC), told_ns = source->connection.hello.now_ns;

	return now_ns > told_ns ? now_ns : told_ns;
}

int64_t source_integer(const Tracesmith__V1__Value *value)
{
	switch (value->value_case) {
	case TRACESMITH__V1__VALUE__VALUE_INTEGER:
		return value->integer;
	case TRACESMITH__V1__VALUE__VALUE_REAL:
		return (int64_t)value->real;
	default:
		return 0;
	}
}

const char *source_text(const Tracesmith__V1__Value *value)
{
	return value->value_case == TRACESMITH__V1__VALUE__VALUE_TEXT ? value->text : "";
}
