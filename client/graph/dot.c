/* Graph, dot: a box for each thread and each stream, with its nodes from top to bottom. The
 * critical path is red. Labels are cut, since kernel names can fill a page. */
#include <stdio.h>

#include "client/graph/graph.h"
#include "client/output/out.h"
#include "client/trace/show.h"
#include "core/base/units.h"

#define LABEL_BYTES 60

static void dot_label(struct out *out, const char *name)
{
	size_t size = 0;

	for (; size < LABEL_BYTES && name[size]; size++) {
		unsigned char c = (unsigned char)name[size];

		if (c == '"' || c == '\\')
			*out->at++ = '\\';
		*out->at++ = c < 0x20 ? ' ' : c;
	}
	/* Never within a character. */
	while (size && (name[size] & 0xc0) == 0x80) {
		out->at--;
		size--;
	}
	if (name[size])
		out_text(out, "…");
}

static void dot_node(struct out *out, char kind, uint32_t number, const char *name,
		     uint64_t duration_ns, bool critical)
{
	char text[UNITS_TEXT_SIZE];

	out_text(out, "\t\t");
	*out->at++ = kind;
	out_number(out, number);
	out_text(out, " [label=\"");
	dot_label(out, name);
	if (duration_ns) {
		units_nanoseconds(text, (int64_t)duration_ns);
		out_text(out, "\\n");
		out_text(out, text);
	}
	out_text(out, critical ? "\", color=red, fontcolor=red];\n" : "\"];\n");
}

static void dot_cluster(struct out *out, const char *kind, uint32_t number, const char *label)
{
	out_text(out, "\tsubgraph cluster_");
	out_text(out, kind);
	out_number(out, number);
	out_text(out, " {\n\t\tlabel=\"");
	dot_label(out, label);
	out_text(out, "\";\n");
}

static int dot_thread(struct graph *graph, uint32_t number)
{
	const struct plan *plan = graph->plan;
	const struct plan_thread *thread = &plan->thread[number];
	const struct meta_process *process = meta_process(graph->meta, thread->process);
	char label[SHOW_NAME_BYTES];

	snprintf(label, sizeof(label), "%u: thread %u", process ? process->pid : 0, thread->tid);
	if (out_room(graph->out) < 0)
		return graph->out->error;
	dot_cluster(graph->out, "t", number, label);
	for (uint32_t i = 0; i < plan->call_count; i++) {
		if (plan->call[i].thread != number)
			continue;
		if (out_room(graph->out) < 0)
			return graph->out->error;
		dot_node(graph->out, 'c', i, graph_call_name(graph, i),
			 plan->call[i].end_ns - plan->call[i].start_ns, graph->call_critical[i]);
	}
	out_text(graph->out, "\t}\n");
	return 0;
}

static int dot_stream(struct graph *graph, uint32_t number)
{
	const struct plan *plan = graph->plan;
	const struct plan_stream *stream = &plan->stream[number];
	char label[SHOW_NAME_BYTES];

	show_stream_name(label, graph->meta, stream->stream);
	if (out_room(graph->out) < 0)
		return graph->out->error;
	dot_cluster(graph->out, "s", number, label);
	for (uint32_t i = 0; i < plan->work_count; i++) {
		if (plan->work[i].stream != number)
			continue;
		if (out_room(graph->out) < 0)
			return graph->out->error;
		dot_node(graph->out, 'w', i, graph_work_name(graph, i),
			 plan->work[i].end_ns - plan->work[i].start_ns, graph->work_critical[i]);
	}
	out_text(graph->out, "\t}\n");
	return 0;
}

static int dot_edge(struct graph *graph, const struct graph_edge *edge)
{
	struct out *out = graph->out;
	bool critical =
		(edge->from_call ? graph->call_critical : graph->work_critical)[edge->from] &&
		(edge->to_call ? graph->call_critical : graph->work_critical)[edge->to];

	if (out_room(out) < 0)
		return out->error;
	*out->at++ = '\t';
	*out->at++ = edge->from_call ? 'c' : 'w';
	out_number(out, edge->from);
	out_text(out, " -> ");
	*out->at++ = edge->to_call ? 'c' : 'w';
	out_number(out, edge->to);
	out_text(out, " [tooltip=\"");
	out_text(out, edge->why);
	out_text(out, edge->from_call == edge->to_call ? "\"" : "\", style=dashed");
	out_text(out, critical ? ", color=red];\n" : "];\n");
	return 0;
}

int graph_dot(struct graph *graph)
{
	int r = 0;

	if (out_room(graph->out) < 0)
		return graph->out->error;
	out_text(graph->out, "digraph plan {\n\tnode [shape=box, fontname=\"sans\"];\n");
	for (uint32_t i = 0; i < graph->plan->thread_count && r == 0; i++)
		r = dot_thread(graph, i);
	for (uint32_t i = 0; i < graph->plan->stream_count && r == 0; i++)
		r = dot_stream(graph, i);
	if (r == 0)
		r = graph_edges(graph, dot_edge);
	if (r == 0 && (r = out_room(graph->out)) == 0)
		out_text(graph->out, "}\n");
	return r;
}
