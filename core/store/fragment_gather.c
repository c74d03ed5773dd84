/* Fragment_gather: rows of any order, put by device. The numbers of a recording may be anything. */
#include "core/store/fragment_gather.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/time.h"
#include "core/base/vector.h"
#include "core/limits.h"
#include "core/model/core.h"
#include "core/store/sql.h"

#define RECENT_S 60

static struct fragment_device *gather_device(struct fragment_gather *gather, int32_t number)
{
	struct fragment_device *device;

	for (size_t i = 0; i < gather->device_count; i++)
		if (gather->device[i].number == number)
			return &gather->device[i];
	if (gather->device_count == LIMIT_QUERY_DEVICES ||
	    VECTOR_ROOM(gather->device, gather->device_room, gather->device_count + 1) < 0)
		return NULL;
	device = &gather->device[gather->device_count++];
	*device = (struct fragment_device){ .number = number };
	return device;
}

/* In the order of time, so of too many the latest ones are left out: they are an example. */
int fragment_gather_recent(struct fragment_gather *gather, sqlite3 *db,
			   sqlite3_value *const *argument)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *row = NULL;
	int code, r;

	r = sqlite3_prepare_v2(db,
			       "SELECT process, device, detail, bytes / calls, bytes FROM rollup"
			       " WHERE boot = ?1 AND second BETWEEN ?3 AND ?4 AND kind = ?5"
			       " AND freed = 0 AND result = 0 AND calls > 0 AND bytes > 0"
			       " AND (?2 IS NULL OR process IN"
			       " (SELECT id FROM process WHERE boot = ?1 AND pid = ?2)) LIMIT ?6",
			       -1, &row, NULL);
	if (r != SQLITE_OK)
		return r;
	sqlite3_bind_value(row, 1, argument[0]);
	sqlite3_bind_value(row, 2, argument[1]);
	sqlite3_bind_int64(row, 3, sqlite3_value_int64(argument[2]) / NS_PER_S - RECENT_S);
	sqlite3_bind_int64(row, 4, sqlite3_value_int64(argument[2]) / NS_PER_S);
	sqlite3_bind_int(row, 5, OP_ALLOC);
	sqlite3_bind_int(row, 6, LIMIT_QUERY_SUMS);
	while ((code = sqlite3_step(row)) == SQLITE_ROW) {
		if (VECTOR_ROOM(gather->recent, gather->recent_room, gather->recent_count + 1) < 0)
			return SQLITE_NOMEM;
		gather->recent[gather->recent_count++] = (struct fragment_recent){
			.process = sqlite3_column_int64(row, 0),
			.device = sqlite3_column_int(row, 1),
			.kind = (uint8_t)sqlite3_column_int(row, 2),
			.size = (uint64_t)sqlite3_column_int64(row, 3),
			.bytes = (uint64_t)sqlite3_column_int64(row, 4),
		};
	}
	return code == SQLITE_DONE ? SQLITE_OK : code;
}

int fragment_gather_said(struct fragment_gather *gather, sqlite3 *db,
			 sqlite3_value *const *argument)
{
	_cleanup_(sqlite3_finalizep) sqlite3_stmt *row = NULL;
	int code, r;

	r = sqlite3_prepare_v2(db,
			       "SELECT process, device, bytes, used_bytes FROM pool"
			       " WHERE kind = ?3 AND process > 0" FRAGMENT_ASKED,
			       -1, &row, NULL);
	if (r != SQLITE_OK)
		return r;
	sqlite3_bind_value(row, 1, argument[0]);
	sqlite3_bind_value(row, 2, argument[1]);
	sqlite3_bind_int(row, 3, CORE_POOL_ALLOCATOR);
	while ((code = sqlite3_step(row)) == SQLITE_ROW) {
		if (VECTOR_ROOM(gather->said, gather->said_room, gather->said_count + 1) < 0)
			return SQLITE_NOMEM;
		gather->said[gather->said_count++] = (struct fragment_said){
			.process = sqlite3_column_int64(row, 0),
			.device = sqlite3_column_int(row, 1),
			.reserved_bytes = (uint64_t)sqlite3_column_int64(row, 2),
			.used_bytes = (uint64_t)sqlite3_column_int64(row, 3),
		};
	}
	return code == SQLITE_DONE ? SQLITE_OK : code;
}

void fragment_gather_bind(sqlite3_stmt *rows)
{
	const int held = 1 << MEMORY_DEVICE | 1 << MEMORY_MAPPED;

	sqlite3_bind_int(rows, 4, held | 1 << MEMORY_RESERVED | 1 << MEMORY_TENSOR);
	sqlite3_bind_int(rows, 5, held);
	sqlite3_bind_int(rows, 6, CORE_POOL_ALLOCATOR);
}

static int gather_held(struct fragment_device *device, const struct pools_held *held)
{
	struct pools *pools = &device->pools;

	if (VECTOR_ROOM(pools->held, device->held_room, pools->held_count + 1) < 0)
		return SQLITE_NOMEM;
	pools->held[pools->held_count++] = *held;
	return SQLITE_OK;
}

static int gather_block(struct fragment_device *device, const struct fragment_span *block)
{
	struct pools *pools = &device->pools;

	if (VECTOR_ROOM(pools->block, device->block_room, pools->block_count + 1) < 0)
		return SQLITE_NOMEM;
	pools->block[pools->block_count++] = *block;
	return SQLITE_OK;
}

int fragment_gather_row(struct fragment_gather *gather, sqlite3_stmt *row)
{
	int kind = sqlite3_column_int(row, 2);
	struct fragment_device *device;
	const struct pools_held held = {
		.span = { .address = (uint64_t)sqlite3_column_int64(row, 3),
			  .bytes = (uint64_t)sqlite3_column_int64(row, 4),
			  .start_ns = (uint64_t)sqlite3_column_int64(row, 5),
			  .owner = (uint64_t)sqlite3_column_int64(row, 6) },
		.mapped = kind == MEMORY_MAPPED,
		.framework = sqlite3_column_int(row, 7),
	};

	gather->process = sqlite3_column_int64(row, 0);
	if (kind == MEMORY_RESERVED) {
		if (VECTOR_ROOM(gather->range, gather->range_room, gather->range_count + 1) < 0)
			return SQLITE_NOMEM;
		gather->range[gather->range_count++] = held.span.address;
		return SQLITE_OK;
	}
	device = gather_device(gather, sqlite3_column_int(row, 1));
	if (!device)
		return SQLITE_NOMEM;
	return kind == MEMORY_TENSOR ? gather_block(device, &held.span)
				     : gather_held(device, &held);
}

static uint64_t plus(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static int gather_say(struct fragment_gather *gather)
{
	for (size_t i = 0; i < gather->said_count; i++) {
		struct fragment_said *said = &gather->said[i];
		struct fragment_device *device;

		if (said->process != gather->process)
			continue;
		device = gather_device(gather, said->device);
		if (!device)
			return SQLITE_NOMEM;
		device->pools.reports = true;
		/* Copies of the allocator's library have sums of their own. */
		device->reserved_bytes = plus(device->reserved_bytes, said->reserved_bytes);
		device->used_bytes = plus(device->used_bytes, said->used_bytes);
		said->process = 0;
	}
	return SQLITE_OK;
}

bool fragment_gather_next(struct fragment_gather *gather)
{
	while (gather->said_next < gather->said_count && !gather->said[gather->said_next].process)
		gather->said_next++;
	if (gather->said_next == gather->said_count)
		return false;
	gather->process = gather->said[gather->said_next].process;
	return true;
}

static int compare_held(const void *a, const void *b)
{
	const struct pools_held *x = a, *y = b;

	return (x->span.address > y->span.address) - (x->span.address < y->span.address);
}

/* Of those in order: in which the address lies. The number of all: in none. */
static size_t held_at(const struct pools *pools, uint64_t address)
{
	size_t low = 0, high = pools->held_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (pools->held[middle].span.address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (!low || address - pools->held[low - 1].span.address >= pools->held[low - 1].span.bytes)
		return pools->held_count;
	return low - 1;
}

/* Marks each that is a device's by its blocks, or as only one has a framework's allocator. */
static void gather_mark(const struct fragment_gather *gather, struct fragment_device *unknown,
			uint16_t *mark)
{
	size_t reporting = 0, only = 0, at;

	qsort(unknown->pools.held, unknown->pools.held_count, sizeof(*unknown->pools.held),
	      compare_held);
	for (size_t i = 0; i < gather->device_count; i++) {
		const struct pools *pools = &gather->device[i].pools;

		if (&gather->device[i] == unknown)
			continue;
		if (pools->reports) {
			reporting++;
			only = i;
		}
		for (size_t k = 0; k < pools->block_count; k++) {
			at = held_at(&unknown->pools, pools->block[k].address);
			if (at < unknown->pools.held_count)
				mark[at] = (uint16_t)(i + 1);
		}
	}
	for (size_t i = 0; reporting == 1 && i < unknown->pools.held_count; i++)
		if (!mark[i] && unknown->pools.held[i].framework)
			mark[i] = (uint16_t)(only + 1);
}

/* Of memory that was allocated in a context from before the daemon watched, the device is unknown.
 * What a framework makes of it tells. */
static int gather_place(struct fragment_gather *gather)
{
	struct fragment_device *unknown = NULL;
	struct pools *pools;
	size_t kept = 0;
	uint16_t *mark;
	int r = SQLITE_OK;

	for (size_t i = 0; i < gather->device_count; i++)
		if (gather->device[i].number == DEVICE_UNKNOWN)
			unknown = &gather->device[i];
	if (!unknown || !unknown->pools.held_count || gather->device_count == 1)
		return SQLITE_OK;
	pools = &unknown->pools;
	mark = calloc(pools->held_count, sizeof(*mark));
	if (!mark)
		return SQLITE_NOMEM;
	gather_mark(gather, unknown, mark);
	for (size_t i = 0; r == SQLITE_OK && i < pools->held_count; i++)
		if (mark[i])
			r = gather_held(&gather->device[mark[i] - 1], &pools->held[i]);
		else
			pools->held[kept++] = pools->held[i];
	free(mark);
	pools->held_count = kept;
	return r;
}

static size_t larger(size_t a, size_t b)
{
	return a > b ? a : b;
}

int fragment_gather_ready(struct fragment_gather *gather)
{
	size_t held = 1, block = 1, recent = gather->recent_count;

	if (gather_say(gather) != SQLITE_OK || gather_place(gather) != SQLITE_OK)
		return SQLITE_NOMEM;
	for (size_t i = 0; i < gather->device_count; i++) {
		struct pools *pools = &gather->device[i].pools;

		pools->range = gather->range;
		pools->range_count = gather->range_count;
		held = larger(held, pools->held_count);
		block = larger(block, pools->block_count);
	}
	free(gather->segment);
	free(gather->block);
	free(gather->size);
	gather->segment = calloc(held, sizeof(*gather->segment));
	gather->block = calloc(larger(held, block), sizeof(*gather->block));
	gather->size = calloc(larger(larger(held, block), recent), sizeof(*gather->size));
	return gather->segment && gather->block && gather->size ? SQLITE_OK : SQLITE_NOMEM;
}

uint64_t fragment_gather_typical(struct fragment_gather *gather,
				 const struct fragment_device *device, enum memory_pool which,
				 const struct fragment_pool *pool)
{
	uint8_t kind = which == MEMORY_POOL_DRIVER ? MEMORY_DEVICE : MEMORY_TENSOR;
	size_t count = 0;

	for (size_t i = 0; i < gather->recent_count; i++) {
		const struct fragment_recent *recent = &gather->recent[i];

		if (recent->process == gather->process && recent->device == device->number &&
		    recent->kind == kind && pools_serves(which, recent->size))
			gather->size[count++] =
				(struct fragment_size){ recent->size, recent->bytes };
	}
	for (size_t i = 0; !count && i < pool->block_count; i++)
		gather->size[i] =
			(struct fragment_size){ pool->block[i].bytes, pool->block[i].bytes };
	return fragment_typical(gather->size, count ? count : pool->block_count);
}

void fragment_gather_empty(struct fragment_gather *gather)
{
	for (size_t i = 0; i < gather->device_count; i++) {
		free(gather->device[i].pools.held);
		free(gather->device[i].pools.block);
	}
	gather->device_count = gather->range_count = 0;
	gather->process = 0;
}

void fragment_gather_release(struct fragment_gather *gather)
{
	fragment_gather_empty(gather);
	free(gather->device);
	free(gather->range);
	free(gather->recent);
	free(gather->said);
	free(gather->segment);
	free(gather->block);
	free(gather->size);
	memset(gather, 0, sizeof(*gather));
}
