/* Exec: an instantiated graph, its nodes copied in an order that respects what each needs. */
#include "fake.h"

#include <stdlib.h>

struct step {
	struct op op;
	size_t *deps; /* earlier steps */
	size_t deps_count;
	uint64_t end_ns; /* in the run at hand, with the lock held */
};

struct exec {
	struct object object;
	_Atomic uint32_t refs; /* queued launches, nodes of other graphs, and 1 for the program */
	pthread_mutex_t lock;
	bool has_host;
	_Atomic bool hooked; /* launched while a profiler was there */
	uint64_t duration_ns;
	size_t count;
	struct step *steps;
};

/* One launch. To its nodes, those of child graphs too, the graph that was launched is theirs. */
struct run {
	const struct op *launch;
	const struct stream *stream;
	uint32_t graph;
	uint32_t nodes; /* so far */
};

_Static_assert(sizeof(struct exec) <= 256, "slot of an executable graph");

uint32_t exec_id(const struct exec *exec)
{
	return (uint32_t)exec->object.id;
}

bool exec_has_host(const struct exec *exec)
{
	return exec->has_host;
}

uint64_t exec_duration(const struct exec *exec)
{
	return exec->duration_ns;
}

void exec_put(struct exec *exec)
{
	if (atomic_fetch_sub(&exec->refs, 1) != 1)
		return;
	for (size_t i = 0; i < exec->count; i++) {
		if (exec->steps[i].op.kind == FAKE_OP_GRAPH)
			exec_put(exec->steps[i].op.graph.exec);
		free(exec->steps[i].deps);
	}
	free(exec->steps);
	pthread_mutex_destroy(&exec->lock);
	arena_give(&arena_execs, exec);
}

static uint64_t exec_start_of(const struct exec *exec, const struct step *step, uint64_t start)
{
	for (size_t i = 0; i < step->deps_count; i++)
		start = MAX(start, exec->steps[step->deps[i]].end_ns);
	return start;
}

static void exec_run_steps(struct exec *exec, struct run *run, uint64_t start_ns);

static void exec_step(struct step *step, struct run *run, uint64_t start_ns)
{
	const struct fake_hooks *hooks = hooks_get();
	struct fake_op_info info;
	struct op op = step->op;

	step->end_ns = start_ns + op_duration(&op);
	if (hooks && op.kind && op.kind != FAKE_OP_GRAPH) {
		op.correlation = run->launch->correlation;
		op.queued_ns = run->launch->queued_ns;
		op_describe(&info, &op, run->stream);
		info.graph_id = run->graph;
		info.node_id = (uint64_t)run->graph << 32 | run->nodes++;
		info.start_ns = start_ns;
		info.end_ns = step->end_ns;
		if (hooks->op_start)
			hooks->op_start(&info);
		if (hooks->op_end)
			hooks->op_end(&info);
	}
	if (op.kind == FAKE_OP_HOST)
		op.host.fn(op.host.user);
	else if (op.kind == FAKE_OP_GRAPH)
		exec_run_steps(op.graph.exec, run, start_ns);
	else
		op_apply(&op, step->end_ns);
}

static void exec_run_steps(struct exec *exec, struct run *run, uint64_t start_ns)
{
	pthread_mutex_lock(&exec->lock);
	for (size_t i = 0; i < exec->count; i++) {
		struct step *step = &exec->steps[i];

		exec_step(step, run, exec_start_of(exec, step, start_ns));
	}
	pthread_mutex_unlock(&exec->lock);
}

void exec_run(struct exec *exec, const struct op *launch, const struct stream *stream,
	      uint64_t start_ns)
{
	struct run run = { .launch = launch, .stream = stream, .graph = exec_id(exec) };

	exec_run_steps(exec, &run, start_ns);
}

/* Numbers the nodes so that each comes after what it needs; false if there is a circle. */
static bool exec_order(struct graph *graph, struct node **order)
{
	size_t placed = 0;
	bool progress = true;

	for (struct node *n = graph->first; n; n = n->next)
		n->index = SIZE_MAX;
	while (placed < graph->count && progress) {
		progress = false;
		for (struct node *n = graph->first; n; n = n->next) {
			bool ready = n->index == SIZE_MAX;

			for (size_t i = 0; ready && i < n->deps_count; i++)
				ready = n->deps[i]->index != SIZE_MAX;
			if (!ready)
				continue;
			n->index = placed;
			order[placed++] = n;
			progress = true;
		}
	}
	return placed == graph->count;
}

static bool exec_fill(struct exec *exec, struct node *const *order)
{
	for (size_t i = 0; i < exec->count; i++) {
		struct step *step = &exec->steps[i];
		const struct node *n = order[i];

		step->op = n->op;
		step->deps_count = n->deps_count;
		step->deps = calloc(n->deps_count ? n->deps_count : 1, sizeof(*step->deps));
		if (!step->deps)
			return false;
		for (size_t d = 0; d < n->deps_count; d++)
			step->deps[d] = n->deps[d]->index;
		if (n->op.kind == FAKE_OP_GRAPH) {
			atomic_fetch_add(&n->op.graph.exec->refs, 1);
			exec->has_host |= n->op.graph.exec->has_host;
		}
		exec->has_host |= n->op.kind == FAKE_OP_HOST;
		step->end_ns = exec_start_of(exec, step, 0) + op_duration(&step->op);
		exec->duration_ns = MAX(exec->duration_ns, step->end_ns);
	}
	return true;
}

CUresult graph_instantiate(CUgraphExec *ret, CUgraph handle, unsigned long long flags)
{
	struct graph *graph = arena_check(&arena_graphs, handle);
	struct node **order;
	struct exec *exec;
	CUresult r = CUDA_ERROR_OUT_OF_MEMORY;

	if (!ret || !graph || flags > 15)
		return CUDA_ERROR_INVALID_VALUE;
	exec = arena_take(&arena_execs);
	if (!exec)
		return CUDA_ERROR_OUT_OF_MEMORY;
	atomic_store(&exec->refs, 1);
	pthread_mutex_init(&exec->lock, NULL);
	atomic_store(&exec->hooked, false);
	order = calloc(graph->count ? graph->count : 1, sizeof(struct node *));
	exec->steps = calloc(graph->count ? graph->count : 1, sizeof(*exec->steps));
	if (order && exec->steps) {
		bool ordered = exec_order(graph, order);

		exec->count = ordered ? graph->count : 0;
		if (!ordered)
			r = CUDA_ERROR_INVALID_VALUE;
		else if (exec_fill(exec, order))
			r = CUDA_SUCCESS;
	}
	free(order);
	if (r == CUDA_SUCCESS)
		*ret = (CUgraphExec)exec;
	else
		exec_put(exec);
	return r;
}

CUresult graph_instantiate_params(CUgraphExec *ret, CUgraph handle,
				  CUDA_GRAPH_INSTANTIATE_PARAMS *params)
{
	CUresult r;

	if (!params)
		return CUDA_ERROR_INVALID_VALUE;
	r = graph_instantiate(ret, handle, params->flags);
	params->hErrNode_out = NULL;
	params->result_out =
		r == CUDA_SUCCESS ? CUDA_GRAPH_INSTANTIATE_SUCCESS : CUDA_GRAPH_INSTANTIATE_ERROR;
	return r;
}

/* With CUPTI 13.0 a graph that was launched with it crashes without it. */
static bool exec_crashes(struct exec *exec)
{
	if (!hooks_get())
		return atomic_load(&exec->hooked);
	atomic_store(&exec->hooked, true);
	return false;
}

static CUresult exec_submit(CUgraphExec handle, CUstream stream_handle, bool launch)
{
	struct exec *exec = arena_check(&arena_execs, handle);
	struct stream *stream = stream_resolve(stream_handle);
	struct op op = { .kind = launch ? FAKE_OP_GRAPH : FAKE_OP_MARK };
	CUresult r;

	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	if (!stream)
		return CUDA_ERROR_INVALID_HANDLE;
	if (!launch)
		return stream_submit(stream, &op, false);
	if (exec_crashes(exec))
		return CUDA_ERROR_LAUNCH_FAILED;
	op.graph.exec = exec;
	atomic_fetch_add(&exec->refs, 1);
	r = stream_submit(stream, &op, false);
	if (r != CUDA_SUCCESS)
		exec_put(exec);
	return r;
}

CUresult graph_upload(CUgraphExec handle, CUstream stream)
{
	return exec_submit(handle, stream, false);
}

CUresult graph_launch(CUgraphExec handle, CUstream stream)
{
	return exec_submit(handle, stream, true);
}

CUresult graph_exec_destroy(CUgraphExec handle)
{
	struct exec *exec = arena_check(&arena_execs, handle);

	if (!exec)
		return CUDA_ERROR_INVALID_VALUE;
	atomic_store(&exec->object.state, OBJECT_DYING);
	exec_put(exec);
	return CUDA_SUCCESS;
}
