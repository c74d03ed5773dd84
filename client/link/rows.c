/* Rows: runs one query and passes on its rows. */
#include "client/link/rows.h"

#include <stdbool.h>
#include <stddef.h>

int64_t rows_integer(const Tracesmith__V1__Value *value)
{
	return value->value_case == TRACESMITH__V1__VALUE__VALUE_INTEGER ? value->integer : 0;
}

const char *rows_text(const Tracesmith__V1__Value *value)
{
	return value->value_case == TRACESMITH__V1__VALUE__VALUE_TEXT ? value->text : NULL;
}

struct asked {
	rows_fn *row;
	void *data;
	bool truncated;
};

static int take(void *data, const Tracesmith__V1__Reply *reply)
{
	struct asked *asked = data;
	int r = 0;

	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE)
		asked->truncated = reply->done->truncated;
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ROWS)
		for (size_t i = 0; r == 0 && i < reply->rows->n_row; i++)
			r = asked->row(asked->data, reply->rows->row[i]);
	return r;
}

int rows_ask(struct link *link, Tracesmith__V1__QueryRequest *query, rows_fn *row, void *data)
{
	struct asked asked = { .row = row, .data = data };
	int r;

	r = link_converse(link, &query->base, take, &asked, NULL);
	return r < 0 ? r : asked.truncated;
}

int rows_query(struct link *link, const char *name, uint64_t limit, rows_fn *row, void *data)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;

	query.name = (char *)name;
	query.limit = limit;
	return rows_ask(link, &query, row, data);
}
