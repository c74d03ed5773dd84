/* Replay queue: pieces of a recording overlap in time, so each is a run in order, and the op that
 * starts first is the first of a run. The order of ops depends on their contents, not on the piece
 * that they came in. A started op is in one edge at a time. */
#include "core/replay/queue.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/heap.h"
#include "core/base/vector.h"

/* On one thread a call comes before what it submitted. */
static int op_compare(const struct replay_op *a, const struct replay_op *b)
{
	const uint64_t keys[][2] = {
		{ a->process, b->process },
		{ a->tid, b->tid },
		{ a->flags & OP_NODE, b->flags & OP_NODE },
		{ a->kind, b->kind },
		{ a->stream, b->stream },
		{ a->begin_ns, b->begin_ns },
		{ a->end_ns, b->end_ns },
		{ a->seen_ns, b->seen_ns },
		{ a->name, b->name },
		{ a->handle, b->handle },
		{ a->fn, b->fn },
		{ a->detail, b->detail },
		{ a->flags, b->flags },
		{ (uint16_t)a->device, (uint16_t)b->device },
	};

	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (keys[i][0] != keys[i][1])
			return keys[i][0] < keys[i][1] ? -1 : 1;
	return 0;
}

static int op_compare_any(const void *a, const void *b)
{
	return op_compare(a, b);
}

static inline bool run_before(const struct replay_run *a, const struct replay_run *b)
{
	const struct replay_op *x = &a->op[a->next], *y = &b->op[b->next];

	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns;
	return op_compare(x, y) < 0;
}

static inline bool edge_before(const struct replay_edge *a, const struct replay_edge *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->key < b->key;
}

HEAP_DEFINE(runs, struct replay_run, run_before);
HEAP_DEFINE(edges, struct replay_edge, edge_before);

static void run_sort(struct replay_op *op, size_t count)
{
	for (size_t i = 1; i < count; i++) {
		if (op_compare(&op[i - 1], &op[i]) <= 0)
			continue;
		qsort(op, count, sizeof(*op), op_compare_any);
		return;
	}
}

int replay_queue_add(struct replay_queue *queue, struct replay_op *op, size_t count)
{
	struct replay_run run = { .op = op, .count = count };

	if (!count || VECTOR_ROOM(queue->run, queue->run_room, queue->runs + 1) < 0) {
		free(op);
		return count ? -ENOMEM : 0;
	}
	run_sort(op, count);
	runs_put(queue->run, queue->runs++, run);
	queue->held += count;
	return 0;
}

const struct replay_op *replay_queue_first(const struct replay_queue *queue)
{
	return queue->runs ? &queue->run->op[queue->run->next] : NULL;
}

void replay_queue_take(struct replay_queue *queue, struct replay_op *ret)
{
	struct replay_run *run = queue->run;

	*ret = run->op[run->next++];
	queue->held--;
	if (run->next == run->count) {
		free(run->op);
		*run = queue->run[--queue->runs];
	}
	if (queue->runs > 1)
		runs_sink(queue->run, queue->runs);
}

int replay_queue_push(struct replay_queue *queue, uint64_t time_ns, enum replay_step step,
		      uint64_t number, void *what)
{
	struct replay_edge edge = { time_ns, (uint64_t)step << 56 | number, what };

	if (VECTOR_ROOM(queue->edge, queue->edge_room, queue->edges + 1) < 0)
		return -ENOMEM;
	edges_put(queue->edge, queue->edges++, edge);
	return 0;
}

struct replay_edge replay_queue_pop(struct replay_queue *queue)
{
	return edges_take(queue->edge, queue->edges--);
}

void replay_queue_clear(struct replay_queue *queue)
{
	for (size_t i = 0; i < queue->runs; i++)
		free(queue->run[i].op);
	free(queue->run);
	free(queue->edge);
	*queue = (struct replay_queue){ 0 };
}
