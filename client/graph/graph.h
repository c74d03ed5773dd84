/* graph.h: writes the dependency graph of a plan. */
#ifndef TS_CLIENT_GRAPH_H
#define TS_CLIENT_GRAPH_H

#include "client/output/out.h"
#include "client/trace/meta.h"
#include "core/plan/critical.h"
#include "core/plan/plan.h"

struct graph {
	const struct plan *plan;
	const struct meta *meta;
	const struct critical *critical;
	bool *call_critical, *work_critical; /* it is on the path */
	struct out *out;
	uint32_t edges; /* number written */
};

/* Iterates over the dependencies: each node, and what had to end before it. */
struct graph_edge {
	const char *why;
	bool from_call, to_call; /* else works */
	uint32_t from, to;
};
typedef int graph_edge_fn(struct graph *graph, const struct graph_edge *edge);
int graph_edges(struct graph *graph, graph_edge_fn *take);

/* Never NULL. */
const char *graph_call_name(const struct graph *graph, uint32_t call);
const char *graph_work_name(const struct graph *graph, uint32_t work);
const char *graph_work_kind(const struct graph *graph, uint32_t work);

/* The writers return the out's error. */
int graph_dot(struct graph *graph);
int graph_json(struct graph *graph);

#endif
