/* Graph, JSON: one object; a line for each thread, stream, call, work and edge. Times are
 * nanoseconds since the start of the graph. */
#include "client/output/json.h"
#include "client/graph/graph.h"
#include "client/trace/show.h"

static const char *const bounds[] = {
	[PLAN_BOUND_NOTHING] = "nothing", [PLAN_BOUND_CALL] = "call",
	[PLAN_BOUND_STREAM] = "stream",	  [PLAN_BOUND_EDGE] = "edge",
	[PLAN_BOUND_ENGINE] = "engine",
};

/* Begins the line of item `number` of a list. */
static int item_begin(struct graph *graph, uint32_t number, const char *text)
{
	if (out_room(graph->out) < 0)
		return graph->out->error;
	out_text(graph->out, number ? ",\n" : "\n");
	out_text(graph->out, text);
	return 0;
}

static void put_flag(struct out *out, const char *name, bool set)
{
	if (set)
		out_text(out, name);
}

static void put_process(struct graph *graph, uint32_t id)
{
	const struct meta_process *process = meta_process(graph->meta, id);

	if (process)
		json_member(graph->out, ",\"pid\":", process->pid);
}

static int put_thread(struct graph *graph, uint32_t number)
{
	const struct plan_thread *thread = &graph->plan->thread[number];
	int r = item_begin(graph, number, "{\"thread\":");

	if (r < 0)
		return r;
	out_number(graph->out, number);
	put_process(graph, thread->process);
	json_member(graph->out, ",\"tid\":", thread->tid);
	out_text(graph->out, "}");
	return 0;
}

static int put_stream(struct graph *graph, uint32_t number)
{
	const struct plan_stream *stream = &graph->plan->stream[number];
	char name[SHOW_NAME_BYTES];
	int r = item_begin(graph, number, "{\"stream\":");

	if (r < 0)
		return r;
	show_stream_name(name, graph->meta, stream->stream);
	out_number(graph->out, number);
	put_process(graph, stream->process);
	json_member(graph->out, ",\"id\":", stream->stream);
	out_text(graph->out, ",\"device\":");
	out_signed(graph->out, graph->plan->device[stream->device].ordinal);
	out_text(graph->out, ",\"name\":");
	json_quoted(graph->out, name);
	out_text(graph->out, "}");
	return 0;
}

static void put_times(struct graph *graph, const char *name, uint64_t start_ns, uint64_t end_ns,
		      uint64_t slack_ns, int64_t delay_ns)
{
	out_text(graph->out, ",\"name\":");
	json_quoted(graph->out, name);
	json_member(graph->out, ",\"start_ns\":", start_ns - graph->plan->start_ns);
	json_member(graph->out, ",\"end_ns\":", end_ns - graph->plan->start_ns);
	json_member(graph->out, ",\"slack_ns\":", slack_ns);
	out_text(graph->out, ",\"delay_ns\":");
	out_signed(graph->out, delay_ns);
}

static int put_call(struct graph *graph, uint32_t number)
{
	const struct plan_call *call = &graph->plan->call[number];
	int r = item_begin(graph, number, "{\"call\":");

	if (r < 0)
		return r;
	out_number(graph->out, number);
	json_member(graph->out, ",\"thread\":", call->thread);
	put_times(graph, graph_call_name(graph, number), call->start_ns, call->end_ns,
		  graph->critical->call_slack_ns[number], call->delay_ns);
	out_text(graph->out, ",\"kind\":");
	json_quoted(graph->out, show_kind_name(graph->plan->op[call->op].kind));
	put_flag(graph->out, ",\"critical\":true", graph->call_critical[number]);
	put_flag(graph->out, ",\"blocks\":true", call->flags & PLAN_BLOCKS);
	out_text(graph->out, "}");
	return 0;
}

static int put_work(struct graph *graph, uint32_t number)
{
	const struct plan_work *work = &graph->plan->work[number];
	int r = item_begin(graph, number, "{\"work\":");

	if (r < 0)
		return r;
	out_number(graph->out, number);
	json_member(graph->out, ",\"stream\":", work->stream);
	put_times(graph, graph_work_name(graph, number), work->start_ns, work->end_ns,
		  graph->critical->work_slack_ns[number], work->delay_ns);
	out_text(graph->out, ",\"kind\":");
	json_quoted(graph->out, graph_work_kind(graph, number));
	out_text(graph->out, ",\"bound\":");
	json_quoted(graph->out, bounds[work->bound]);
	put_flag(graph->out, ",\"critical\":true", graph->work_critical[number]);
	put_flag(graph->out, ",\"untimed\":true", work->flags & PLAN_UNTIMED);
	put_flag(graph->out, ",\"no_call\":true", work->call == PLAN_NONE);
	out_text(graph->out, "}");
	return 0;
}

static void put_end(struct out *out, bool call, const char *name, uint32_t number)
{
	out_text(out, name);
	*out->at++ = call ? 'c' : 'w';
	out_number(out, number);
	out_text(out, "\"");
}

static int put_edge(struct graph *graph, const struct graph_edge *edge)
{
	int r = item_begin(graph, graph->edges++, "{");

	if (r < 0)
		return r;
	put_end(graph->out, edge->from_call, "\"from\":\"", edge->from);
	put_end(graph->out, edge->to_call, ",\"to\":\"", edge->to);
	out_text(graph->out, ",\"why\":");
	json_quoted(graph->out, edge->why);
	out_text(graph->out, "}");
	return 0;
}

static int put_list(struct graph *graph, const char *name, uint32_t count,
		    int (*put)(struct graph *graph, uint32_t number))
{
	int r = out_room(graph->out);

	if (r < 0)
		return r;
	out_text(graph->out, ",\n\"");
	out_text(graph->out, name);
	out_text(graph->out, "\":[");
	for (uint32_t i = 0; i < count && r == 0; i++)
		r = put(graph, i);
	if (r == 0 && (r = out_room(graph->out)) == 0)
		out_text(graph->out, "]");
	return r;
}

static int put_head(struct graph *graph)
{
	const struct plan *plan = graph->plan;

	if (out_room(graph->out) < 0)
		return graph->out->error;
	json_member(graph->out, "{\"begin_ns\":", plan->start_ns);
	json_member(graph->out, ",\"duration_ns\":", plan->end_ns - plan->start_ns);
	json_member(graph->out, ",\"untimed\":", plan->untimed);
	json_member(graph->out, ",\"no_call\":", plan->no_call);
	json_member(graph->out, ",\"contradicted\":", plan->contradicted);
	return 0;
}

static int put_path(struct graph *graph, uint32_t number)
{
	static const char *const why[] = { "work", "call", "host", "delay" };
	const struct critical_piece *piece = &graph->critical->piece[number];
	bool call = piece->work == PLAN_NONE;
	int r = item_begin(graph, number, "{\"what\":");

	if (r < 0)
		return r;
	json_quoted(graph->out, why[piece->why]);
	put_end(graph->out, call, ",\"of\":\"", call ? piece->call : piece->work);
	json_member(graph->out, ",\"start_ns\":", piece->start_ns - graph->plan->start_ns);
	json_member(graph->out, ",\"end_ns\":", piece->end_ns - graph->plan->start_ns);
	out_text(graph->out, "}");
	return 0;
}

int graph_json(struct graph *graph)
{
	const struct plan *plan = graph->plan;
	int r = put_head(graph);

	if (r == 0)
		r = put_list(graph, "threads", plan->thread_count, put_thread);
	if (r == 0)
		r = put_list(graph, "streams", plan->stream_count, put_stream);
	if (r == 0)
		r = put_list(graph, "calls", plan->call_count, put_call);
	if (r == 0)
		r = put_list(graph, "works", plan->work_count, put_work);
	if (r == 0)
		r = put_list(graph, "path", (uint32_t)graph->critical->count, put_path);
	if (r == 0 && (r = out_room(graph->out)) == 0) {
		out_text(graph->out, ",\n\"edges\":[");
		r = graph_edges(graph, put_edge);
	}
	if (r == 0 && (r = out_room(graph->out)) == 0)
		out_text(graph->out, "]}\n");
	return r;
}
