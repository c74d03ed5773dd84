/* Queue: three batches: `open`, which the loop fills, `handed`, which waits for the writer, and the
 * one that the writer has. While writing fails nothing is handed over, so that what waits is in few
 * and full blocks. All but `open` is under the lock.
 *
 * An op that was added is in exactly one place: a batch, the database, or counted as dropped. */
#include "core/store/queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/invariant.h"
#include "core/base/time.h"
#include "core/limits.h"

#define BLOCKS_MAX (LIMIT_STORE_OPS / BATCH_BLOCK_OPS)
/* In one transaction, so that the rest can still be dropped in the meantime. */
#define TURN_BLOCKS_MAX (BLOCKS_MAX / 4)
/* How often the writer maintains the database when nothing comes. */
#define IDLE_TURN_NS NS_PER_S

struct queue {
	struct batch open; /* only used by the loop */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct batch handed;
	uint32_t blocks;     /* in all three batches */
	size_t record_bytes; /* in all three */
	struct queue_drops drops, untold;
	uint64_t now_ns, pending_ns, turn_ns;
	bool due, failed, working, stopped;
	bool held; /* `open` has rows that were committed */
};

int queue_new(struct queue **ret)
{
	struct queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return -ENOMEM;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_cond_init(&queue->wake, NULL);
	*ret = queue;
	return 0;
}

struct queue *queue_free(struct queue *queue)
{
	if (queue) {
		batch_clear(&queue->open);
		batch_clear(&queue->handed);
		pthread_cond_destroy(&queue->wake);
		pthread_mutex_destroy(&queue->lock);
	}
	free(queue);
	return NULL;
}

static void widen(uint64_t *first_ns, uint64_t *last_ns, bool any, uint64_t from_ns, uint64_t to_ns)
{
	if (!any || from_ns < *first_ns)
		*first_ns = from_ns;
	if (!any || to_ns > *last_ns)
		*last_ns = to_ns;
}

void queue_drops_add_ops(struct queue_drops *drops, const struct op *op, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		widen(&drops->first_ns, &drops->last_ns, drops->ops++, op[i].start_ns,
		      op[i].start_ns);
}

void queue_drops_add(struct queue_drops *drops, const struct queue_drops *more)
{
	if (more->ops)
		widen(&drops->first_ns, &drops->last_ns, drops->ops, more->first_ns, more->last_ns);
	if (more->rows)
		widen(&drops->rows_first_ns, &drops->rows_last_ns, drops->rows, more->rows_first_ns,
		      more->rows_last_ns);
	drops->ops += more->ops;
	drops->rows += more->rows;
}

static void drop_ops(struct queue *queue, const struct op *op, uint32_t count)
{
	queue_drops_add_ops(&queue->drops, op, count);
	queue_drops_add_ops(&queue->untold, op, count);
}

static void drop_row(struct queue *queue)
{
	struct queue_drops row = {
		.rows = 1,
		.rows_first_ns = queue->now_ns,
		.rows_last_ns = queue->now_ns,
	};

	queue_drops_add(&queue->drops, &row);
	queue_drops_add(&queue->untold, &row);
}

/* Makes room for a block. False: the writer has everything there is. */
static bool reserve_block(struct queue *queue)
{
	struct op_block *oldest;

	if (queue->blocks < BLOCKS_MAX) {
		queue->blocks++;
		return true;
	}
	oldest = batch_take_block(queue->handed.first_ops ? &queue->handed : &queue->open);
	if (!oldest)
		return false;
	drop_ops(queue, oldest->op, oldest->count);
	free(oldest);
	return true;
}

static struct op *add_block(struct queue *queue, const struct op *op)
{
	bool added;

	pthread_mutex_lock(&queue->lock);
	added = reserve_block(queue);
	if (added && batch_add_block(&queue->open) < 0) {
		queue->blocks--;
		added = false;
	}
	if (!added)
		drop_ops(queue, op, 1);
	pthread_mutex_unlock(&queue->lock);
	return added ? batch_add_op(&queue->open) : NULL;
}

void queue_add_op(struct queue *queue, const struct op *op)
{
	struct op *slot = batch_add_op(&queue->open);

	if (!slot)
		slot = add_block(queue, op);
	if (slot)
		*slot = *op;
}

void *queue_add_record(struct queue *queue, uint32_t type, size_t size)
{
	size_t before = queue->open.record_bytes;
	void *record = NULL;

	pthread_mutex_lock(&queue->lock);
	if (queue->record_bytes + size <= LIMIT_STORE_ROW_BYTES)
		record = batch_add_record(&queue->open, type, size);
	queue->record_bytes += queue->open.record_bytes - before;
	if (!record)
		drop_row(queue);
	pthread_mutex_unlock(&queue->lock);
	return record;
}

void queue_pending(struct queue *queue, uint64_t pending_ns)
{
	pthread_mutex_lock(&queue->lock);
	queue->pending_ns = pending_ns;
	pthread_mutex_unlock(&queue->lock);
}

void queue_commit(struct queue *queue, uint64_t now_ns)
{
	pthread_mutex_lock(&queue->lock);
	queue->now_ns = now_ns;
	queue->held = queue->failed && !batch_empty(&queue->open);
	if (!queue->held)
		batch_append(&queue->handed, &queue->open);
	if (!batch_empty(&queue->handed) || now_ns - queue->turn_ns >= IDLE_TURN_NS) {
		queue->turn_ns = now_ns;
		queue->due = true;
		pthread_cond_signal(&queue->wake);
	}
	pthread_mutex_unlock(&queue->lock);
}

void queue_stop(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	batch_append(&queue->handed, &queue->open);
	queue->due = queue->stopped = true;
	pthread_cond_signal(&queue->wake);
	pthread_mutex_unlock(&queue->lock);
}

bool queue_take(struct queue *queue, struct queue_turn *ret)
{
	bool more;

	pthread_mutex_lock(&queue->lock);
	while (!queue->due && (queue->failed || batch_empty(&queue->handed)) && !queue->stopped)
		pthread_cond_wait(&queue->wake, &queue->lock);
	more = queue->due || (!batch_empty(&queue->handed) && !queue->failed);
	queue->due = false;
	queue->working = more;
	batch_split(&queue->handed, TURN_BLOCKS_MAX, &ret->batch);
	ret->drops = queue->untold;
	ret->now_ns = queue->now_ns;
	ret->pending_ns = queue->pending_ns;
	queue->untold = (struct queue_drops){ 0 };
	pthread_mutex_unlock(&queue->lock);
	if (!more)
		batch_clear(&ret->batch);
	return more;
}

static void put_back(struct queue *queue, struct queue_turn *turn)
{
	batch_prepend(&queue->handed, &turn->batch);
	queue_drops_add(&queue->untold, &turn->drops);
}

void queue_finish(struct queue *queue, struct queue_turn *turn, int error)
{
	pthread_mutex_lock(&queue->lock);
	queue->failed = error < 0;
	queue->working = false;
	if (error < 0) {
		put_back(queue, turn);
	} else {
		assert_invariant(queue->blocks >= turn->batch.op_blocks &&
				 queue->record_bytes >= turn->batch.record_bytes);
		queue->blocks -= turn->batch.op_blocks;
		queue->record_bytes -= turn->batch.record_bytes;
	}
	pthread_mutex_unlock(&queue->lock);
	batch_clear(&turn->batch);
}

bool queue_idle(struct queue *queue)
{
	bool idle;

	pthread_mutex_lock(&queue->lock);
	idle = batch_empty(&queue->handed) && !queue->stopped;
	pthread_mutex_unlock(&queue->lock);
	return idle;
}

void queue_stats(struct queue *queue, struct queue_drops *ret_drops, uint64_t *ret_waiting)
{
	pthread_mutex_lock(&queue->lock);
	*ret_drops = queue->drops;
	*ret_waiting = queue->held + !batch_empty(&queue->handed) + (queue->working || queue->due);
	pthread_mutex_unlock(&queue->lock);
}
