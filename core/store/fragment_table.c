/* Fragment_table: reads the live allocations once, process by process, and measures each pool. */
#include "core/store/fragment_table.h"

#include <stdlib.h>

#include "core/base/sums.h"
#include "core/base/vector.h"
#include "core/limits.h"
#include "core/store/fragment_gather.h"
#include "core/store/sql.h"
#include "core/store/table_function.h"

enum by { BY_POOL, BY_STACK, BY_SIZE };

enum { ARGUMENTS = 4, FIRST_ARGUMENT = 19 };

struct measured {
	int64_t process;
	int32_t device;
	enum memory_pool pool;
	uint64_t typical_bytes;
	struct fragment sum;
};

struct split {
	uint64_t stack;
	uint64_t count, bytes, oldest_ns;
};

struct row {
	size_t measured;
	struct split split;
	unsigned int class; /* BY_SIZE */
};

struct cursor {
	struct table_function_cursor base;
	enum by by;
	struct fragment_gather gather;
	struct sums splits; /* of the pool that is being measured */
	int error;
	struct measured *measured;
	size_t measured_count, measured_room;
	struct row *row;
	size_t row_room;
};

static const char declaration[] =
	"CREATE TABLE fragment(process INTEGER, device INTEGER, pool INTEGER, segments INTEGER,"
	" blocks INTEGER, segment_bytes INTEGER, used_bytes INTEGER, free_bytes INTEGER,"
	" empty_bytes INTEGER, pieces INTEGER, largest_bytes INTEGER, typical_bytes INTEGER,"
	" unusable_bytes INTEGER, index_ppm INTEGER, stack INTEGER, splits INTEGER,"
	" split_bytes INTEGER, oldest_ns INTEGER, size_bytes INTEGER, boot HIDDEN, pid HIDDEN,"
	" now HIDDEN, by HIDDEN)";

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Where there are too many stacks, the further ones are added up without theirs. */
static void add_split(void *data, const struct fragment_span *oldest, uint64_t smaller_bytes)
{
	struct cursor *cursor = data;
	uint64_t stack = oldest->owner, none = 0;
	uint32_t before = cursor->splits.count;
	struct split *split = sums_get(&cursor->splits, &stack, LIMIT_QUERY_SUMS);

	if (!split)
		split = sums_get(&cursor->splits, &none, LIMIT_QUERY_SUMS + 1ull);
	if (!split) {
		cursor->error = SQLITE_NOMEM;
		return;
	}
	if (cursor->splits.count > before || oldest->start_ns < split->oldest_ns)
		split->oldest_ns = oldest->start_ns;
	split->count++;
	split->bytes += smaller_bytes; /* of pieces that do not overlap: no overflow */
}

static int add_row(struct cursor *cursor, const struct split *split, unsigned int class)
{
	if (cursor->base.count >= LIMIT_QUERY_ROWS ||
	    VECTOR_ROOM(cursor->row, cursor->row_room, cursor->base.count + 1ull) < 0)
		return SQLITE_NOMEM;
	cursor->row[cursor->base.count++] = (struct row){
		.measured = cursor->measured_count - 1,
		.split = *split,
		.class = class,
	};
	return SQLITE_OK;
}

/* The splits of all, with the stack and the age of who splits most. */
static struct split splits_in_all(const struct sums *splits)
{
	struct split all = { 0 };
	uint64_t most = 0;

	for (uint32_t i = 0; i < splits->count; i++) {
		const struct split *split = sums_row(splits, i);

		all.count += split->count;
		all.bytes += split->bytes;
		if (split->bytes <= most)
			continue;
		most = split->bytes;
		all.stack = split->stack;
		all.oldest_ns = split->oldest_ns;
	}
	return all;
}

static int add_rows(struct cursor *cursor)
{
	const struct fragment *sum = &cursor->measured[cursor->measured_count - 1].sum;
	const struct split all = splits_in_all(&cursor->splits);
	int r = SQLITE_OK;

	if (cursor->by == BY_POOL)
		return add_row(cursor, &all, 0);
	for (uint32_t i = 0; cursor->by == BY_STACK && r == SQLITE_OK && i < cursor->splits.count;
	     i++)
		r = add_row(cursor, sums_row(&cursor->splits, i), 0);
	for (unsigned int i = 0; cursor->by == BY_SIZE && r == SQLITE_OK && i < FRAGMENT_CLASSES;
	     i++)
		if (sum->class[i].pieces)
			r = add_row(cursor, &all, i);
	return r;
}

static struct measured *add_measured(struct cursor *cursor, int32_t device, enum memory_pool pool)
{
	struct measured *measured;

	if (VECTOR_ROOM(cursor->measured, cursor->measured_room, cursor->measured_count + 1) < 0)
		return NULL;
	measured = &cursor->measured[cursor->measured_count++];
	*measured = (struct measured){
		.process = cursor->gather.process,
		.device = device,
		.pool = pool,
	};
	return measured;
}

static int measure_pool(struct cursor *cursor, const struct fragment_device *device,
			enum memory_pool which, struct fragment *known)
{
	struct fragment_gather *gather = &cursor->gather;
	struct fragment_pool pool;
	struct measured *measured;

	if (!pools_take(&device->pools, which, gather->segment, gather->block, &pool))
		return SQLITE_OK;
	measured = add_measured(cursor, device->number, which);
	if (!measured)
		return SQLITE_NOMEM;
	measured->typical_bytes = fragment_gather_typical(gather, device, which, &pool);
	pool.request_bytes = measured->typical_bytes;
	pool.divider = add_split;
	pool.divider_data = cursor;
	sums_empty(&cursor->splits);
	fragment_measure(&pool, &measured->sum);
	if (which != MEMORY_POOL_DRIVER) {
		known->segment_bytes += measured->sum.segment_bytes;
		known->used_bytes += measured->sum.used_bytes;
	}
	return cursor->error ? cursor->error : add_rows(cursor);
}

/* What is left of what the allocator says: segments and blocks from before the attach, or of which
 * the report was lost, and blocks that are too young to have been stored. */
static int measure_rest(struct cursor *cursor, const struct fragment_device *device,
			const struct fragment *known)
{
	uint64_t held =
		device->reserved_bytes - sooner(device->reserved_bytes, known->segment_bytes);
	uint64_t used = device->used_bytes - sooner(device->used_bytes, known->used_bytes);
	struct measured *measured;

	if (cursor->by != BY_POOL || (!held && !used))
		return SQLITE_OK;
	measured = add_measured(cursor, device->number, MEMORY_POOL_UNKNOWN);
	if (!measured)
		return SQLITE_NOMEM;
	measured->sum.segment_bytes = held;
	measured->sum.used_bytes = used;
	return add_row(cursor, &(const struct split){ 0 }, 0);
}

static int measure_device(struct cursor *cursor, struct fragment_device *device)
{
	struct fragment known = { 0 };
	int r = SQLITE_OK;

	pools_find(&device->pools);
	for (int pool = MEMORY_POOL_DRIVER; r == SQLITE_OK && pool <= MEMORY_POOL_EXPANDABLE;
	     pool++)
		r = measure_pool(cursor, device, (enum memory_pool)pool, &known);
	return r == SQLITE_OK ? measure_rest(cursor, device, &known) : r;
}

static int measure_process(struct cursor *cursor)
{
	struct fragment_gather *gather = &cursor->gather;
	int r = fragment_gather_ready(gather);

	for (size_t i = 0; r == SQLITE_OK && i < gather->device_count; i++)
		r = measure_device(cursor, &gather->device[i]);
	fragment_gather_empty(gather);
	return r;
}

static int read_rows(struct cursor *cursor, sqlite3_stmt *row)
{
	int code, r = SQLITE_OK;

	while ((code = sqlite3_step(row)) == SQLITE_ROW) {
		if (cursor->gather.process &&
		    cursor->gather.process != sqlite3_column_int64(row, 0))
			r = measure_process(cursor);
		if (r == SQLITE_OK)
			r = fragment_gather_row(&cursor->gather, row);
		if (r != SQLITE_OK)
			return r;
	}
	if (code == SQLITE_DONE && cursor->gather.process)
		r = measure_process(cursor);
	while (code == SQLITE_DONE && r == SQLITE_OK && fragment_gather_next(&cursor->gather))
		r = measure_process(cursor);
	return code == SQLITE_DONE ? r : code;
}

static int fragment_fill(struct table_function_cursor *base, sqlite3_stmt *rows,
			 sqlite3_value *const *argument)
{
	struct cursor *cursor = (struct cursor *)base;
	int r;

	cursor->by = (enum by)sqlite3_value_int(argument[ARGUMENTS - 1]);
	cursor->splits = SUMS_OF(struct split, count);
	fragment_gather_bind(rows);
	r = fragment_gather_recent(&cursor->gather, sqlite3_db_handle(rows), argument);
	if (r == SQLITE_OK)
		r = fragment_gather_said(&cursor->gather, sqlite3_db_handle(rows), argument);
	if (r == SQLITE_OK)
		r = read_rows(cursor, rows);
	sums_release(&cursor->splits);
	fragment_gather_release(&cursor->gather);
	return r;
}

static void fragment_column(const struct table_function_cursor *base, sqlite3_context *context,
			    int number)
{
	const struct cursor *cursor = (const struct cursor *)base;
	const struct row *row = &cursor->row[base->at];
	const struct measured *measured = &cursor->measured[row->measured];
	const struct fragment *sum = &measured->sum;
	const struct fragment_class *class = cursor->by == BY_SIZE ? &sum->class[row->class] : NULL;
	const int64_t values[FIRST_ARGUMENT] = {
		measured->process,
		measured->device,
		measured->pool,
		(int64_t)sum->segments,
		(int64_t)sum->blocks,
		(int64_t)sum->segment_bytes,
		(int64_t)sum->used_bytes,
		(int64_t)(class ? class->bytes : sum->free_bytes),
		(int64_t)sum->empty_bytes,
		(int64_t)(class ? class->pieces : sum->pieces),
		(int64_t)sum->largest_bytes,
		(int64_t)measured->typical_bytes,
		(int64_t)sum->unusable_bytes,
		sum->index_ppm,
		(int64_t)row->split.stack,
		(int64_t)row->split.count,
		(int64_t)row->split.bytes,
		(int64_t)row->split.oldest_ns,
		class ? (int64_t)(1ull << row->class) : 0,
	};

	sqlite3_result_int64(context, values[number]);
}

static void fragment_clear(struct table_function_cursor *base)
{
	struct cursor *cursor = (struct cursor *)base;

	free(cursor->measured);
	free(cursor->row);
	sums_release(&cursor->splits);
	fragment_gather_release(&cursor->gather);
	*cursor = (struct cursor){ .base = cursor->base };
}

static const struct table_function function = {
	.name = "fragment",
	.declaration = declaration,
	.takes = "fragment takes boot, pid, now and by",
	.first_argument = FIRST_ARGUMENT,
	.argument_count = ARGUMENTS,
	.cost = 1e6,
	.rows = 100,
	.cursor_bytes = sizeof(struct cursor),
	.select = FRAGMENT_ROWS,
	.fill = fragment_fill,
	.column = fragment_column,
	.clear = fragment_clear,
};

int fragment_table_register(sqlite3 *db)
{
	return table_function_register(db, &function, 0, NULL);
}
