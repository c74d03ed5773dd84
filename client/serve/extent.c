/* Extent: asks for a count. */
#include "client/serve/extent.h"

#include <errno.h>
#include <inttypes.h>

#include "client/base/complain.h"
#include "client/link/rows.h"

static int take_ops(void *data, const Tracesmith__V1__Row *row)
{
	int64_t *ret = data;

	*ret = row->n_value ? rows_integer(row->value[0]) : 0;
	return 0;
}

int extent_check(struct link *link, int64_t pid, uint64_t since_ns, uint64_t until_ns, int64_t max)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	int64_t ops = 0;
	int r;

	query.name = (char *)"page-extent";
	query.pid = (uint32_t)pid;
	query.since_ns = since_ns;
	query.until_ns = until_ns;
	r = rows_ask(link, &query, take_ops, &ops);
	if (r < 0 || ops <= max)
		return r < 0 ? r : 0;
	complain("These are %" PRId64 " operations; the page follows up to %" PRId64
		 ": choose a process or a shorter window, or use 'tsctl replay' or 'tsctl graph'",
		 ops, max);
	return -E2BIG;
}
