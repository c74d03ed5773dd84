/* Edges: edges arrive nearly in order, from a few sources: calls, starts and ends of work. So each
 * edge is appended to the run that it fits best, and the earliest edge is found by comparing the
 * first of the runs. The heap takes the rest. */
#include "core/model/edges.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/heap.h"
#include "core/base/vector.h"

/* Larger arrays are given back when they are empty. */
#define EDGES_ROOM_SPARED 16384

static bool edge_before(const struct edge *a, const struct edge *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->kind < b->kind;
}

/* Taken edges make room at the front. */
static int run_make_room(struct edges_run *run)
{
	if (run->end < run->room)
		return 0;
	if (run->first > run->room / 2) {
		memcpy(run->edge, run->edge + run->first,
		       (run->end - run->first) * sizeof(*run->edge));
		run->end -= run->first;
		run->first = 0;
		return 0;
	}
	return VECTOR_ROOM(run->edge, run->room, run->end + 1u);
}

static void run_empty(struct edges_run *run)
{
	run->first = run->end = 0;
	if (run->room <= EDGES_ROOM_SPARED)
		return;
	free(run->edge);
	*run = (struct edges_run){ 0 };
}

HEAP_DEFINE(heap, struct edge, edge_before);

/* The run that ends latest among those that end before the edge, or an empty one. */
static struct edges_run *edges_fitting(struct edges *edges, const struct edge *edge)
{
	const struct edge *best_last = NULL;
	struct edges_run *best = NULL;

	for (int i = 0; i < EDGES_RUNS; i++) {
		struct edges_run *run = &edges->run[i];
		const struct edge *last = run->first < run->end ? &run->edge[run->end - 1] : NULL;

		if (last ? edge_before(edge, last) : best != NULL)
			continue;
		if (best && best_last && edge_before(last, best_last))
			continue;
		best = run;
		best_last = last;
	}
	return best;
}

int edges_add(struct edges *edges, const struct edge *edge)
{
	struct edges_run *run = edges_fitting(edges, edge);
	int r = run_make_room(run ? run : &edges->heap);

	if (r < 0)
		return r;
	if (run)
		run->edge[run->end++] = *edge;
	else
		heap_put(edges->heap.edge, edges->heap.end++, *edge);
	edges->count++;
	return 0;
}

static struct edges_run *edges_earliest(const struct edges *edges)
{
	const struct edges_run *heap = &edges->heap, *best = heap->end ? heap : NULL;

	for (int i = 0; i < EDGES_RUNS; i++) {
		const struct edges_run *run = &edges->run[i];

		if (run->first < run->end &&
		    (!best || edge_before(&run->edge[run->first], &best->edge[best->first])))
			best = run;
	}
	return (struct edges_run *)best;
}

const struct edge *edges_first(const struct edges *edges)
{
	const struct edges_run *run = edges_earliest(edges);

	return run ? &run->edge[run->first] : NULL;
}

struct edge edges_take(struct edges *edges)
{
	struct edges_run *run = edges_earliest(edges);
	struct edge edge = run->edge[run->first];

	edges->count--;
	if (run == &edges->heap)
		heap_take(run->edge, run->end--);
	else
		run->first++;
	if (run->first == run->end)
		run_empty(run);
	return edge;
}

static void run_clear(struct edges_run *run)
{
	for (uint32_t i = run->first; i < run->end; i++)
		edge_drop(&run->edge[i]);
	free(run->edge);
}

void edges_clear(struct edges *edges)
{
	for (int i = 0; i < EDGES_RUNS; i++)
		run_clear(&edges->run[i]);
	run_clear(&edges->heap);
	*edges = (struct edges){ 0 };
}
