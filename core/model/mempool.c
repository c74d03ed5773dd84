/* Mempool: which device each memory pool of a process is on, so that allocations from it are
 * counted there, whichever device is current. A pool is known from the call that created it or
 * returned its handle until it is destroyed.
 *
 * A framework's allocator is a pool as well. It reports each block that it gives out or takes back:
 * an allocation in a space of its own, as it lies inside driver memory and is never added to it. */
#include "core/model/mempool.h"

#include <stdlib.h>

#include "core/base/bytes.h"
#include "core/model/allocator.h"
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

void mempool_tensor(struct call *call)
{
	uint64_t size = call->event->api.bytes, copy = call->event->api.flags;
	bool freed = (int64_t)size < 0;
	struct op *op = call->op;
	struct allocator *allocator;

	op->kind = freed ? OP_FREE : OP_ALLOC;
	op->bytes = freed ? bytes_bounded(-size) : size;
	op->device = call_framework_device(call->event);
	/* The child of a fork that gives back what is its parent's has nothing of its own. */
	allocator = freed ? allocator_find(&call->process->allocators, op->device, copy)
			  : allocator_get(&call->process->allocators, call->process->row.id,
					  op->device, copy);
	if (allocator && allocator_told(allocator, op->start_ns, op->source, op->handle) &&
	    !list_linked(&allocator->changed))
		list_append(&call->core->changed_allocators, &allocator->changed);
	if (call->process->sums_only)
		return;
	if (freed)
		memory_free(call);
	else
		memory_alloc(call);
}

void mempool_forget_request(struct core *core, struct allocation *allocation)
{
	uint64_t bytes = allocation_requested_bytes(allocation);

	if (!bytes)
		return;
	account_unask(allocation->account, bytes, allocation->bytes - bytes,
		      &core->changed_accounts);
	allocation->rounding = 0;
}

bool mempool_set_request(struct core *core, struct allocation *allocation, uint64_t bytes)
{
	uint64_t rounding = allocation->bytes - bytes;

	if (!bytes || bytes > allocation->bytes || rounding >= UINT32_MAX)
		return false;
	mempool_forget_request(core, allocation);
	allocation->rounding = (uint32_t)rounding + 1;
	account_ask(allocation->account, bytes, rounding, &core->changed_accounts);
	return true;
}

void mempool_compare(struct core *core, const struct allocation *allocation)
{
	const struct account *account = allocation->account;

	if (allocation_is_block(allocation) && !allocation->rounding && account->asked_ns &&
	    allocation->start_ns >= account->asked_ns)
		loss_count(core, process_by_id(core, account->process), LOSS_TENSOR_MISMATCH);
}

/* The allocator's report of the block came before, on the same thread. */
int mempool_requested(struct core *core, struct process *process, const struct ts_event *event)
{
	const struct ts_api *api = &event->api;
	struct allocation *allocation;

	if (process->sums_only)
		return INGEST_OK;
	allocation = memory_find(core, process->row.id, MEMORY_TENSOR, api->address);
	if (!allocation || allocation->account->device != context_device(api->device) ||
	    !mempool_set_request(core, allocation, api->bytes)) {
		loss_count(core, process, LOSS_TENSOR_MISMATCH);
		return INGEST_OK;
	}
	if (!allocation->account->asked_ns)
		allocation->account->asked_ns = event->start_ns;
	memory_changed(core, allocation);
	return INGEST_OK;
}

static void mempool_forget_blocks(struct core *core, struct process *process)
{
	struct allocation *allocation;
	struct account *account;

	list_for_each(account, &process->accounts, link)
		account->asked_ns = 0;
	/* First: they are not freed. */
	growing_start_over(&process->growing, MEMORY_TENSOR);
	list_for_each(allocation, &process->unknown.allocations, in_context)
		if (allocation->account->kind == MEMORY_TENSOR)
			memory_end(core, allocation);
}

void core_follow_blocks(struct core *core, uint32_t pid, bool follow)
{
	struct process *process = process_by_pid(core, pid);

	if (!process)
		return;
	process->sums_only = !follow;
	mempool_forget_blocks(core, process);
}

void core_forget_blocks(struct core *core, uint32_t pid)
{
	struct process *process;

	list_for_each(process, &core->processes, link)
		if (!pid || process->row.pid == pid)
			mempool_forget_blocks(core, process);
}

bool mempool_told(struct core *core, const struct core_sums *sums)
{
	struct process *process = process_by_pid(core, sums->pid);
	struct allocator *allocator;
	bool changed;

	if (!process)
		return false;
	/* Of the program that ran there before. */
	if (sums->told_ns < process->emptied_ns || sums->told_ns < process->row.first_ns)
		return true;
	allocator = allocator_get(&process->allocators, process->row.id,
				  context_device(sums->device), sums->copy);
	if (!allocator)
		return true;
	changed = allocator_peaked(allocator, sums->peak_used_bytes, sums->peak_bytes);
	changed |= sums->told_ns != allocator->told_ns &&
		   allocator_told(allocator, sums->told_ns, sums->used_bytes, sums->bytes);
	if (changed && !list_linked(&allocator->changed))
		list_append(&core->changed_allocators, &allocator->changed);
	return true;
}

static void mempool_tell(struct core *core, struct allocator *allocator)
{
	const struct core_pool row = {
		.process = allocator->process,
		.device = allocator->device,
		.kind = CORE_POOL_ALLOCATOR,
		.address = (uint64_t)(allocator->device + 1) | (uint64_t)allocator->number << 16,
		.bytes = allocator->bytes,
		.used_bytes = allocator->used_bytes,
		.peak_bytes = allocator->peak_bytes,
		.peak_used_bytes = allocator->peak_used_bytes,
		.told_ns = allocator->told_ns,
	};

	list_remove(&allocator->changed);
	core_tell(core, &row);
}

void mempool_checkpoint(struct core *core)
{
	struct allocator *allocator;

	list_for_each(allocator, &core->changed_allocators, changed)
		mempool_tell(core, allocator);
}

void mempool_forget_allocators(struct core *core, struct process *process)
{
	struct allocator *allocator;

	list_for_each(allocator, &process->allocators, link) {
		allocator->bytes = allocator->used_bytes = 0;
		if (core)
			mempool_tell(core, allocator);
		allocator_free(allocator);
	}
}
