/* Queue: three batches: `open`, which the loop fills, `handed`, which waits for the writer, and the
 * one that the writer has. While writing fails nothing is handed over, so that what waits is in few
 * and full blocks. All but `open` is under the lock.
 *
 * Each user's ops are in blocks of their own. When there are too many, the oldest block of the user
 * who has most goes: one program that floods the queue costs no other user anything.
 *
 * An op that was added is in exactly one place: a batch, the database, or counted as dropped. */
#include "core/store/queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "core/base/invariant.h"
#include "core/base/quota.h"
#include "core/base/time.h"
#include "core/limits.h"

#define BLOCKS_MAX (LIMIT_STORE_OPS / BATCH_BLOCK_OPS)
/* In one transaction, so that the rest can still be dropped in the meantime. */
#define TURN_BLOCKS_MAX (BLOCKS_MAX / 4)
/* How often the writer maintains the database when nothing comes. */
#define IDLE_TURN_NS NS_PER_S

struct queue {
	/* Only used by the loop. */
	struct batch open;
	struct op_block *current; /* of `open`: where the last op went */
	struct map filling;	  /* of `open`: each user's last block */
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct batch handed;
	uint32_t blocks;			 /* in all three batches */
	size_t record_bytes;			 /* in all three */
	struct quota blocks_of, record_bytes_of; /* users */
	struct drops drops, untold;
	uint64_t now_ns, turn_ns;
	struct pending pending;
	bool due, failed, working, stopped;
	bool held; /* `open` has rows that were committed */
};

int queue_new(struct queue **ret)
{
	struct queue *queue = calloc(1, sizeof(*queue));

	if (!queue)
		return -ENOMEM;
	queue->blocks_of.total = BLOCKS_MAX;
	queue->record_bytes_of.total = LIMIT_STORE_ROW_BYTES;
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
		map_clear(&queue->filling);
		quota_release(&queue->blocks_of);
		quota_release(&queue->record_bytes_of);
		pthread_cond_destroy(&queue->wake);
		pthread_mutex_destroy(&queue->lock);
	}
	free(queue);
	return NULL;
}

static void drop_ops(struct queue *queue, const struct op *op, uint32_t count)
{
	drops_add_ops(&queue->drops, op, count);
	drops_add_ops(&queue->untold, op, count);
}

static void drop_row(struct queue *queue, uint32_t process)
{
	drops_add_rows(&queue->drops, process, 1, queue->now_ns);
	drops_add_rows(&queue->untold, process, 1, queue->now_ns);
}

static struct map_key user_key(uint32_t user)
{
	return (struct map_key){ user, 0 };
}

/* What is in `open` goes to the writer, or away. */
static void close_blocks(struct queue *queue)
{
	queue->current = NULL;
	map_empty(&queue->filling);
}

static struct op_block *take_block_of(struct queue *queue, uint32_t user)
{
	struct op_block *block = batch_take_block(&queue->handed, user);

	if (block)
		return block;
	block = batch_take_block(&queue->open, user);
	if (block && map_get(&queue->filling, user_key(user)) == block)
		map_remove(&queue->filling, user_key(user));
	if (block == queue->current)
		queue->current = NULL;
	return block;
}

/* Of the user who has most, or if the writer has all of his, of whoever waits longest. */
static struct op_block *take_block(struct queue *queue)
{
	const struct op_block *oldest = queue->handed.first_ops ?: queue->open.first_ops;
	struct op_block *block = NULL;
	uint32_t user;

	if (quota_biggest(&queue->blocks_of, &user))
		block = take_block_of(queue, user);
	return block || !oldest ? block : take_block_of(queue, oldest->user);
}

/* Makes room for a block. False: the writer has everything there is. */
static bool reserve_block(struct queue *queue)
{
	struct op_block *block;

	if (queue->blocks < BLOCKS_MAX)
		return true;
	block = take_block(queue);
	if (!block)
		return false;
	drop_ops(queue, block->op, block->count);
	quota_give(&queue->blocks_of, block->user, 1);
	queue->blocks--;
	free(block);
	return true;
}

static struct op_block *new_block(struct queue *queue, uint32_t user)
{
	struct op_block *block;

	if (!reserve_block(queue) || quota_charge(&queue->blocks_of, user, 1) < 0)
		return NULL;
	block = batch_add_block(&queue->open, user);
	if (!block)
		quota_give(&queue->blocks_of, user, 1);
	else
		queue->blocks++;
	return block;
}

/* In a new block. NULL: dropped. */
static struct op *add_block(struct queue *queue, uint32_t user, const struct op *op)
{
	struct op_block *block;

	pthread_mutex_lock(&queue->lock);
	block = new_block(queue, user);
	if (!block)
		drop_ops(queue, op, 1);
	pthread_mutex_unlock(&queue->lock);
	if (!block)
		return NULL;
	queue->current = block;
	map_put(&queue->filling, user_key(user), block);
	return op_block_add(block);
}

void queue_add_op(struct queue *queue, uint32_t user, const struct op *op)
{
	struct op *slot = NULL;

	if (!queue->current || queue->current->user != user)
		queue->current = map_get(&queue->filling, user_key(user));
	if (queue->current)
		slot = op_block_add(queue->current);
	if (!slot)
		slot = add_block(queue, user, op);
	if (slot)
		*slot = *op;
}

/* The room that a row takes is known when it is there: then there must be memory to charge it. */
static void *add_record(struct queue *queue, uint32_t user, uint32_t type, size_t size)
{
	size_t before = queue->open.record_bytes, bytes;
	void *data;

	if (size + sizeof(struct record) > quota_left(&queue->record_bytes_of, user) ||
	    quota_charge(&queue->record_bytes_of, user, 1) < 0)
		return NULL;
	data = batch_add_record(&queue->open, user, type, size);
	bytes = queue->open.record_bytes - before;
	queue->record_bytes += bytes;
	quota_charge(&queue->record_bytes_of, user, bytes);
	quota_give(&queue->record_bytes_of, user, 1);
	return data;
}

void *queue_add_record(struct queue *queue, uint32_t user, uint32_t process, uint32_t type,
		       size_t size)
{
	void *data;

	pthread_mutex_lock(&queue->lock);
	data = add_record(queue, user, type, size);
	if (!data)
		drop_row(queue, process);
	pthread_mutex_unlock(&queue->lock);
	return data;
}

void queue_pending(struct queue *queue, const struct pending *pending)
{
	pthread_mutex_lock(&queue->lock);
	queue->pending = *pending;
	pthread_mutex_unlock(&queue->lock);
}

void queue_commit(struct queue *queue, uint64_t now_ns)
{
	pthread_mutex_lock(&queue->lock);
	queue->now_ns = now_ns;
	queue->held = queue->failed && !batch_empty(&queue->open);
	if (!queue->held) {
		batch_append(&queue->handed, &queue->open);
		close_blocks(queue);
	}
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
	close_blocks(queue);
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
	ret->whole = batch_empty(&queue->handed) && !queue->held;
	ret->drops = queue->untold;
	ret->now_ns = queue->now_ns;
	ret->pending = queue->pending;
	queue->untold = (struct drops){ 0 };
	pthread_mutex_unlock(&queue->lock);
	if (!more)
		batch_clear(&ret->batch);
	return more;
}

static void put_back(struct queue *queue, struct queue_turn *turn)
{
	batch_prepend(&queue->handed, &turn->batch);
	drops_add(&queue->untold, &turn->drops);
}

/* What is written is charged to nobody any more. */
static void discharge(struct queue *queue, const struct batch *batch)
{
	struct record_cursor cursor = { 0 };
	const struct record *record;

	for (const struct op_block *block = batch->first_ops; block; block = block->next)
		quota_give(&queue->blocks_of, block->user, 1);
	while ((record = batch_next_record(batch, &cursor)))
		quota_give(&queue->record_bytes_of, record->user, batch_record_bytes(record));
	assert_invariant(queue->blocks >= batch->op_blocks &&
			 queue->record_bytes >= batch->record_bytes);
	queue->blocks -= batch->op_blocks;
	queue->record_bytes -= batch->record_bytes;
}

void queue_finish(struct queue *queue, struct queue_turn *turn, int error)
{
	pthread_mutex_lock(&queue->lock);
	queue->failed = error < 0;
	queue->working = false;
	if (error < 0)
		put_back(queue, turn);
	else
		discharge(queue, &turn->batch);
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

void queue_stats(struct queue *queue, struct drops *ret_drops, uint64_t *ret_waiting)
{
	pthread_mutex_lock(&queue->lock);
	*ret_drops = queue->drops;
	*ret_waiting = queue->held + !batch_empty(&queue->handed) + (queue->working || queue->due);
	pthread_mutex_unlock(&queue->lock);
}
