/* Mempool: which device each memory pool of a process is on, so that allocations from it are
 * counted there, whichever device is current. A pool is known from the call that created it or
 * returned its handle until it is destroyed. */
#include "core/model/mempool.h"

#include <stdlib.h>

#include "core/model/call.h"

/* Programs have a default one for each device, and a few of their own. */
#define MEMPOOLS_MAX 256

static struct mempool *mempool_find(const struct process *process, uint64_t handle)
{
	struct mempool *pool;

	list_for_each(pool, &process->mempools, link)
		if (pool->handle == handle)
			return pool;
	return NULL;
}

int16_t mempool_device(const struct process *process, uint64_t handle)
{
	const struct mempool *pool = mempool_find(process, handle);

	return pool ? pool->device : process->unknown.device;
}

static struct mempool *mempool_add(struct process *process, uint64_t handle)
{
	struct mempool *pool = NULL;

	if (process->mempool_count < MEMPOOLS_MAX)
		pool = malloc(sizeof(*pool));
	if (!pool)
		return NULL;
	*pool = (struct mempool){ .handle = handle };
	list_append(&process->mempools, &pool->link);
	process->mempool_count++;
	return pool;
}

static void mempool_free(struct process *process, struct mempool *pool)
{
	list_remove(&pool->link);
	process->mempool_count--;
	free(pool);
}

void mempool_known(struct call *call)
{
	struct mempool *pool = mempool_find(call->process, call->op->handle);

	if (!call->op->handle)
		return;
	if (!pool)
		pool = mempool_add(call->process, call->op->handle);
	if (pool)
		pool->device = call->op->device;
	else
		loss_count(call->core, call->process, LOSS_LIMIT);
}

void mempool_destroy(struct call *call)
{
	struct mempool *pool = mempool_find(call->process, call->op->handle);

	if (pool)
		mempool_free(call->process, pool);
}

void mempool_forget_all(struct process *process)
{
	struct mempool *pool;

	list_for_each(pool, &process->mempools, link)
		mempool_free(process, pool);
}
