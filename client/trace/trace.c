/* Trace: opens the link, loads the metadata of a window and passes on its ops. It holds one chunk
 * at a time. */
#include "client/trace/trace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/link/rows.h"
#include "client/trace/meta_load.h"
#include "client/trace/show.h"

#define PID_UNKNOWN (1u << 30) /* plus the id of a process that appeared after the metadata */

struct ends {
	int64_t first_ns, last_ns, recorded_ns;
};

static int take_ends(void *data, const Tracesmith__V1__Row *row)
{
	struct ends *ends = data;

	if (row->n_value == 2) {
		ends->first_ns = rows_integer(row->value[0]);
		ends->last_ns = rows_integer(row->value[1]);
	}
	return 0;
}

static int take_recorded(void *data, const Tracesmith__V1__Row *row)
{
	struct ends *ends = data;

	if (row->n_value == 1)
		ends->recorded_ns = rows_integer(row->value[0]);
	return 0;
}

static int load_ends(const struct trace *trace, bool recorded, struct ends *ends)
{
	Tracesmith__V1__QueryRequest query = TRACESMITH__V1__QUERY_REQUEST__INIT;
	int r;

	query.name = (char *)"trace-ends";
	query.since_ns = trace->since_ns;
	r = rows_ask(trace->link, &query, take_ends, ends);
	if (r >= 0 && recorded)
		r = rows_query(trace->link, "recorded-since", 1, take_recorded, ends);
	return r;
}

/* The first and the last op of the window: a chunk may extend beyond the recorded window, and a
 * recording waits at its end for late reports. */
static int find_ends(struct trace *trace, bool recorded)
{
	struct ends ends = { 0 };
	int r = load_ends(trace, recorded, &ends);

	if (r < 0)
		return r;
	if (ends.first_ns > 0 && ends.recorded_ns > ends.first_ns)
		ends.first_ns = ends.recorded_ns;
	trace->begin_ns = trace->since_ns;
	if (ends.first_ns > 0 && (uint64_t)ends.first_ns > trace->begin_ns)
		trace->begin_ns = (uint64_t)ends.first_ns;
	trace->end_ns = trace->until_ns;
	if (recorded && ends.last_ns > 0 && (uint64_t)ends.last_ns < trace->end_ns &&
	    (uint64_t)ends.last_ns > trace->begin_ns)
		trace->end_ns = (uint64_t)ends.last_ns;
	return 0;
}

/* A sum that overflows is never reached. */
static uint64_t after(const struct trace *trace, uint64_t ns)
{
	return ns < UINT64_MAX - trace->begin_ns ? trace->begin_ns + ns : UINT64_MAX;
}

static int narrow(struct trace *trace, const struct options *options)
{
	uint64_t from_ns = after(trace, options->from_ns), to_ns = after(trace, options->to_ns);

	if (options->given & OPTION(FROM) && from_ns > trace->since_ns)
		trace->since_ns = from_ns;
	if (options->given & OPTION(TO) && to_ns < trace->until_ns)
		trace->until_ns = to_ns;
	if (options->given & OPTION(TO))
		trace->end_ns = trace->until_ns;
	if (!(options->given & OPTIONS_PART) || trace->since_ns < trace->until_ns)
		return 0;
	complain("Nothing is left between --from and --to: 'tsctl info' shows the duration of the "
		 "recording");
	return -EINVAL;
}

int trace_open(const struct options *options, struct trace *ret)
{
	return trace_open_on(NULL, options, ret);
}

int trace_open_on(struct link *link, const struct options *options, struct trace *ret)
{
	struct trace *trace = ret;
	int r;

	*trace = (struct trace){ .pid = (uint32_t)options->pid, .link = link, .lent = link };
	trace->op = calloc(SBT_OPS_MAX, sizeof(*trace->op));
	if (!trace->op || sbt_codec_new(&trace->codec) < 0) {
		complain_memory();
		return -ENOMEM;
	}
	r = link ? 0 : link_open(options, &trace->link);
	if (r < 0)
		return r;
	trace->since_ns =
		options->given & OPTION(SINCE) ? link_time(trace->link, &options->since) : 1;
	/* Ops that arrive while we ask would have no names yet. */
	trace->until_ns = options->given & OPTION(UNTIL) ? link_time(trace->link, &options->until)
							 : link_hello(trace->link)->now_ns;
	r = find_ends(trace, options->file);
	if (r < 0)
		return r;
	r = narrow(trace, options);
	if (r < 0)
		return r;
	return meta_load(trace->link, trace->pid, trace->since_ns, trace->until_ns, &trace->meta);
}

void trace_done(struct trace *trace)
{
	meta_free(trace->meta);
	sbt_codec_free(trace->codec);
	if (!trace->lent)
		link_free(trace->link);
	free(trace->op);
	*trace = (struct trace){ 0 };
}

static int take_chunk(struct trace *trace, const Tracesmith__V1__Chunk *chunk, trace_fn *call,
		      void *data)
{
	struct sbt_info info;
	size_t count;
	int r;

	trace->chunk_count++;
	r = sbt_peek(chunk->data.data, chunk->data.len, &info);
	if (r == 0 && trace->want && !trace->want(trace->want_data, &info))
		return 0;
	if (r == 0)
		r = sbt_decode(trace->codec, chunk->data.data, chunk->data.len, SBT_ALL_COLUMNS,
			       trace->op, &info);
	if (r == -ENOMEM)
		return complain_memory(), r;
	if (r < 0) {
		complain("The answer is damaged: a chunk of operations cannot be read");
		return r;
	}
	if (trace->first_ns == 0)
		trace->first_ns = info.first_ns;
	count = show_keep_window(trace->op, info.count, trace->since_ns, trace->until_ns);
	if (count > 0 && !meta_process(trace->meta, info.process)) {
		r = meta_add_process(trace->meta, info.process, PID_UNKNOWN | info.process,
				     "unknown process", NULL);
		if (r < 0)
			return r;
	}
	trace->op_count += count;
	return call(data, trace->op, count, chunk->done_ns);
}

struct reading {
	struct trace *trace;
	trace_fn *call;
	void *data;
};

static int take(void *data, const Tracesmith__V1__Reply *reply)
{
	const struct reading *reading = data;

	if (reply->body_case != TRACESMITH__V1__REPLY__BODY_CHUNK)
		return 0;
	return take_chunk(reading->trace, reply->chunk, reading->call, reading->data);
}

int trace_read(struct trace *trace, trace_fn *call, void *data, Tracesmith__V1__Reply **ret_end)
{
	Tracesmith__V1__ExportRequest body = TRACESMITH__V1__EXPORT_REQUEST__INIT;
	struct reading reading = { trace, call, data };

	body.pid = trace->pid;
	body.since_ns = trace->since_ns;
	body.until_ns = trace->until_ns;
	return link_converse(trace->link, &body.base, take, &reading, ret_end);
}
