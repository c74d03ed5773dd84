/* queue.h: between the loop, which adds and never waits, and the writer. */
#ifndef TS_QUEUE_H
#define TS_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/model/core.h"
#include "core/store/batch.h"

struct queue;

/* What could not be kept. Times are the start times of the ops, and for rows when they were
 * added. */
struct queue_drops {
	uint64_t ops, rows;
	uint64_t first_ns, last_ns;
	uint64_t rows_first_ns, rows_last_ns;
};
void queue_drops_add_ops(struct queue_drops *drops, const struct op *op, uint32_t count);
void queue_drops_add(struct queue_drops *drops, const struct queue_drops *more);

/* The writer's next turn: rows and ops to write, and drops to report. */
struct queue_turn {
	struct batch batch;
	struct queue_drops drops;    /* since the last successful turn */
	uint64_t now_ns, pending_ns; /* as of the last commit */
};

int queue_new(struct queue **ret);
struct queue *queue_free(struct queue *queue);

/* The loop's side. */
void queue_add_op(struct queue *queue, const struct op *op);
void *queue_add_record(struct queue *queue, uint32_t type, size_t size);
/* `pending_ns`: the start of the oldest op that is still to come, 0: none is. */
void queue_pending(struct queue *queue, uint64_t pending_ns);
void queue_commit(struct queue *queue, uint64_t now_ns);
void queue_stop(struct queue *queue);

/* The writer's side. Waits for a turn; false: stopped, and nothing is left. */
bool queue_take(struct queue *queue, struct queue_turn *ret);
/* The end of a turn: `error` 0, it is written; else it is put back for the next commit. */
void queue_finish(struct queue *queue, struct queue_turn *turn, int error);
bool queue_idle(struct queue *queue);

/* Either side. `ret_waiting`: batches handed over and not finished. */
void queue_stats(struct queue *queue, struct queue_drops *ret_drops, uint64_t *ret_waiting);

#endif
