/* Timeline: asks for the operations of a window in groups, one for each column of each lane; so
 * that what is sent depends on the size of the picture, and not on how much happened. Where even
 * reading them would take too long, the sums of seconds stand for them. */
#include "client/serve/timeline.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "client/output/json.h"
#include "client/serve/lane.h"
#include "core/base/array.h"

#define COLUMNS_DEFAULT 1000
#define COLUMNS_MAX	4096
#define GROUPS_MAX	200000 /* rows of one statement */
#define OPS_MAX		400000 /* that are read for an answer */
#define LOSSES_MAX	200
#define TIMEOUT_NS	UINT64_C(4000000000)
#define WINDOW_MAX_NS	(INT64_C(366) * 24 * 3600 * 1000000000)

struct window {
	uint64_t since_ns, until_ns;
	int64_t columns, pid; /* pid 0: all */
	bool coarse;
};

#define BOOT	   "boot = (SELECT max(id) FROM boot)"
#define GROUP_SIZE 12

/* Sums of seconds and, of older ones, of minutes. */
#define COLUMN_OF_SECOND "max(second * 1000000000 - ?1, 0) / ?3"
#define IN_SECONDS	 BOOT " AND second BETWEEN ?1 / 1000000000 AND ?2 / 1000000000"
#define SECONDS                                                                                    \
	" min(second) * 1000000000 AS start, max(second + iif(second % 60 = 0 AND second <"        \
	" now_ns() / 1000000000 - 240, 60, 1)) * 1000000000 AS until,"

/* The rows of each statement are groups: process, id, device, column, count, time covered, longest,
 * its start, end, kind and name, and whether they are bounds. ?1 to ?4 stand for the start of the
 * window, its end, the width of a column, and a condition for the process. */
struct statement {
	enum lane_what what;
	bool coarse; /* from sums of seconds */
	const char *text;
};

static const struct statement statements[] = {
	{ LANE_STATES, false,
	  "SELECT process, 0, device, (max(start_ns, ?1) - ?1) / ?3, count(*),"
	  " sum(min(end_ns, ?2) - max(start_ns, ?1)), max(end_ns - start_ns), start_ns, end_ns,"
	  " kind, detail, 0 FROM op WHERE " BOOT " AND kind = 'state' AND stream = 0"
	  " AND end_ns >= ?1 AND start_ns < ?2?4 GROUP BY 1, 3, 4 ORDER BY 1, 3, 4" },
	{ LANE_WORK, false,
	  "SELECT process, stream, device, (max(gpu_start_ns, ?1) - ?1) / ?3, count(*),"
	  " sum(min(gpu_end_ns, ?2) - max(gpu_start_ns, ?1)), max(gpu_end_ns - gpu_start_ns),"
	  " gpu_start_ns, gpu_end_ns, iif(kind = 'launch' AND exact, 'kernel', kind),"
	  " coalesce(name, detail, fn), sum(bounds) FROM op WHERE " BOOT
	  " AND kind IN ('launch', 'kernel', 'copy', 'set') AND gpu_end_ns >= ?1"
	  " AND gpu_start_ns < ?2 AND start_ns < ?2?4 GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4" },
	{ LANE_RANGES, false,
	  "SELECT process, tid, -1, (max(start_ns, ?1) - ?1) / ?3, count(*), 0,"
	  " max(end_ns - start_ns), start_ns, end_ns, kind, name, 0 FROM op WHERE " BOOT
	  " AND kind = 'range' AND end_ns >= ?1 AND start_ns < ?2?4"
	  " GROUP BY 1, 2, 4 ORDER BY 1, 2, 4" },
	{ LANE_CALLS, false,
	  "SELECT process, tid, -1, (max(start_ns, ?1) - ?1) / ?3 AS at, count(*),"
	  " sum(min(end_ns, ?2) - max(start_ns, ?1)), max(end_ns - start_ns), start_ns, end_ns,"
	  " kind, fn, 0 FROM op WHERE " BOOT " AND kind IN ('launch', 'alloc', 'free', 'copy',"
	  " 'set', 'sync', 'event', 'stream', 'graph', 'context', 'module', 'init', 'memory')"
	  " AND end_ns >= ?1 AND start_ns < ?2 AND flags & 256 = 0 AND tid > 0?4"
	  " GROUP BY process, tid, at UNION ALL "
	  "SELECT process, tid, -1, (start_ns - ?1) / ?3 AS at, count(*), 0, max(0), start_ns,"
	  " start_ns, kind, fn, 0 FROM op WHERE " BOOT " AND kind = 'launch' AND start_ns >= ?1"
	  " AND start_ns < ?2 AND end_ns IS NULL AND flags & 256 = 0 AND tid > 0?4"
	  " GROUP BY process, tid, at ORDER BY 1, 2, 4" },
	{ LANE_MEMORY, false,
	  "SELECT process, 0, device, (start_ns - ?1) / ?3, count(*), max(live_bytes), 0, start_ns,"
	  " start_ns, kind, detail, 0 FROM op WHERE " BOOT " AND kind IN ('alloc', 'free')"
	  " AND start_ns >= ?1 AND start_ns < ?2 AND device >= 0"
	  " AND detail NOT IN ('host', 'registered')?4 GROUP BY 1, 3, 4 ORDER BY 1, 3, 4" },
	{ LANE_STATES, true,
	  "SELECT process, 0, device, at, 2, ns, 0, start, until, 'state', (SELECT name FROM "
	  "detail d"
	  " WHERE d.id = state AND d.kind = (SELECT id FROM kind WHERE name = 'state')), 0 FROM ("
	  "SELECT process, device, " COLUMN_OF_SECOND " AS at, state, sum(ns) AS ns," SECONDS
	  " row_number() OVER (PARTITION BY process, device, " COLUMN_OF_SECOND
	  " ORDER BY sum(ns) DESC) AS nth FROM busy WHERE " IN_SECONDS "?4 GROUP BY 1, 2, 3, 4)"
	  " WHERE nth = 1 ORDER BY 1, 3, 4" },
	{ LANE_WORK, true,
	  "SELECT process, stream, device, at, max(all_count, 2), all_ns, 0, start, until,"
	  " (SELECT name FROM kind k WHERE k.id = kind),"
	  " (SELECT text FROM name n WHERE n.id = name), 0 FROM ("
	  "SELECT process, stream, device, " COLUMN_OF_SECOND " AS at, kind, name,"
	  " sum(sum(count)) OVER alike AS all_count, sum(sum(total_ns)) OVER alike AS "
	  "all_ns," SECONDS
	  " row_number() OVER (PARTITION BY process, stream, device, " COLUMN_OF_SECOND
	  " ORDER BY sum(total_ns) DESC) AS nth FROM work WHERE " IN_SECONDS
	  " AND kind IN (SELECT id FROM kind WHERE name IN ('kernel', 'copy', 'set'))?4"
	  " GROUP BY 1, 2, 3, 4, 5, 6"
	  " WINDOW alike AS (PARTITION BY process, stream, device, " COLUMN_OF_SECOND "))"
	  " WHERE nth = 1 ORDER BY 1, 2, 3, 4" },
};

/* Replaces ?1 to ?4; all that comes from outside are numbers. */
static char *statement_of(const struct statement *statement, const struct window *window,
			  uint64_t step_ns)
{
	_cleanup_(freep) char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	for (const char *at = statement->text; *at; at++) {
		if (*at != '?') {
			fputc(*at, out);
			continue;
		}
		switch (*++at) {
		case '1':
			fprintf(out, "%" PRIu64, window->since_ns);
			break;
		case '2':
			fprintf(out, "%" PRIu64, window->until_ns);
			break;
		case '3':
			fprintf(out, "%" PRIu64, step_ns);
			break;
		default:
			if (window->pid)
				fprintf(out,
					" AND process IN (SELECT id FROM process WHERE pid = "
					"%" PRId64 ")",
					window->pid);
		}
	}
	return fclose(out) == 0 ? TAKE(text) : NULL;
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

static int take_number(void *data, const Tracesmith__V1__Row *row)
{
	int64_t *ret = data;

	*ret = row->n_value ? rows_integer(row->value[0]) : 0;
	return 0;
}

/* How many operations lie in the chunks of the window. */
static int count_ops(struct link *link, const struct window *window, int64_t *ret)
{
	static const struct statement count = {
		.text = "SELECT coalesce(sum(ops), 0) FROM chunk WHERE " BOOT
			" AND first_ns < ?2 AND last_ns >= ?1?4",
	};
	_cleanup_(freep) char *text = statement_of(&count, window, 1);

	if (!text)
		return -ENOMEM;
	return rows_sql(link, text, 1, TIMEOUT_NS, take_number, ret);
}

/* 1: not all were read. */
static int read_lanes(struct link *link, const struct window *window, struct lanes *lanes)
{
	int cut = 0;

	for (size_t i = 0; i < ARRAY_SIZE(statements); i++) {
		struct reading reading = { lanes, statements[i].what };
		_cleanup_(freep) char *text = NULL;
		int r;

		if (statements[i].coarse != window->coarse)
			continue;
		text = statement_of(&statements[i], window, lanes->step_ns);
		if (!text)
			return -ENOMEM;
		r = rows_sql(link, text, GROUPS_MAX, TIMEOUT_NS, take_group, &reading);
		if (r < 0)
			return r;
		cut |= r;
	}
	return cut;
}

struct listing {
	FILE *out;
	uint32_t count;
};

/* The programs that the lanes belong to, once each. */
static int list_process(void *data, const Tracesmith__V1__Row *row)
{
	struct listing *listing = data;
	const char *comm = row->n_value == 3 ? rows_text(row->value[2]) : NULL;

	fprintf(listing->out, "%s\"%" PRId64 "\":[%" PRId64 ",", listing->count++ ? "," : "",
		rows_integer(row->value[0]), rows_integer(row->value[1]));
	json_string(listing->out, comm ? comm : "");
	fputc(']', listing->out);
	return 0;
}

static int write_processes(struct link *link, const struct lanes *lanes, FILE *out)
{
	_cleanup_(freep) char *text = NULL;
	struct listing listing = { .out = out };
	size_t size;
	FILE *statement = open_memstream(&text, &size);
	int r;

	if (!statement)
		return -ENOMEM;
	fputs("SELECT id, pid, comm FROM process WHERE id IN (0", statement);
	for (uint32_t i = 0; i < lanes->count; i++)
		fprintf(statement, ",%" PRIu32, lanes->lane[i].process);
	fputc(')', statement);
	if (fclose(statement) != 0)
		return -ENOMEM;
	fputs("\"processes\":{", out);
	r = rows_sql(link, text, lanes->count + 1, TIMEOUT_NS, list_process, &listing);
	fputs("},", out);
	return r;
}

static int list_loss(void *data, const Tracesmith__V1__Row *row)
{
	struct listing *listing = data;
	const char *reason = row->n_value == 4 ? rows_text(row->value[0]) : NULL;

	if (!reason)
		return -EPROTO;
	fputs(listing->count++ ? ",[" : "[", listing->out);
	json_string(listing->out, reason);
	for (size_t i = 1; i < row->n_value; i++)
		fprintf(listing->out, ",%" PRId64, rows_integer(row->value[i]));
	fputc(']', listing->out);
	return 0;
}

static int write_losses(struct link *link, const struct window *window, FILE *out)
{
	static const struct statement losses = {
		.text = "SELECT r.name, max(start_ns, ?1) - ?1, min(end_ns, ?2) - ?1, count FROM "
			"loss"
			" JOIN loss_reason r ON r.id = reason WHERE " BOOT
			" AND start_ns < ?2 AND end_ns >= ?1?4 ORDER BY start_ns",
	};
	_cleanup_(freep) char *text = statement_of(&losses, window, 1);
	struct listing listing = { .out = out };
	int r;

	if (!text)
		return -ENOMEM;
	fputs(",\n\"losses\":[", out);
	r = rows_sql(link, text, LOSSES_MAX, TIMEOUT_NS, list_loss, &listing);
	fputc(']', out);
	return r;
}

static int read_window(const struct web_request *request, struct link *link, struct window *window)
{
	uint64_t now_ns = link_hello(link)->now_ns;
	int r;

	*window = (struct window){ .until_ns = now_ns, .columns = COLUMNS_DEFAULT };
	window->since_ns = now_ns > 10000000000 ? now_ns - 10000000000 : 1;
	r = web_time(request, "since", now_ns, &window->since_ns);
	if (r == 0)
		r = web_time(request, "until", now_ns, &window->until_ns);
	if (r == 0)
		r = web_number(request, "columns", &window->columns);
	if (r == 0)
		r = web_number(request, "pid", &window->pid);
	if (r < 0)
		return r;
	if (window->columns >= 1 && window->columns <= COLUMNS_MAX && window->pid >= 0 &&
	    window->since_ns < window->until_ns &&
	    window->until_ns - window->since_ns <= WINDOW_MAX_NS)
		return 0;
	complain("A timeline has 1 to %d columns and ends after its start", COLUMNS_MAX);
	return -EINVAL;
}

static int write_timeline(const struct web_request *request, struct link *link, FILE *out)
{
	struct lanes lanes = { 0 };
	struct window window;
	int64_t ops = 0;
	int r = read_window(request, link, &window);

	if (r == 0)
		r = count_ops(link, &window, &ops);
	if (r < 0)
		return r;
	window.coarse = ops > OPS_MAX;
	lanes.since_ns = window.since_ns;
	lanes.columns = (uint32_t)window.columns;
	lanes.step_ns = (window.until_ns - window.since_ns + lanes.columns - 1) / lanes.columns;
	r = read_lanes(link, &window, &lanes);
	if (r >= 0) {
		lanes_fit(&lanes);
		fprintf(out,
			"{\"since\":%" PRIu64 ",\"unit_ns\":%.6f,\"columns\":%" PRIu32
			",\"ops\":%" PRId64 ",\"coarse\":%s,\"cut\":%s,",
			lanes.since_ns, (double)lanes.step_ns / LANE_UNITS, lanes.columns, ops,
			window.coarse ? "true" : "false", r ? "true" : "false");
		r = write_processes(link, &lanes, out);
		lanes_write(out, &lanes);
	}
	if (r >= 0) {
		r = write_losses(link, &window, out);
		fputs("}\n", out);
	}
	lanes_done(&lanes);
	return r < 0 ? r : 0;
}

/* Of what the store has. */
static int write_extent(const struct web_request *request, struct link *link, FILE *out)
{
	static const struct statement from = {
		.text = "SELECT coalesce(min(first_ns), 0) FROM chunk WHERE " BOOT "?4",
	}, to = {
		.text = "SELECT coalesce(max(last_ns), 0) FROM chunk WHERE " BOOT "?4",
	};
	_cleanup_(freep) char *first = NULL, *last = NULL;
	struct window window = { 0 };
	int64_t since = 0, until = 0;
	int r = web_number(request, "pid", &window.pid);

	if (r < 0)
		return r;
	first = statement_of(&from, &window, 1);
	last = statement_of(&to, &window, 1);
	if (!first || !last)
		return -ENOMEM;
	r = rows_sql(link, first, 1, TIMEOUT_NS, take_number, &since);
	if (r >= 0)
		r = rows_sql(link, last, 1, TIMEOUT_NS, take_number, &until);
	if (r >= 0)
		fprintf(out, "{\"since\":%" PRId64 ",\"until\":%" PRId64 "}\n", since, until);
	return r < 0 ? r : 0;
}

void timeline_extent(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, write_extent);
}

void timeline_lanes(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, write_timeline);
}
