/* queue.h: what is still to come in a replay, taken out in order of time: ops that have not
 * started, and the next step of each that has. */
#ifndef TS_CORE_REPLAY_QUEUE_H
#define TS_CORE_REPLAY_QUEUE_H

#include <stddef.h>
#include <stdint.h>

#include "core/replay/replay.h"

/* In this order at equal times; all starts come before. */
enum replay_step { REPLAY_DECIDE = 1, REPLAY_BEGIN, REPLAY_END, REPLAY_SEEN };

struct replay_edge {
	uint64_t time_ns;
	uint64_t key; /* the step, then the number of the op */
	void *what;
};

/* Ops in order of start, `count` from `next` on. */
struct replay_run {
	struct replay_op *op;
	size_t next, count;
};

/* Both arrays are heaps, the earliest first. Zeroed is empty. */
struct replay_queue {
	struct replay_run *run;
	struct replay_edge *edge;
	size_t runs, run_room;
	size_t edges, edge_room;
	size_t held; /* ops in the runs */
};

/* Takes over `op`, which was allocated; sorts it. -ENOMEM */
int replay_queue_add(struct replay_queue *queue, struct replay_op *op, size_t count);
/* The op that starts first, valid until the next call; NULL: none. */
const struct replay_op *replay_queue_first(const struct replay_queue *queue);
/* There is one. */
void replay_queue_take(struct replay_queue *queue, struct replay_op *ret);

int replay_queue_push(struct replay_queue *queue, uint64_t time_ns, enum replay_step step,
		      uint64_t number, void *what);
static inline const struct replay_edge *replay_queue_edge(const struct replay_queue *queue)
{
	return queue->edges ? queue->edge : NULL;
}
/* There is one. */
struct replay_edge replay_queue_pop(struct replay_queue *queue);

static inline enum replay_step replay_edge_step(const struct replay_edge *edge)
{
	return (enum replay_step)(edge->key >> 56);
}

void replay_queue_clear(struct replay_queue *queue);

#endif
