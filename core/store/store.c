/* Store: a queue, a writer, and the thread between them. What the loop calls only ever touches the
 * queue. */
#include "core/store/store.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/store/queue.h"
#include "core/store/record.h"
#include "core/store/row.h"
#include "core/store/schema.h"
#include "core/store/sql.h"
#include "core/store/store_private.h"
#include "core/store/thread.h"
#include "core/store/whose.h"
#include "core/store/writer.h"

struct store {
	struct queue *queue;
	struct writer *writer; /* the thread's, once it runs */
	char *path;
	/* The loop's: who answers for a row or op. */
	struct whose whose;
	size_t process_at[CORE_ROW_COUNT]; /* where a row has its process, and 1; 0: nowhere */
	pthread_t thread;
	bool running;
	pthread_rwlock_t written; /* by the thread, and by readers of what is held */
	pthread_mutex_t lock;	  /* of the rest */
	struct store_stats stats;
	bool held;
};

CLEANUP_DEFINE(struct store, store_free)

const char *store_path(const struct store *store)
{
	return store->path;
}

int64_t store_boot(const struct store *store)
{
	return writer_boot(store->writer);
}

/* Nothing is older than the first turn. */
static void note_written(struct store *store, const struct queue_turn *turn, int error)
{
	pthread_mutex_lock(&store->lock);
	if (!store->stats.written_ns || (error == 0 && !store->held && turn->whole))
		store->stats.written_ns = turn->now_ns;
	pthread_mutex_unlock(&store->lock);
}

static void note(struct store *store, const struct packer_stats *sum, int error)
{
	uint64_t bytes = writer_bytes(store->writer);
	struct hold_stats held;

	writer_held(store->writer, &held);
	pthread_mutex_lock(&store->lock);
	store->stats.ops_written = sum->ops;
	store->stats.chunks = sum->chunks;
	store->stats.chunk_bytes = sum->bytes;
	store->stats.database_bytes = bytes;
	store->stats.last_error = error < 0 ? error : held.error;
	store->held = held.error < 0;
	store->stats.ops_held = held.ops;
	store->stats.ops_dropped = held.ops_dropped;
	store->stats.rows_dropped = held.rows_dropped;
	pthread_mutex_unlock(&store->lock);
}

static void *run(void *data)
{
	struct store *store = data;
	struct packer_stats sum = { 0 };
	struct queue_turn turn;
	int r = 0;

	while (queue_take(store->queue, &turn)) {
		bool more = true;

		pthread_rwlock_wrlock(&store->written);
		r = writer_write(store->writer, &turn, &sum);
		note(store, &sum, r);
		note_written(store, &turn, r);
		queue_finish(store->queue, &turn, r);
		pthread_rwlock_unlock(&store->written);
		while (more) {
			pthread_rwlock_wrlock(&store->written);
			more = writer_upkeep(store->writer, turn.now_ns) &&
			       queue_idle(store->queue);
			pthread_rwlock_unlock(&store->written);
		}
	}
	writer_finish(store->writer, &sum);
	note(store, &sum, r); /* what the last turn had is not written, if it failed */
	return NULL;
}

/* The writer gets its turn, however many ask. */
static void make_locks(struct store *store)
{
	pthread_rwlockattr_t kind;

	pthread_rwlockattr_init(&kind);
	pthread_rwlockattr_setkind_np(&kind, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	pthread_rwlock_init(&store->written, &kind);
	pthread_rwlockattr_destroy(&kind);
	pthread_mutex_init(&store->lock, NULL);
}

static void find_processes(struct store *store)
{
	for (int type = 0; type < CORE_ROW_COUNT; type++) {
		const struct row_table *table = row_table_of((enum core_row)type);

		for (size_t i = 0; table && i < table->count; i++)
			if (table->column[i].source == ROW_U32 &&
			    !strcmp(table->column[i].name, "process"))
				store->process_at[type] = table->column[i].offset + 1;
	}
	store->process_at[CORE_ROW_PROCESS] = offsetof(struct core_process, id) + 1;
}

static int start(struct store *store)
{
	int r = thread_start(&store->thread, run, store);

	store->running = r == 0;
	return r;
}

int store_open(const struct store_config *config, struct store **ret)
{
	_cleanup_(store_freep) struct store *store = calloc(1, sizeof(*store));
	int r;

	if (!store)
		return -ENOMEM;
	make_locks(store);
	find_processes(store);
	store->path = strdup(config->path);
	if (!store->path)
		return -ENOMEM;
	r = queue_new(&store->queue);
	if (r == 0)
		r = writer_open(config, &store->writer);
	if (r < 0)
		return r;
	store->stats.database_bytes = writer_bytes(store->writer);
	store->stats.summed = writer_is_summed(store->writer);
	r = start(store);
	if (r < 0)
		return r;
	*ret = TAKE(store);
	return 0;
}

uint32_t store_first_id(uint64_t wall_ns)
{
	return (uint32_t)(wall_ns >> 25) & INT32_MAX;
}

static int move(const char *path, const char *suffix)
{
	char from[PATH_MAX], to[PATH_MAX];

	if (snprintf(from, sizeof(from), "%s%s", path, suffix) >= (int)sizeof(from) ||
	    snprintf(to, sizeof(to), "%s" STORE_ASIDE "%s", path, suffix) >= (int)sizeof(to))
		return -ENAMETOOLONG;
	if (rename(from, to) == 0)
		return 0;
	/* A log of another one must not be taken for its. */
	return errno == ENOENT && (unlink(to) == 0 || errno == ENOENT) ? 0 : -errno;
}

int store_set_aside(const char *path)
{
	int r = schema_is_ours(path) ? move(path, "-wal") : -EBADMSG;

	if (r == 0)
		r = move(path, "-shm");
	return r < 0 ? r : move(path, "");
}

void store_stop(struct store *store)
{
	if (!store->running)
		return;
	queue_stop(store->queue);
	pthread_join(store->thread, NULL);
	store->running = false;
}

struct store *store_free(struct store *store)
{
	if (!store)
		return NULL;
	store_stop(store);
	writer_close(store->writer);
	queue_free(store->queue);
	whose_clear(&store->whose);
	pthread_rwlock_destroy(&store->written);
	pthread_mutex_destroy(&store->lock);
	free(store->path);
	free(store);
	return NULL;
}

void store_pending(struct store *store, uint64_t oldest_ns, uint64_t told_ns)
{
	queue_pending(store->queue, &(struct pending){ oldest_ns, told_ns });
}

void store_commit(struct store *store, uint64_t now_ns)
{
	queue_commit(store->queue, now_ns);
}

void store_stats(struct store *store, struct store_stats *ret)
{
	struct drops drops;
	uint64_t waiting;

	queue_stats(store->queue, &drops, &waiting);
	pthread_mutex_lock(&store->lock);
	*ret = store->stats;
	pthread_mutex_unlock(&store->lock);
	ret->ops_dropped += drops.ops;
	ret->rows_dropped += drops.rows;
	ret->queued_batches = waiting;
}

uint64_t store_held_since(struct store *store)
{
	uint64_t since_ns;

	pthread_mutex_lock(&store->lock);
	since_ns = store->held ? store->stats.written_ns : 0;
	pthread_mutex_unlock(&store->lock);
	return since_ns;
}

void store_held_lock(struct store *store)
{
	pthread_rwlock_rdlock(&store->written);
}

void store_held_unlock(struct store *store)
{
	pthread_rwlock_unlock(&store->written);
}

/* If kernels are short there are four intervals to each, which say no more than its op does. Those
 * without an op stay. */
static bool is_fleeting(const struct op *op)
{
	if (op->kind != OP_STATE || !(op->flags & OP_EXACT) ||
	    op->end_ns - op->start_ns >= STORE_STATE_MIN_NS)
		return false;
	return op->detail != OP_STATE_WAITING && op->detail != OP_STATE_SYNCING;
}

void store_add_op(struct store *store, const struct op *op)
{
	if (is_fleeting(op))
		return;
	queue_add_op(store->queue, whose_of(&store->whose, op->process), op);
}

static void *add_record(struct store *store, uint32_t process, uint32_t type, size_t size)
{
	return queue_add_record(store->queue, whose_of(&store->whose, process), process, type,
				size);
}

static void add_name(struct store *store, const struct core_name *name)
{
	size_t size = name->length < TS_NAME_MAX ? name->length : TS_NAME_MAX;
	struct record_name *record =
		add_record(store, name->process, CORE_ROW_NAME, sizeof(*record) + size + 1);

	if (!record)
		return;
	record->id = name->id;
	record->process = name->process;
	record->user = whose_of(&store->whose, name->process);
	memcpy(record->text, name->text, size);
}

void store_add_name(struct store *store, uint64_t id, const char *text, size_t length)
{
	add_name(store, &(struct core_name){ .id = id, .text = text, .length = length });
}

static uint32_t process_of(const struct store *store, enum core_row type, const void *row)
{
	size_t at = store->process_at[type];

	return at ? *(const uint32_t *)((const char *)row + at - 1) : 0;
}

void store_add_row(struct store *store, enum core_row type, const void *row)
{
	const struct row_table *table = row_table_of(type);
	const struct core_process *process = row;
	void *record;

	if (type == CORE_ROW_NAME) {
		add_name(store, row);
		return;
	}
	if (type == CORE_ROW_PROCESS)
		whose_tell(&store->whose, process->id, process->user, process->exit_ns);
	record = add_record(store, process_of(store, type, row), type, table->size);
	if (record)
		memcpy(record, row, table->size);
}

static size_t text_size(const char *text)
{
	return text ? strlen(text) + 1 : 0;
}

/* Appends a string to those before it; a record refers to it by 0 for NULL, else its offset
 * plus 1. */
static uint32_t put_text(char *text, size_t *used, const char *string)
{
	size_t at = *used, size = text_size(string);

	if (!string)
		return 0;
	memcpy(text + at, string, size);
	*used += size;
	return (uint32_t)at + 1;
}

void store_add_process_detail(struct store *store, uint32_t process,
			      const struct store_process_detail *detail)
{
	size_t used = 0;
	struct record_detail *record =
		add_record(store, process, RECORD_DETAIL,
			   sizeof(*record) + text_size(detail->command) + text_size(detail->user) +
				   text_size(detail->cgroup) + text_size(detail->container) +
				   text_size(detail->variables));

	if (!record)
		return;
	record->process = process;
	record->executed = detail->executed;
	record->command = put_text(record->text, &used, detail->command);
	record->user = put_text(record->text, &used, detail->user);
	record->cgroup = put_text(record->text, &used, detail->cgroup);
	record->container = put_text(record->text, &used, detail->container);
	record->variables = put_text(record->text, &used, detail->variables);
}

void store_add_stack(struct store *store, const struct store_stack *stack)
{
	const struct frame *frame = stack->frame;
	uint32_t count = stack->count;
	size_t size, used = 0;
	struct record_stack *record;
	char *text;

	if (count > FRAMES_MAX)
		count = FRAMES_MAX;
	size = sizeof(*record) + count * sizeof(struct record_frame);
	for (uint32_t i = 0; i < count; i++)
		size += text_size(frame[i].module) + text_size(frame[i].function) +
			text_size(frame[i].file);
	record = add_record(store, stack->process, CORE_ROW_STACK, size);
	if (!record)
		return;
	record->id = stack->id;
	record->process = stack->process;
	record->end = stack->end;
	record->linked = stack->linked;
	record->count = count;
	text = (char *)&record->frame[count];
	for (uint32_t i = 0; i < count; i++) {
		record->frame[i] = (struct record_frame){
			.address = frame[i].address,
			.offset = frame[i].offset,
			.module = put_text(text, &used, frame[i].module),
			.function = put_text(text, &used, frame[i].function),
			.file = put_text(text, &used, frame[i].file),
			.line = frame[i].line,
			.kind = frame[i].kind,
			.inlined = frame[i].inlined,
		};
	}
}
