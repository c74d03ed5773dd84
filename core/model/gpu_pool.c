/* Gpu_pool: how much each memory pool holds from its device, and how much of that is in use, from
 * the records of allocations in it. These come in no order: the latest counts, so that a record
 * from before a pool was destroyed neither brings it back nor ends another one at its address. The
 * probes see the allocations themselves, so none is counted here. */
#include "core/model/gpu_pool.h"

#include <stdlib.h>

#include "core/base/bytes.h"
#include "core/model/model.h"

/* Of one process, those not long gone included. */
#define GPU_POOLS_MAX 256
/* After this no record from before its destruction comes. */
#define GPU_POOL_GONE_NS 2000000000ull

enum { OPERATION_FIRST = 1, OPERATION_DESTROYED = 4, OPERATION_LAST = 5 };

static struct gpu_pool *gpu_pool_find(const struct exact *exact, uint64_t address,
				      size_t *ret_count)
{
	struct gpu_pool *pool;

	*ret_count = 0;
	list_for_each(pool, &exact->pools, link) {
		if (pool->row.address == address)
			return pool;
		++*ret_count;
	}
	return NULL;
}

static struct gpu_pool *gpu_pool_get(struct core *core, struct exact *exact, uint64_t address)
{
	size_t count;
	struct gpu_pool *pool = gpu_pool_find(exact, address, &count);

	if (pool)
		return pool;
	pool = count < GPU_POOLS_MAX ? calloc(1, sizeof(*pool)) : NULL;
	if (!pool) {
		loss_count(core, exact->process, LOSS_LIMIT);
		return NULL;
	}
	pool->row.process = exact->process->row.id;
	pool->row.address = address;
	list_append(&exact->pools, &pool->link);
	return pool;
}

static void gpu_pool_raise(uint64_t *peak, uint64_t bytes)
{
	if (bytes > *peak)
		*peak = bytes;
}

/* What the record says, unless a later one was here. */
static void gpu_pool_update(struct gpu_pool *pool, const struct ts_event *event)
{
	const struct ts_memory *memory = &event->memory;
	struct core_pool *row = &pool->row;
	uint64_t bytes = bytes_bounded(memory->pool_bytes);
	uint64_t used_bytes = bytes_bounded(memory->pool_used_bytes);

	gpu_pool_raise(&row->peak_bytes, bytes);
	gpu_pool_raise(&row->peak_used_bytes, used_bytes);
	pool->untold = true;
	if (event->start_ns < row->told_ns)
		return;
	row->told_ns = event->start_ns;
	row->device = context_device(memory->device);
	row->kind = (uint8_t)memory->pool_kind;
	/* Records of allocations in an imported pool do not say it. */
	if (bytes || row->kind == CORE_POOL_OWN)
		row->bytes = bytes;
	row->used_bytes = used_bytes;
	row->threshold_bytes = bytes_bounded(memory->pool_threshold_bytes);
}

/* Another one may get its address. */
static void gpu_pool_restart(struct gpu_pool *pool)
{
	pool->row.peak_bytes = pool->row.peak_used_bytes = 0;
	pool->gone_ns = 0;
	pool->row.gone = false;
}

int gpu_pool_take(struct core *core, struct process *process, const struct ts_event *event)
{
	struct exact *exact = exact_get(core, process);
	const struct ts_memory *memory = &event->memory;
	struct gpu_pool *pool;

	if (!exact)
		return INGEST_LIMIT;
	if (memory->operation < OPERATION_FIRST || memory->operation > OPERATION_LAST ||
	    memory->pool_kind > CORE_POOL_IMPORTED) {
		loss_count(core, process, LOSS_BAD_EVENT);
		return INGEST_BAD;
	}
	if (!memory->pool_kind || !memory->pool)
		return INGEST_OK;
	pool = gpu_pool_get(core, exact, memory->pool);
	if (!pool)
		return INGEST_LIMIT;
	if (pool->gone_ns && event->start_ns <= pool->gone_ns)
		return INGEST_OK;
	if (pool->gone_ns)
		gpu_pool_restart(pool);
	gpu_pool_update(pool, event);
	if (memory->operation == OPERATION_DESTROYED && pool->row.told_ns == event->start_ns) {
		pool->gone_ns = event->start_ns;
		pool->row.gone = true;
	}
	return INGEST_OK;
}

static void gpu_pool_free(struct gpu_pool *pool)
{
	list_remove(&pool->link);
	free(pool);
}

void gpu_pool_tell_all(struct core *core, struct exact *exact, uint64_t now_ns)
{
	struct gpu_pool *pool;

	list_for_each(pool, &exact->pools, link) {
		if (pool->untold)
			core_tell(core, &pool->row);
		pool->untold = false;
		if (pool->gone_ns && pool->gone_ns + GPU_POOL_GONE_NS <= now_ns)
			gpu_pool_free(pool);
	}
}

void gpu_pool_forget_all(struct core *core, struct exact *exact)
{
	struct gpu_pool *pool;

	list_for_each(pool, &exact->pools, link) {
		pool->row.gone = true;
		core_tell(core, &pool->row);
		gpu_pool_free(pool);
	}
}

void gpu_pool_free_all(struct exact *exact)
{
	struct gpu_pool *pool;

	list_for_each(pool, &exact->pools, link)
		gpu_pool_free(pool);
}
