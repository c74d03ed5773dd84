/* Moment: finds the operation that a lane has at a moment. */
#include "client/serve/moment.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "client/output/json.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"

#define FRAMES_MAX 48
#define TIMEOUT_NS UINT64_C(4000000000)
#define FRAME_TEXT 512

/* Columns of the answer, and what they are of an operation. */
static const struct {
	const char *name, *value;
} columns[] = {
	{ "name", "name" },
	{ "kind", "kind" },
	{ "fn", "fn" },
	{ "detail", "detail" },
	{ "pid", "pid" },
	{ "tid", "tid" },
	{ "stream", "stream" },
	{ "device", "nullif(device, -1)" },
	{ "start_ns", "start_ns" },
	{ "call_ns", "duration_ns" },
	{ "gpu_start_ns", "gpu_start_ns" },
	{ "gpu_ns", "gpu_end_ns - gpu_start_ns" },
	{ "delay_ns", "iif(exact AND gpu_start_ns >= start_ns, gpu_start_ns - start_ns, NULL)" },
	{ "seen_ns", "seen_ns" },
	{ "bounds", "bounds" },
	{ "result", "result" },
	{ "bytes", "nullif(bytes, 0)" },
	{ "grid", "iif(grid_x, printf('%d × %d × %d', grid_x, grid_y, grid_z), NULL)" },
	{ "block", "iif(block_x, printf('%d × %d × %d', block_x, block_y, block_z), NULL)" },
	{ "shared_bytes", "nullif(shared_bytes + static_bytes, 0)" },
	{ "registers", "nullif(registers, 0)" },
	{ "stack", "stack" },
};

/* What a lane is made of: how its id is called, and its operations' times. */
static const struct place {
	const char *what, *id, *start, *end, *kinds;
} places[] = {
	{ "work", "stream", "gpu_start_ns", "gpu_end_ns",
	  "kind IN ('launch', 'kernel', 'copy', 'set')" },
	{ "calls", "tid", "start_ns", "coalesce(end_ns, start_ns)",
	  "kind IN ('launch', 'alloc', 'free', 'copy', 'set', 'sync', 'event', 'stream', 'graph', "
	  "'context',"
	  " 'module', 'init', 'memory') AND flags & 256 = 0" },
	{ "ranges", "tid", "start_ns", "coalesce(end_ns, start_ns)", "kind = 'range'" },
};

struct finding {
	FILE *out;
	bool found;
	int64_t stack;
	uint32_t frames;
};

static int take_op(void *data, const Tracesmith__V1__Row *row)
{
	struct finding *finding = data;

	if (row->n_value != ARRAY_SIZE(columns))
		return -EPROTO;
	finding->found = true;
	for (size_t i = 0; i < row->n_value; i++) {
		const Tracesmith__V1__Value *value = row->value[i];

		fprintf(finding->out, "\"%s\":", columns[i].name);
		if (rows_text(value))
			json_string(finding->out, rows_text(value));
		else if (value->value_case == TRACESMITH__V1__VALUE__VALUE_INTEGER)
			fprintf(finding->out, "%" PRId64, value->integer);
		else
			fputs("null", finding->out);
		fputc(',', finding->out);
	}
	finding->stack = rows_integer(row->value[ARRAY_SIZE(columns) - 1]);
	return 0;
}

static int take_frame(void *data, const Tracesmith__V1__Row *row)
{
	struct finding *finding = data;

	if (row->n_value != 1)
		return -EPROTO;
	if (finding->frames++)
		fputc(',', finding->out);
	json_string(finding->out, rows_text(row->value[0]) ? rows_text(row->value[0]) : "?");
	return 0;
}

static int write_frames(struct link *link, struct finding *finding)
{
	char text[FRAME_TEXT];

	snprintf(text, sizeof(text),
		 "SELECT coalesce(symbol, file || printf('+0x%%x', offset), printf('0x%%x', "
		 "address))"
		 " || iif(source <> '', ' (' || replace(source, rtrim(source, replace(source, '/', "
		 "'')), '')"
		 " || iif(line, ':' || line, '') || ')', '')"
		 " FROM frame WHERE stack = %" PRId64 " ORDER BY depth LIMIT %d",
		 finding->stack, FRAMES_MAX);
	return rows_sql(link, text, FRAMES_MAX, TIMEOUT_NS, take_frame, finding);
}

static char *statement_of(const struct place *place, int64_t process, int64_t id, int64_t at,
			  int64_t within)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	fputs("SELECT ", out);
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
		fprintf(out, "%s%s", i ? ", " : "", columns[i].value);
	fprintf(out,
		" FROM op WHERE process = %" PRId64 " AND %s = %" PRId64 " AND %s"
		" AND %s >= %" PRId64 " AND start_ns <= %" PRId64 " AND %s <= %" PRId64,
		process, place->id, id, place->kinds, place->end, at - within, at + within,
		place->start, at + within);
	fprintf(out,
		" ORDER BY max(%s - %" PRId64 ", %" PRId64 " - %s, 0), bounds, %s - %s LIMIT 1",
		place->start, at, at, place->end, place->end, place->start);
	if (fclose(out) != 0) {
		free(text);
		return NULL;
	}
	return text;
}

static const struct place *place_of(const char *what)
{
	for (size_t i = 0; what && i < ARRAY_SIZE(places); i++)
		if (strcmp(what, places[i].what) == 0)
			return &places[i];
	return NULL;
}

static int write_op(const struct web_request *request, struct link *link, FILE *out)
{
	const struct place *place = place_of(web_argument(request, "what"));
	struct finding finding = { .out = out };
	_cleanup_(freep) char *text = NULL;
	int64_t process = 0, id = 0, at = 0, within = 0;
	int r = web_number(request, "process", &process);

	if (r == 0)
		r = web_number(request, "id", &id);
	if (r == 0)
		r = web_number(request, "at", &at);
	if (r == 0)
		r = web_number(request, "within", &within);
	if (r < 0)
		return r;
	if (!place || at < 1 || at > INT64_MAX / 4 || within < 0 || within > INT64_MAX / 4) {
		complain("'what' must be work, calls or ranges, and 'at' a time");
		return -EINVAL;
	}
	text = statement_of(place, process, id, at, within);
	if (!text)
		return -ENOMEM;
	fputc('{', out);
	r = rows_sql(link, text, 1, TIMEOUT_NS, take_op, &finding);
	if (r < 0)
		return r;
	if (!finding.found) {
		complain("Nothing happened there");
		return -ENOENT;
	}
	fputs("\"frames\":[", out);
	if (finding.stack)
		r = write_frames(link, &finding);
	fputs("]}\n", out);
	return r < 0 ? r : 0;
}

void moment_op(const struct web_request *request, struct web_answer *answer)
{
	web_relay(request, answer, write_op);
}
