/* What if: works and calls get other times, or fewer dependencies. Changes of streams and devices:
 * whatif_streams.c. */
#include "core/plan/whatif.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_COPY_BYTES 65536 /* its time is the latency */

static bool is_factor(double factor)
{
	return isfinite(factor) && factor > 0;
}

static uint64_t scaled(uint64_t ns, double factor)
{
	double product = (double)ns * factor;

	return product < (double)INT64_MAX ? (uint64_t)(product + 0.5) : INT64_MAX;
}

static bool matches(const struct plan *plan, const struct whatif_match *match, uint32_t op)
{
	return match->match(match->data, &plan->op[op]);
}

/* It takes an engine, or a share of the device. */
static bool takes_time(const struct plan_work *work)
{
	return work->engine != PLAN_ENGINE_NONE &&
	       !(work->flags & (PLAN_UNTIMED | PLAN_MARK | PLAN_DROPPED));
}

int64_t whatif_scale(struct plan *plan, const struct whatif_match *match, double factor)
{
	int64_t changed = 0;

	if (!is_factor(factor))
		return -EINVAL;
	for (uint32_t i = 0; i < plan->work_count; i++) {
		struct plan_work *work = &plan->work[i];

		if (!takes_time(work) || !matches(plan, match, work->op))
			continue;
		work->duration_ns = scaled(work->duration_ns, factor);
		changed++;
	}
	plan->changed = true;
	return changed;
}

int64_t whatif_scale_calls(struct plan *plan, const struct whatif_match *match, double factor)
{
	int64_t changed = 0;

	if (!is_factor(factor))
		return -EINVAL;
	for (uint32_t i = 0; i < plan->call_count; i++) {
		struct plan_call *call = &plan->call[i];

		if (call->own_ns <= 0 || !matches(plan, match, call->op))
			continue;
		call->own_ns = (int64_t)scaled((uint64_t)call->own_ns, factor);
		changed++;
	}
	plan->changed = true;
	return changed;
}

int64_t whatif_scale_host(struct plan *plan, double factor)
{
	int64_t changed = 0;

	if (!is_factor(factor))
		return -EINVAL;
	for (uint32_t i = 0; i < plan->call_count; i++) {
		struct plan_call *call = &plan->call[i];

		if (call->delay_ns <= 0)
			continue;
		call->delay_ns = (int64_t)scaled((uint64_t)call->delay_ns, factor);
		changed++;
	}
	plan->changed = true;
	return changed;
}

/* --- drop --- */

static void drop_call(struct plan_call *call)
{
	call->flags |= PLAN_DROPPED;
	call->flags &= (uint16_t)~PLAN_BLOCKS;
	call->own_ns = 0;
}

/* Everything it submits is dropped. */
static bool is_empty(const struct plan *plan, const struct plan_call *call)
{
	for (uint32_t i = call->work; i != PLAN_NONE; i = plan->work[i].next)
		if (!(plan->work[i].flags & PLAN_DROPPED))
			return false;
	return true;
}

int64_t whatif_drop(struct plan *plan, const struct whatif_match *match)
{
	int64_t changed = 0;

	for (uint32_t i = 0; i < plan->work_count; i++) {
		struct plan_work *work = &plan->work[i];

		if (work->flags & (PLAN_DROPPED | PLAN_MARK) || !matches(plan, match, work->op))
			continue;
		work->flags |= PLAN_DROPPED;
		work->duration_ns = 0;
		work->launch_ns = work->gap_ns = 0;
		changed++;
		if (work->call != PLAN_NONE && is_empty(plan, &plan->call[work->call]))
			drop_call(&plan->call[work->call]);
	}
	for (uint32_t i = 0; i < plan->call_count; i++) {
		struct plan_call *call = &plan->call[i];

		if (call->flags & PLAN_DROPPED || call->work != PLAN_NONE ||
		    !matches(plan, match, call->op))
			continue;
		drop_call(call);
		changed++;
	}
	plan->changed = true;
	return changed;
}

/* --- launches and copies --- */

int64_t whatif_launch_latency(struct plan *plan, uint64_t ns)
{
	int64_t changed = 0;

	if (ns > INT64_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < plan->call_count; i++) {
		struct plan_call *call = &plan->call[i];
		bool launches = false;

		for (uint32_t k = call->work; k != PLAN_NONE; k = plan->work[k].next) {
			struct plan_work *work = &plan->work[k];

			if (!takes_time(work) || (work->flags & PLAN_GRAPH && launches))
				continue;
			work->launch_ns = (int64_t)ns;
			launches = true;
			changed++;
		}
		if (launches && call->own_ns > (int64_t)ns)
			call->own_ns = (int64_t)ns;
	}
	plan->changed = true;
	return changed;
}

int64_t whatif_copy_bandwidth(struct plan *plan, double factor)
{
	const struct plan_work *fastest[PLAN_ENGINE_COUNT] = { NULL };
	uint64_t stays_ns[PLAN_ENGINE_COUNT] = { 0 };
	int64_t changed = 0;

	if (!is_factor(factor))
		return -EINVAL;
	for (uint32_t i = 0; i < plan->work_count; i++) {
		const struct plan_work *work = &plan->work[i];

		if (takes_time(work) && (!fastest[work->engine] ||
					 work->duration_ns < fastest[work->engine]->duration_ns))
			fastest[work->engine] = work;
	}
	for (int i = PLAN_ENGINE_HTOD; i <= PLAN_ENGINE_DTOH; i++)
		if (fastest[i] && plan->op[fastest[i]->op].bytes &&
		    plan->op[fastest[i]->op].bytes <= SMALL_COPY_BYTES)
			stays_ns[i] = fastest[i]->duration_ns;
	for (uint32_t i = 0; i < plan->work_count; i++) {
		struct plan_work *work = &plan->work[i];
		uint64_t stays = stays_ns[work->engine];

		if (!takes_time(work) ||
		    (work->engine != PLAN_ENGINE_HTOD && work->engine != PLAN_ENGINE_DTOH))
			continue;
		work->duration_ns = stays + scaled(work->duration_ns - stays, 1 / factor);
		changed++;
	}
	plan->changed = true;
	return changed;
}

/* --- waits --- */

static bool waits(const struct plan *plan, const struct plan_call *call)
{
	for (uint32_t i = 0; call->flags & PLAN_BLOCKS && i < call->edge_count; i++)
		if (plan->edge[call->edge + i].kind == PLAN_EDGE_HOST)
			return true;
	return false;
}

/* Makes room for more edges of a call, which move to the end. -ENOMEM */
static int move_edges(struct plan *plan, struct plan_call *call, uint32_t more)
{
	size_t count = (size_t)plan->edge_count + call->edge_count + more;
	struct plan_edge *edge;

	if (count > UINT32_MAX)
		return -E2BIG;
	edge = realloc(plan->edge, (count + 1) * sizeof(*edge));
	if (!edge)
		return -ENOMEM;
	plan->edge = edge;
	memcpy(&edge[plan->edge_count], &edge[call->edge], call->edge_count * sizeof(*edge));
	call->edge = plan->edge_count;
	plan->edge_count += call->edge_count;
	return 0;
}

/* Leaves a call only the edges that are not host waits. */
static void drop_waits(struct plan *plan, struct plan_call *call)
{
	uint32_t kept = 0;

	for (uint32_t i = 0; i < call->edge_count; i++)
		if (plan->edge[call->edge + i].kind != PLAN_EDGE_HOST)
			plan->edge[call->edge + kept++] = plan->edge[call->edge + i];
	call->edge_count = kept;
	if (!kept)
		call->flags &= (uint16_t)~PLAN_BLOCKS;
}

/* The thread's last wait takes over the waits before it, one per stream. `seen` has the number of
 * the thread if a stream has one. */
static int64_t move_waits(struct plan *plan, uint32_t number, uint32_t *seen)
{
	struct plan_call *last = NULL;
	int64_t changed = 0;

	for (uint32_t i = plan->thread[number].last; i != PLAN_NONE; i = plan->call[i].before) {
		struct plan_call *call = &plan->call[i];
		int r = 0;

		if (!waits(plan, call))
			continue;
		if (!last)
			r = move_edges(plan, call, plan->stream_count);
		if (r < 0)
			return r;
		for (uint32_t k = 0; k < call->edge_count; k++) {
			struct plan_edge edge = plan->edge[call->edge + k];
			uint32_t stream = plan->work[edge.work].stream;

			if (edge.kind != PLAN_EDGE_HOST || seen[stream] == number + 1)
				continue;
			seen[stream] = number + 1;
			if (!last)
				continue;
			plan->edge[plan->edge_count++] = edge;
			last->edge_count++;
		}
		if (last) {
			drop_waits(plan, call);
			changed++;
		} else {
			last = call;
		}
	}
	return changed;
}

int64_t whatif_no_sync(struct plan *plan)
{
	_cleanup_(freep) uint32_t *seen = calloc(plan->stream_count + 1ul, sizeof(*seen));
	int64_t changed = 0;

	if (!seen)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->thread_count; i++) {
		int64_t r = move_waits(plan, i, seen);

		if (r < 0)
			return r;
		changed += r;
	}
	plan->changed = true;
	return changed;
}

/* --- graphs --- */

struct graph {
	uint32_t first;	    /* call of the thread that the others are merged into, or PLAN_NONE */
	uint32_t last_work; /* of it */
	int64_t launch_ns;  /* of its first work */
	uint32_t launches;
};

static bool is_graphable(const struct plan *plan, const struct plan_call *call)
{
	uint8_t kind = plan->op[call->op].kind;

	return (kind == OP_LAUNCH || kind == OP_COPY || kind == OP_SET || kind == OP_EVENT) &&
	       !(call->flags & PLAN_DROPPED);
}

static void graph_begin(struct plan *plan, struct graph *graph, uint32_t index)
{
	*graph = (struct graph){ .first = index, .last_work = PLAN_NONE };
	for (uint32_t i = plan->call[index].work; i != PLAN_NONE; i = plan->work[i].next) {
		graph->last_work = i;
		if (takes_time(&plan->work[i]) && !graph->launches) {
			graph->launch_ns = plan->work[i].launch_ns;
			graph->launches = 1;
		}
	}
}

/* Sets and copies on the device are mostly done by kernels. */
static bool is_inside(const struct plan_work *work)
{
	return work->engine == PLAN_ENGINE_COMPUTE || work->engine == PLAN_ENGINE_DTOD;
}

/* Handing over between kernels and copy engines takes the recorded time: a graph does not shorten
 * it. */
static bool follows_inside(const struct plan *plan, const struct plan_work *work)
{
	return is_inside(work) && work->before != PLAN_NONE && is_inside(&plan->work[work->before]);
}

static void graph_add(struct plan *plan, struct graph *graph, uint32_t index, int64_t gap_ns)
{
	struct plan_call *call = &plan->call[index];

	for (uint32_t i = call->work; i != PLAN_NONE; i = plan->work[i].next) {
		struct plan_work *work = &plan->work[i];

		if (graph->last_work == PLAN_NONE)
			plan->call[graph->first].work = i;
		else
			plan->work[graph->last_work].next = i;
		graph->last_work = i;
		work->call = graph->first;
		work->flags |= PLAN_GRAPH;
		if (!takes_time(work))
			continue;
		if (!graph->launches++)
			graph->launch_ns = work->launch_ns;
		work->launch_ns = graph->launch_ns;
		if (graph->launches > 1 && work->gap_ns > gap_ns && follows_inside(plan, work))
			work->gap_ns = gap_ns;
	}
	call->work = PLAN_NONE;
	call->delay_ns = 0;
	drop_call(call);
}

int64_t whatif_graph(struct plan *plan, uint64_t since_ns, uint64_t until_ns, uint64_t gap_ns)
{
	_cleanup_(freep) struct graph *graph = calloc(plan->thread_count + 1ul, sizeof(*graph));
	int64_t changed = 0;

	if (!graph)
		return -ENOMEM;
	if (gap_ns > INT64_MAX)
		return -EINVAL;
	for (uint32_t i = 0; i < plan->thread_count; i++)
		graph[i].first = PLAN_NONE;
	for (uint32_t i = 0; i < plan->call_count; i++) {
		struct plan_call *call = &plan->call[i];
		struct graph *mine = &graph[call->thread];

		if (waits(plan, call) || call->start_ns < since_ns || call->start_ns >= until_ns) {
			mine->first = PLAN_NONE;
		} else if (is_graphable(plan, call) && mine->first == PLAN_NONE) {
			graph_begin(plan, mine, i);
		} else if (is_graphable(plan, call)) {
			graph_add(plan, mine, i, (int64_t)gap_ns);
			changed++;
		}
	}
	plan->changed = true;
	return changed;
}
