/* Rows: asks one statement and hands out what comes. */
#include "client/rows.h"

#include <stddef.h>

int64_t rows_integer(const Tracesmith__V1__Value *value)
{
	return value->value_case == TRACESMITH__V1__VALUE__VALUE_INTEGER ? value->integer : 0;
}

const char *rows_text(const Tracesmith__V1__Value *value)
{
	return value->value_case == TRACESMITH__V1__VALUE__VALUE_TEXT ? value->text : NULL;
}

int rows_ask(struct link *link, const char *sql, uint64_t limit, rows_fn *row, void *data)
{
	Tracesmith__V1__SqlRequest body = TRACESMITH__V1__SQL_REQUEST__INIT;
	Tracesmith__V1__Request request = TRACESMITH__V1__REQUEST__INIT;
	int more, truncated = 0, r;

	body.text = (char *)sql;
	body.limit = limit;
	request.body_case = TRACESMITH__V1__REQUEST__BODY_SQL;
	request.sql = &body;
	r = link_send(link, &request);
	if (r < 0)
		return r;
	do {
		_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

		more = link_next(link, &reply);
		if (more < 0)
			return more;
		if (reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE)
			truncated = reply->done->truncated;
		if (reply->body_case != TRACESMITH__V1__REPLY__BODY_ROWS)
			continue;
		for (size_t i = 0; r == 0 && i < reply->rows->n_row; i++)
			r = row(data, reply->rows->row[i]);
		if (r < 0)
			return r;
	} while (more);
	return truncated;
}
