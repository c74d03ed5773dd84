/* Graph: nodes and what each depends on. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

static pthread_mutex_t graph_lock = PTHREAD_MUTEX_INITIALIZER;

struct graph *graph_new(void)
{
	return arena_take(&arena_graphs);
}

void graph_delete(struct graph *graph)
{
	struct node *next;

	for (struct node *node = graph->first; node; node = next) {
		next = node->next;
		if (node->op.kind == FAKE_OP_GRAPH)
			exec_put(node->op.graph.exec);
		free(node->deps);
		arena_give(&arena_nodes, node);
	}
	arena_give(&arena_graphs, graph);
}

CUresult graph_append(struct node **ret, struct graph *graph, CUgraphNodeType type,
		      const struct op *op, struct node *const *deps, size_t deps_count)
{
	struct node *node = arena_take(&arena_nodes);
	struct node **copy = calloc(deps_count ? deps_count : 1, sizeof(*copy));

	if (!node || !copy) {
		free(copy);
		if (node)
			arena_give(&arena_nodes, node);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	if (deps_count)
		memcpy(copy, deps, deps_count * sizeof(*copy));
	node->graph = graph;
	node->type = type;
	node->deps = copy;
	node->deps_count = deps_count;
	if (op)
		node->op = *op;
	pthread_mutex_lock(&graph_lock);
	if (graph->last)
		graph->last->next = node;
	else
		graph->first = node;
	graph->last = node;
	graph->count++;
	pthread_mutex_unlock(&graph_lock);
	*ret = node;
	return CUDA_SUCCESS;
}

CUresult graph_create(CUgraph *ret, unsigned int flags)
{
	struct graph *graph;

	if (!ret || flags != 0)
		return CUDA_ERROR_INVALID_VALUE;
	graph = graph_new();
	if (!graph)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*ret = (CUgraph)graph;
	return CUDA_SUCCESS;
}

CUresult graph_destroy(CUgraph handle)
{
	struct graph *graph = arena_check(&arena_graphs, handle);

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	graph_delete(graph);
	return CUDA_SUCCESS;
}

/* Checks the handles of a call and appends. */
static CUresult graph_add(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count,
			  CUgraphNodeType type, const struct op *op)
{
	struct graph *graph = arena_check(&arena_graphs, handle);
	struct node *node;
	CUresult r;

	if (!ret || !graph || (count && !deps))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		struct node *dep = arena_check(&arena_nodes, deps[i]);

		if (!dep || dep->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
	}
	r = graph_append(&node, graph, type, op, (struct node *const *)deps, count);
	if (r == CUDA_SUCCESS)
		*ret = (CUgraphNode)node;
	return r;
}

CUresult graph_add_kernel(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count,
			  const CUDA_KERNEL_NODE_PARAMS_v1 *p)
{
	struct function *function;
	struct op op = { 0 };
	CUresult r;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	function = function_check(p->func);
	if (!function)
		return CUDA_ERROR_INVALID_HANDLE;
	r = launch_shape(&op, function, (uint32_t[]){ p->gridDimX, p->gridDimY, p->gridDimZ },
			 (uint32_t[]){ p->blockDimX, p->blockDimY, p->blockDimZ },
			 p->sharedMemBytes);
	if (r != CUDA_SUCCESS)
		return r;
	return graph_add(ret, handle, deps, count, CU_GRAPH_NODE_TYPE_KERNEL, &op);
}

CUresult graph_add_kernel_v2(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps,
			     size_t count, const CUDA_KERNEL_NODE_PARAMS *p)
{
	CUDA_KERNEL_NODE_PARAMS_v1 old;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	/* The newer struct starts with the older one. */
	memcpy(&old, p, sizeof(old));
	if (!old.func)
		old.func = (CUfunction)p->kern;
	return graph_add_kernel(ret, handle, deps, count, &old);
}

CUresult graph_add_copy(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count,
			const CUDA_MEMCPY3D *params)
{
	struct op op;
	CUresult r;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	r = copy_shape_3d(&op, params);
	if (r != CUDA_SUCCESS)
		return r;
	return graph_add(ret, handle, deps, count, CU_GRAPH_NODE_TYPE_MEMCPY, &op);
}

CUresult graph_add_set(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count,
		       const CUDA_MEMSET_NODE_PARAMS *p)
{
	struct op op;
	CUresult r;

	if (!p)
		return CUDA_ERROR_INVALID_VALUE;
	r = set_shape(&op, p->dst, p->pitch, p->value, p->elementSize, p->width, p->height);
	if (r != CUDA_SUCCESS)
		return r;
	return graph_add(ret, handle, deps, count, CU_GRAPH_NODE_TYPE_MEMSET, &op);
}

CUresult graph_add_host(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count,
			const CUDA_HOST_NODE_PARAMS *p)
{
	struct op op = { .kind = FAKE_OP_HOST };

	if (!p || !p->fn)
		return CUDA_ERROR_INVALID_VALUE;
	op.host.fn = p->fn;
	op.host.user = p->userData;
	return graph_add(ret, handle, deps, count, CU_GRAPH_NODE_TYPE_HOST, &op);
}

CUresult graph_add_empty(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count)
{
	return graph_add(ret, handle, deps, count, CU_GRAPH_NODE_TYPE_EMPTY, NULL);
}

/* The child is copied; what is done to it later does not matter. */
CUresult graph_add_child(CUgraphNode *ret, CUgraph handle, const CUgraphNode *deps, size_t count,
			 CUgraph child)
{
	struct op op = { .kind = FAKE_OP_GRAPH };
	CUgraphExec exec;
	CUresult r = graph_instantiate(&exec, child, 0);

	if (r != CUDA_SUCCESS)
		return r;
	op.graph.exec = (struct exec *)exec;
	r = graph_add(ret, handle, deps, count, CU_GRAPH_NODE_TYPE_GRAPH, &op);
	if (r != CUDA_SUCCESS)
		exec_put(op.graph.exec);
	return r;
}

CUresult graph_add_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
			 size_t count)
{
	struct graph *graph = arena_check(&arena_graphs, handle);

	if (!graph || (count && (!from || !to)))
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < count; i++) {
		struct node *before = arena_check(&arena_nodes, from[i]);
		struct node *after = arena_check(&arena_nodes, to[i]);
		struct node **deps;

		if (!before || !after || before->graph != graph || after->graph != graph)
			return CUDA_ERROR_INVALID_VALUE;
		deps = realloc(after->deps, (after->deps_count + 1) * sizeof(*deps));
		if (!deps)
			return CUDA_ERROR_OUT_OF_MEMORY;
		deps[after->deps_count++] = before;
		after->deps = deps;
	}
	return CUDA_SUCCESS;
}

CUresult graph_get_nodes(CUgraph handle, CUgraphNode *nodes, size_t *count)
{
	struct graph *graph = arena_check(&arena_graphs, handle);
	size_t i = 0;

	if (!graph || !count)
		return CUDA_ERROR_INVALID_VALUE;
	if (nodes) {
		for (struct node *n = graph->first; n && i < *count; n = n->next)
			nodes[i++] = (CUgraphNode)n;
		for (size_t rest = i; rest < *count; rest++)
			nodes[rest] = NULL;
		*count = i;
		return CUDA_SUCCESS;
	}
	*count = graph->count;
	return CUDA_SUCCESS;
}

CUresult graph_node_get_type(CUgraphNode handle, CUgraphNodeType *type)
{
	struct node *node = arena_check(&arena_nodes, handle);

	if (!node || !type)
		return CUDA_ERROR_INVALID_VALUE;
	*type = node->type;
	return CUDA_SUCCESS;
}
