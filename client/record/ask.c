/* Record ask: the queries of a recorder, and what their rows become. */
#include "client/record/ask.h"

#include <errno.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "core/base/vector.h"

struct start {
	Tracesmith__V1__RecordCursor *cursor;
	int64_t *boot;
};

static int take_start(void *data, const Tracesmith__V1__Row *row)
{
	const struct start *start = data;

	if (row->n_value != 3)
		return 0;
	start->cursor->batch = (uint64_t)rows_integer(row->value[0]);
	start->cursor->chunk = INT64_MAX;
	start->cursor->told_ns = (uint64_t)rows_integer(row->value[1]);
	*start->boot = rows_integer(row->value[2]);
	return 0;
}

int record_ask_cursor(struct link *link, Tracesmith__V1__RecordCursor *ret, int64_t *ret_boot)
{
	struct start start = { ret, ret_boot };
	int r = rows_query(link, "record-cursor", 1, take_start, &start);

	return r < 0 ? r : 0;
}

struct processes {
	struct record_process *item;
	size_t count, room;
};

static int take_process(void *data, const Tracesmith__V1__Row *row)
{
	struct processes *list = data;

	if (row->n_value != 3)
		return 0;
	if (VECTOR_ROOM(list->item, list->room, list->count + 1) < 0) {
		complain_memory();
		return -ENOMEM;
	}
	list->item[list->count++] = (struct record_process){
		.pid = (uint32_t)rows_integer(row->value[0]),
		.ppid = (uint32_t)rows_integer(row->value[1]),
		.ended = rows_integer(row->value[2]) != 0,
	};
	return 0;
}

/* As many as the daemon sends. */
int record_ask_processes(struct link *link, uint64_t since_ns, struct record_process **ret,
			 size_t *ret_count)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	struct processes list = { 0 };
	int r;

	query.name = (char *)"record-processes";
	query.since_ns = since_ns;
	r = rows_ask(link, &query, take_process, &list);
	*ret = list.item;
	*ret_count = list.count;
	return r < 0 ? r : 0;
}
