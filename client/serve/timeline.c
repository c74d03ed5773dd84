/* Timeline: asks for the operations of a window in groups, one for each column of each lane; so
 * that what is sent depends on the size of the picture, and not on how much happened. Where even
 * reading them would take too long, the sums of seconds stand for them. */
#include "client/serve/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "client/output/json.h"
#include "client/output/loss.h"
#include "client/serve/lane.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/text.h"

#define COLUMNS_DEFAULT 1000
#define COLUMNS_MAX	4096
#define GROUPS_MAX	200000 /* rows of one query */
#define OPS_MAX		400000 /* that are read for an answer */
#define LOSSES_MAX	200
#define WINDOW_MAX_NS	(INT64_C(366) * 24 * 3600 * 1000000000)
#define EXTENT_MAX_NS	(WINDOW_MAX_NS / 2) /* the page asks for what lies beside it, too */

struct window {
	uint64_t since_ns, until_ns;
	int64_t columns, pid; /* pid 0: all */
	bool coarse;
};

#define GROUP_SIZE 12

/* Rows are groups: process, id, device, column, count, time covered, longest, its start, end, kind
 * and name, and whether they are bounds. */
static const struct part {
	enum lane_what what;
	bool coarse; /* from sums of seconds */
	const char *query;
} parts[] = {
	{ LANE_STATES, false, "page-states" },	 { LANE_WORK, false, "page-work" },
	{ LANE_RANGES, false, "page-ranges" },	 { LANE_CALLS, false, "page-calls" },
	{ LANE_MEMORY, false, "page-memory" },	 { LANE_STATES, true, "page-second-states" },
	{ LANE_WORK, true, "page-second-work" },
};

/* Of the window; `step_ns` 0: no picture's. */
static Tracesmith__V1__QueryRequest query_of(const char *name, const struct window *window,
					     uint64_t step_ns, uint64_t limit)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;

	query.name = (char *)name;
	query.pid = (uint32_t)window->pid;
	query.since_ns = window->since_ns;
	query.until_ns = window->until_ns;
	query.step_ns = step_ns;
	query.limit = limit;
	return query;
}

static int ask(struct link *link, const char *name, const struct window *window, uint64_t step_ns,
	       uint64_t limit, rows_fn *row, void *data)
{
	Tracesmith__V1__QueryRequest query = query_of(name, window, step_ns, limit);

	return rows_ask(link, &query, row, data);
}

struct reading {
	struct lanes *lanes;
	enum lane_what what;
};

static int take_group(void *data, const Tracesmith__V1__Row *row)
{
	const struct reading *reading = data;
	struct lane_group group = { .what = reading->what };
	int64_t number[GROUP_SIZE];

	if (row->n_value != GROUP_SIZE)
		return -EPROTO;
	for (size_t i = 0; i < GROUP_SIZE; i++)
		number[i] = rows_integer(row->value[i]);
	if (number[3] < 0 || number[3] >= reading->lanes->columns)
		return 0;
	group.process = (uint32_t)number[0];
	group.id = number[1];
	group.device = number[2];
	group.column = number[3];
	group.count = (uint64_t)number[4];
	group.busy_ns = number[5] > 0 ? (uint64_t)number[5] : 0;
	group.longest_ns = number[6] > 0 ? (uint64_t)number[6] : 0;
	group.start_ns = (uint64_t)number[7];
	group.end_ns = (uint64_t)number[8];
	group.kind = rows_text(row->value[9]);
	group.name = rows_text(row->value[10]);
	group.bounds = number[11] > 0;
	if (!group.kind)
		group.kind = "unknown";
	return lanes_add(reading->lanes, &group);
}

struct extent {
	int64_t ops, first_ns, last_ns;
};

static int take_extent(void *data, const Tracesmith__V1__Row *row)
{
	struct extent *extent = data;

	if (row->n_value != 3)
		return -EPROTO;
	extent->ops = rows_integer(row->value[0]);
	extent->first_ns = rows_integer(row->value[1]);
	extent->last_ns = rows_integer(row->value[2]);
	return 0;
}

/* 1: not all were read. */
static int read_lanes(struct link *link, const struct window *window, struct lanes *lanes)
{
	int cut = 0;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		struct reading reading = { lanes, parts[i].what };
		int r;

		if (parts[i].coarse != window->coarse)
			continue;
		r = ask(link, parts[i].query, window, lanes->step_ns, GROUPS_MAX, take_group,
			&reading);
		if (r < 0)
			return r;
		cut |= r;
	}
	return cut;
}

struct listing {
	FILE *out;
	const struct lanes *lanes;
	const struct window *window;
	uint32_t count;
};

/* The programs that lanes belong to. */
static int list_process(void *data, const Tracesmith__V1__Row *row)
{
	struct listing *listing = data;
	const struct lanes *lanes = listing->lanes;
	uint32_t i = 0;

	if (row->n_value != 3)
		return -EPROTO;
	while (i < lanes->count && lanes->lane[i].process != rows_integer(row->value[0]))
		i++;
	if (i == lanes->count)
		return 0;
	fprintf(listing->out, "%s\"%" PRId64 "\":[%" PRId64 ",", listing->count++ ? "," : "",
		rows_integer(row->value[0]), rows_integer(row->value[1]));
	json_string(listing->out, rows_text(row->value[2]) ? rows_text(row->value[2]) : "");
	fputc(']', listing->out);
	return 0;
}

static int list_loss(void *data, const Tracesmith__V1__Row *row)
{
	struct listing *listing = data;
	const struct window *window = listing->window;
	uint64_t start_ns, end_ns;

	if (row->n_value != 6)
		return -EPROTO;
	start_ns = (uint64_t)rows_integer(row->value[0]);
	end_ns = (uint64_t)rows_integer(row->value[1]);
	start_ns = start_ns > window->since_ns ? start_ns : window->since_ns;
	end_ns = end_ns < window->until_ns ? end_ns : window->until_ns;
	fputs(listing->count++ ? ",[" : "[", listing->out);
	json_string(listing->out, rows_text(row->value[4]) ? rows_text(row->value[4]) : "");
	fprintf(listing->out, ",%" PRIu64 ",%" PRIu64 ",%" PRId64 "]", start_ns - window->since_ns,
		end_ns - window->since_ns, rows_integer(row->value[5]));
	return 0;
}

static int write_processes(struct link *link, struct listing *listing)
{
	int r;

	fputs("\"processes\":{", listing->out);
	listing->count = 0;
	r = ask(link, "page-processes", listing->window, 0, 0, list_process, listing);
	fputs("},", listing->out);
	return r;
}

/* The line that other answers have at their end. */
static int write_missing(FILE *out, const Tracesmith__V1__Done *done)
{
	_cleanup_(freep) char *text = NULL;
	size_t size;
	FILE *line = text_open(&text, &size);

	if (!line)
		return -ENOMEM;
	loss_write_line(line, done);
	if (text_close(line) < 0)
		return -ENOMEM;
	fprintf(out, "],\"more_losses\":%s,\"missing\":", done->truncated ? "true" : "false");
	json_string(out, text);
	return 0;
}

static int list_losses(void *data, const Tracesmith__V1__Reply *reply)
{
	struct listing *listing = data;
	int r = 0;

	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_DONE)
		return write_missing(listing->out, reply->done);
	if (reply->body_case == TRACESMITH__V1__REPLY__BODY_ROWS)
		for (size_t i = 0; r == 0 && i < reply->rows->n_row; i++)
			r = list_loss(listing, reply->rows->row[i]);
	return r;
}

static int write_losses(struct link *link, struct listing *listing)
{
	const Tracesmith__V1__QueryRequest query =
		query_of("trace-losses", listing->window, 0, LOSSES_MAX);

	fputs(",\n\"losses\":[", listing->out);
	listing->count = 0;
	return link_converse(link, &query.base, list_losses, listing, NULL);
}

static int read_pid(const struct web_request *request, struct window *window)
{
	int r = web_number(request, "pid", &window->pid);

	if (r < 0 || (window->pid >= 0 && window->pid <= INT32_MAX))
		return r;
	complain("'pid' must be from 0 to %d", INT32_MAX);
	return -EINVAL;
}

static int read_window(const struct web_request *request, struct link *link, struct window *window)
{
	uint64_t now_ns = link_hello(link)->now_ns;
	int r;

	*window = (struct window){ .until_ns = now_ns, .columns = COLUMNS_DEFAULT };
	window->since_ns = now_ns > 10000000000 ? now_ns - 10000000000 : 1;
	r = web_period(request, now_ns, &window->since_ns, &window->until_ns);
	if (r == 0)
		r = web_number(request, "columns", &window->columns);
	if (r == 0)
		r = read_pid(request, window);
	if (r < 0)
		return r;
	if (window->columns >= 1 && window->columns <= COLUMNS_MAX &&
	    window->since_ns < window->until_ns &&
	    window->until_ns - window->since_ns <= WINDOW_MAX_NS)
		return 0;
	complain("A timeline has 1 to %d columns and ends after its start, at most a year later",
		 COLUMNS_MAX);
	return -EINVAL;
}

static int write_timeline(const struct web_request *request, struct link *link, FILE *out)
{
	struct lanes lanes = { 0 };
	struct window window;
	struct listing listing = { .out = out, .lanes = &lanes, .window = &window };
	struct extent extent = { 0 };
	int r = read_window(request, link, &window);

	if (r == 0)
		r = ask(link, "page-extent", &window, 0, 1, take_extent, &extent);
	if (r < 0)
		return r;
	window.coarse = extent.ops > OPS_MAX;
	lanes.since_ns = window.since_ns;
	lanes.columns = (uint32_t)window.columns;
	lanes.step_ns = (window.until_ns - window.since_ns + lanes.columns - 1) / lanes.columns;
	r = read_lanes(link, &window, &lanes);
	if (r >= 0) {
		lanes_fit(&lanes);
		fprintf(out,
			"{\"since\":%" PRIu64 ",\"unit_ns\":%.6f,\"columns\":%" PRIu32
			",\"ops\":%" PRId64 ",\"coarse\":%s,\"cut\":%s,",
			lanes.since_ns, (double)lanes.step_ns / LANE_UNITS, lanes.columns,
			extent.ops, window.coarse ? "true" : "false", r ? "true" : "false");
		r = write_processes(link, &listing);
		lanes_write(out, &lanes);
	}
	if (r >= 0) {
		r = write_losses(link, &listing);
		fputs("}\n", out);
	}
	lanes_done(&lanes);
	return r < 0 ? r : 0;
}

/* A recording may claim any time: what lies before all, after its end, or half a year before that,
 * is beyond the picture. */
static bool cut_extent(struct extent *extent, int64_t now_ns)
{
	const struct extent whole = *extent;

	if (extent->first_ns < 1)
		extent->first_ns = 1;
	if (extent->last_ns / 2 - extent->first_ns / 2 > EXTENT_MAX_NS / 2) {
		extent->last_ns = extent->last_ns < now_ns ? extent->last_ns : now_ns;
		if (extent->first_ns < extent->last_ns - EXTENT_MAX_NS)
			extent->first_ns = extent->last_ns - EXTENT_MAX_NS;
	}
	return whole.ops &&
	       (whole.first_ns != extent->first_ns || whole.last_ns != extent->last_ns);
}

/* Of what the store has. */
static int write_extent(const struct web_request *request, struct link *link, FILE *out)
{
	struct window window = { 0 };
	struct extent extent = { 0 };
	int r = read_pid(request, &window);
	bool cut;

	if (r == 0)
		r = ask(link, "page-extent", &window, 0, 1, take_extent, &extent);
	if (r < 0)
		return r;
	cut = cut_extent(&extent, (int64_t)link_hello(link)->now_ns);
	fprintf(out, "{\"since\":%" PRId64 ",\"until\":%" PRId64 ",\"cut\":%s}\n", extent.first_ns,
		extent.last_ns, cut ? "true" : "false");
	return 0;
}

void timeline_extent(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, write_extent);
}

void timeline_lanes(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, write_timeline);
}
