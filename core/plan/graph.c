/* Plan, graphs: what a launch submits is between two marks on its stream. Dependencies between
 * nodes are not recorded; times and streams show some of them:
 *
 * - a node that starts while no other one runs waits for all before it;
 * - otherwise it follows the last on its stream, if that was over;
 * - and if that was over long before, or there was none, it follows the node that ended last, if
 *   that was just before: another branch starts or ends there.
 *
 * So parallel branches stay parallel, and each node has its real dependencies. */
#include <errno.h>

#include "core/plan/build.h"

/* Maximum time from the end of a node to the start of the next. */
#define GRAPH_GAP_NS 3000
/* Branches that are distinguished. */
#define GRAPH_LANES 64

/* A sequence of nodes of one stream, none of which overlap. */
struct lane {
	uint32_t last; /* work */
	uint32_t stream;
};

struct graph {
	struct plan_builder *builder;
	uint32_t begin;	 /* the mark */
	uint32_t joined; /* nodes before this one have a successor */
	uint64_t end_ns; /* of all so far */
	struct lane lane[GRAPH_LANES];
	uint32_t lane_count;
};

static void graph_edge(struct graph *graph, uint32_t node, uint32_t to)
{
	build_work_edge(graph->builder, node, to, PLAN_EDGE_NODE);
	graph->builder->plan->work[to].flags |= BUILD_WAITED;
}

/* Its lane: the most recently used of its stream's free ones; otherwise PLAN_NONE. */
static uint32_t graph_lane(const struct graph *graph, const struct plan_work *node)
{
	const struct plan_work *work = graph->builder->plan->work;
	uint32_t best = PLAN_NONE;

	for (uint32_t i = 0; i < graph->lane_count; i++) {
		const struct lane *lane = &graph->lane[i];

		if (lane->stream != node->stream || work[lane->last].end_ns > node->start_ns)
			continue;
		if (best == PLAN_NONE ||
		    work[lane->last].end_ns > work[graph->lane[best].last].end_ns)
			best = i;
	}
	return best;
}

/* The node that ended last before the time. */
static uint32_t graph_latest(const struct graph *graph, uint64_t time_ns)
{
	const struct plan_work *work = graph->builder->plan->work;
	uint32_t best = PLAN_NONE;

	for (uint32_t i = 0; i < graph->lane_count; i++) {
		uint32_t node = graph->lane[i].last;

		if (work[node].end_ns > time_ns)
			node = work[node].before;
		if (node != PLAN_NONE && work[node].end_ns <= time_ns &&
		    (best == PLAN_NONE || work[node].end_ns > work[best].end_ns))
			best = node;
	}
	return best;
}

static void graph_join(struct graph *graph, uint32_t node)
{
	const struct plan_work *work = graph->builder->plan->work;

	for (; graph->joined < node; graph->joined++)
		if (!(work[graph->joined].flags & BUILD_WAITED) &&
		    graph->joined != work[node].before)
			graph_edge(graph, node, graph->joined);
}

static void graph_follow(struct graph *graph, uint32_t index)
{
	const struct plan_work *work = graph->builder->plan->work, *node = &work[index];
	uint32_t before = node->before, latest;

	if (before != PLAN_NONE && node->start_ns - work[before].end_ns <= GRAPH_GAP_NS)
		return;
	latest = graph_latest(graph, node->start_ns);
	if (latest != PLAN_NONE && latest != before &&
	    node->start_ns - work[latest].end_ns <= GRAPH_GAP_NS)
		graph_edge(graph, index, latest);
}

static void graph_place(struct graph *graph, uint32_t index)
{
	struct plan_work *work = graph->builder->plan->work, *node = &work[index];
	uint32_t lane = graph_lane(graph, node);

	if (lane != PLAN_NONE) {
		node->before = graph->lane[lane].last;
		work[node->before].flags |= BUILD_WAITED;
	} else if (graph->lane_count < GRAPH_LANES) {
		lane = graph->lane_count++;
	}
	if (node->start_ns >= graph->end_ns)
		graph_join(graph, index);
	else
		graph_follow(graph, index);
	if (lane != PLAN_NONE)
		graph->lane[lane] = (struct lane){ index, node->stream };
	if (node->end_ns > graph->end_ns)
		graph->end_ns = node->end_ns;
}

static void graph_add(struct graph *graph, uint32_t op, uint32_t call)
{
	struct plan *plan = graph->builder->plan;
	uint32_t index = build_work(graph->builder, op, call, PLAN_GRAPH);

	if (index == PLAN_NONE)
		return;
	if (plan->work[index].flags & BUILD_TIMED)
		graph_place(graph, index);
	if (plan->work[index].before == PLAN_NONE && !plan->work[index].edge_count)
		build_work_edge(graph->builder, index, graph->begin, PLAN_EDGE_NODE);
}

static void graph_end(struct graph *graph, uint32_t call)
{
	struct plan *plan = graph->builder->plan;
	uint32_t end =
		build_work(graph->builder, plan->call[call].op, call, PLAN_GRAPH | PLAN_MARK);

	if (end == PLAN_NONE)
		return;
	for (uint32_t i = graph->begin + 1; i < end; i++)
		if (!(plan->work[i].flags & BUILD_WAITED))
			build_work_edge(graph->builder, end, i, PLAN_EDGE_NODE);
	build_chain(graph->builder, end);
}

void build_graph(struct plan_builder *builder, uint32_t call, uint32_t first, uint32_t last)
{
	struct plan *plan = builder->plan;
	uint32_t own = plan->call[call].op;
	struct graph graph = { .builder = builder };

	plan->call[call].flags |= PLAN_GRAPH;
	graph.begin = build_work(builder, own, call, PLAN_GRAPH | PLAN_MARK);
	if (graph.begin == PLAN_NONE)
		return;
	graph.joined = graph.begin + 1;
	build_default_edges(builder, graph.begin);
	build_chain(builder, graph.begin);
	if (!(plan->op[own].flags & OP_EXACT))
		own = PLAN_NONE;
	for (uint32_t i = first; i < last && !builder->error; i++) {
		if (own != PLAN_NONE && plan->op[own].gpu_start_ns <= plan->op[i].gpu_start_ns) {
			graph_add(&graph, own, call);
			own = PLAN_NONE;
		}
		graph_add(&graph, i, call);
	}
	if (own != PLAN_NONE)
		graph_add(&graph, own, call);
	graph_end(&graph, call);
}
