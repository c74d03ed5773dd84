/* Graph: names the nodes, and lists what each must wait for. */
#include "client/graph/graph.h"

#include "client/trace/show.h"

const char *graph_call_name(const struct graph *graph, uint32_t call)
{
	const struct plan *plan = graph->plan;

	return show_call_name(graph->meta, &plan->op[plan->call[call].op])->text;
}

const char *graph_work_name(const struct graph *graph, uint32_t index)
{
	const struct plan_work *work = &graph->plan->work[index];
	const struct op *op = &graph->plan->op[work->op];

	if (work->flags & PLAN_MARK)
		return op->kind == OP_EVENT    ? "event"
		       : op->kind == OP_STREAM ? "wait for an event"
		       : work->edge_count      ? "graph ends"
					       : "graph starts";
	if (show_is_submission(op) || op->flags & (OP_NODE | OP_NO_CALL))
		return show_work_name(graph->meta, op)->text;
	return show_call_name(graph->meta, op)->text;
}

const char *graph_work_kind(const struct graph *graph, uint32_t index)
{
	const struct plan_work *work = &graph->plan->work[index];
	const struct op *op = &graph->plan->op[work->op];

	if (work->flags & PLAN_MARK)
		return "mark";
	if (op->kind == OP_LAUNCH)
		return op->graph ? "graph" : "kernel";
	return show_kind_name(op->kind);
}

static const char *edge_name(uint32_t kind)
{
	switch ((enum plan_edge_kind)kind) {
	case PLAN_EDGE_EVENT:
		return "event";
	case PLAN_EDGE_DEFAULT:
		return "default stream";
	case PLAN_EDGE_NODE:
		return "graph";
	case PLAN_EDGE_QUEUE:
		return "full queue";
	default:
		return "wait";
	}
}

static int edges_of_call(struct graph *graph, uint32_t index, graph_edge_fn *take)
{
	const struct plan *plan = graph->plan;
	const struct plan_call *call = &plan->call[index];
	struct graph_edge edge = { "thread", true, true, call->before, index };
	int r = call->before == PLAN_NONE ? 0 : take(graph, &edge);

	for (uint32_t i = 0; i < call->edge_count && r == 0; i++) {
		edge = (struct graph_edge){ edge_name(plan->edge[call->edge + i].kind), false, true,
					    plan->edge[call->edge + i].work, index };
		r = take(graph, &edge);
	}
	return r;
}

static int edges_of_work(struct graph *graph, uint32_t index, graph_edge_fn *take)
{
	const struct plan *plan = graph->plan;
	const struct plan_work *work = &plan->work[index];
	struct graph_edge edge = { "submit", true, false, work->call, index };
	int r = work->call == PLAN_NONE ? 0 : take(graph, &edge);

	if (work->before != PLAN_NONE && r == 0) {
		edge = (struct graph_edge){ "stream", false, false, work->before, index };
		r = take(graph, &edge);
	}
	if (work->behind != PLAN_NONE && r == 0) {
		edge = (struct graph_edge){ "engine", false, false, work->behind, index };
		r = take(graph, &edge);
	}
	for (uint32_t i = 0; i < work->edge_count && r == 0; i++) {
		edge = (struct graph_edge){ edge_name(plan->edge[work->edge + i].kind), false,
					    false, plan->edge[work->edge + i].work, index };
		r = take(graph, &edge);
	}
	return r;
}

int graph_edges(struct graph *graph, graph_edge_fn *take)
{
	int r = 0;

	for (uint32_t i = 0; i < graph->plan->call_count && r == 0; i++)
		r = edges_of_call(graph, i, take);
	for (uint32_t i = 0; i < graph->plan->work_count && r == 0; i++)
		r = edges_of_work(graph, i, take);
	return r;
}
