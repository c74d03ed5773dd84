/* queue.h: between the loop, which adds and never waits, and the writer. */
#ifndef TS_QUEUE_H
#define TS_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/model/core.h"
#include "core/store/batch.h"
#include "core/store/drops.h"

struct queue;

/* What is still to come. */
struct pending {
	uint64_t oldest_ns; /* the start of the oldest op of that, 0: there is none */
	uint64_t told_ns;   /* until then all losses are told */
};

/* The writer's next turn: rows and ops to write, and drops to report. */
struct queue_turn {
	struct batch batch;
	struct drops drops; /* since the last successful turn */
	uint64_t now_ns;    /* as of the last commit */
	struct pending pending;
	bool whole; /* with it, all of that commit has had its turn */
};

int queue_new(struct queue **ret);
struct queue *queue_free(struct queue *queue);

/* The loop's side. */
void queue_add_op(struct queue *queue, uint32_t user, const struct op *op);
/* About a process, 0: about none. NULL: the user has his share of what there is room for. */
void *queue_add_record(struct queue *queue, uint32_t user, uint32_t process, uint32_t type,
		       size_t size);
void queue_pending(struct queue *queue, const struct pending *pending);
void queue_commit(struct queue *queue, uint64_t now_ns);
void queue_stop(struct queue *queue);

/* The writer's side. Waits for a turn; false: stopped, and nothing is left. */
bool queue_take(struct queue *queue, struct queue_turn *ret);
/* The end of a turn: `error` 0, it is written; else it is put back for the next commit. */
void queue_finish(struct queue *queue, struct queue_turn *turn, int error);
bool queue_idle(struct queue *queue);

/* Either side. `ret_waiting`: batches handed over and not finished. */
void queue_stats(struct queue *queue, struct drops *ret_drops, uint64_t *ret_waiting);

#endif
