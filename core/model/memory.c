/* Memory: what is allocated now, and the totals of each kind.
 *
 * An allocation belongs to its process, whoever frees it, and is found by its address in the space
 * of its kind until it is freed, its address is allocated again, or its context or process ends. An
 * allocation that is alive at a checkpoint is reported, and again when it is gone; others are not
 * worth a row.
 *
 * Calls are reported as they return, so a free can be reported after the allocation that was given
 * the same address. That allocation supersedes the old one, and the late free, which started before
 * the new one returned, finds what it freed among the superseded.
 */
#include "core/model/memory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/invariant.h"
#include "core/base/vector.h"
#include "core/model/allocator.h"
#include "core/model/call.h"
#include "core/model/mempool.h"

/* A larger list of what has changed is given back when it is told. */
#define CHANGED_SPARED 16384

static const uint8_t memory_space[MEMORY_KIND_MAX + 1] = {
#define X(number, name, text, space, counted) [number] = space,
	MEMORY_KINDS(X)
#undef X
};

/* Memory in a pool, or behind a handle, outlives the context that was current. */
static bool memory_is_of_context(const struct op *op)
{
	return (op->detail < MEMORY_PHYSICAL && op->detail != MEMORY_POOL) ||
	       (op->detail == MEMORY_IMPORTED && !op->handle);
}

static struct map_key memory_key(uint32_t process, uint8_t kind, uint64_t address)
{
	return (struct map_key){ address, (uint64_t)process << 8 | memory_space[kind] };
}

static struct map_key memory_key_of(const struct set_node *node)
{
	const struct allocation *allocation = list_item(node, struct allocation, node);
	const struct account *account = allocation->account;

	return memory_key(account->process, account->kind, allocation->address);
}

static struct allocation *memory_get(const struct core *core, struct map_key key)
{
	struct set_node *node = set_get(&core->allocation_by_address, key);

	return node ? list_item(node, struct allocation, node) : NULL;
}

struct core_allocation memory_row_of(const struct allocation *allocation)
{
	const struct account *account = allocation->account;
	bool mapped = account->kind == MEMORY_MAPPED;
	struct core_allocation row = {
		.id = allocation->id,
		.address = allocation->address,
		.bytes = allocation->bytes,
		.start_ns = allocation->start_ns,
		.end_ns = allocation_end_ns(allocation),
		.stack_id = allocation->stack_id,
		.process = account->process,
		.tid = allocation->tid,
		.handles = allocation_handles(allocation),
		.fn = allocation->fn,
		.kind = account->kind,
		.gone = allocation->gone,
		.device = account->device,
		.requested_bytes = allocation_requested_bytes(allocation),
	};

	if (allocation_is_block(allocation))
		return row;
	if (!mapped)
		row.context = allocation_more(allocation)->context;
	/* What it showed may be gone, too. */
	else if (!allocation->gone)
		row.physical = allocation_more(allocation)->physical->id;
	return row;
}

static struct account *memory_account(struct process *process, int16_t device, uint8_t kind)
{
	return account_get(&process->accounts, &process->growing, device, kind);
}

static struct pool *memory_pool(struct core *core, const struct account *account)
{
	return account->kind == MEMORY_TENSOR ? &core->block_pool : &core->allocation_pool;
}

static void memory_put(struct core *core, struct allocation *allocation)
{
	struct account *account = allocation->account;

	quota_give(&core->share[CORE_SHARE_ALLOCATIONS], account->user, 1);
	pool_put(memory_pool(core, account), allocation);
	account_leave(account);
}

static struct allocation *memory_new(struct core *core, struct account *account)
{
	struct quota *share = &core->share[CORE_SHARE_ALLOCATIONS];
	struct pool *pool = memory_pool(core, account);
	struct allocation *allocation;

	if (!quota_take(share, account->user, 1))
		return NULL;
	allocation = pool_get(pool);
	if (!allocation) {
		quota_give(share, account->user, 1);
		return NULL;
	}
	memset(allocation, 0, pool->object_bytes);
	allocation->account = account;
	account->allocations++;
	return allocation;
}

static void memory_fill(struct allocation *allocation, const struct core_allocation *row)
{
	allocation->id = row->id;
	allocation->address = row->address;
	allocation->bytes = row->bytes;
	allocation->start_ns = row->start_ns;
	allocation->stack_id = row->stack_id;
	allocation->tid = row->tid;
	allocation->fn = row->fn;
	if (allocation_is_block(allocation))
		return;
	allocation->handles = row->handles;
	allocation_more(allocation)->end_ns = row->end_ns;
	allocation_more(allocation)->context = row->kind == MEMORY_MAPPED ? 0 : row->context;
}

/* NULL: a limit was reached. The address is free. */
static struct allocation *memory_add(struct core *core, struct process *process,
				     struct context *context, const struct core_allocation *row)
{
	struct account *account = memory_account(process, row->device, row->kind);
	struct allocation *allocation = account ? memory_new(core, account) : NULL;

	if (!allocation)
		return NULL;
	memory_fill(allocation, row);
	if (row->handles && set_add(&core->allocation_by_address, &allocation->node) < 0) {
		memory_put(core, allocation);
		return NULL;
	}
	list_append(row->kind == MEMORY_MAPPED ? &process->mappings : &context->allocations,
		    &allocation->in_context);
	account_credit(allocation->account, allocation->bytes, &core->changed_accounts);
	return allocation;
}

struct allocation *memory_find(const struct core *core, uint32_t process, uint8_t kind,
			       uint64_t address)
{
	return memory_get(core, memory_key(process, kind, address));
}

static void memory_tell(struct core *core, struct allocation *allocation)
{
	const struct core_allocation row = memory_row_of(allocation);

	if (!allocation->told && !allocation->gone)
		mempool_compare(core, allocation);
	core_tell(core, &row);
	allocation->told = true;
	if (allocation->gone)
		memory_put(core, allocation);
}

/* Without memory to remember it, it is told at once. */
void memory_changed(struct core *core, struct allocation *allocation)
{
	if (allocation->changed)
		return;
	if (VECTOR_ROOM(core->changed_allocation, core->changed_room, core->changed_count + 1u) <
	    0) {
		memory_tell(core, allocation);
		return;
	}
	core->changed_allocation[core->changed_count++] = allocation;
	allocation->changed = core->changed_count;
}

/* The last one takes its place. */
static void memory_unchanged(struct core *core, struct allocation *allocation)
{
	struct allocation *last;

	if (!allocation->changed)
		return;
	last = core->changed_allocation[--core->changed_count];
	core->changed_allocation[allocation->changed - 1] = last;
	last->changed = allocation->changed;
	allocation->changed = 0;
}

struct allocation *memory_make(struct call *call, const struct core_allocation *row,
			       struct allocation *physical)
{
	struct context *context = row->context ? call->context : &call->process->unknown;
	struct allocation *allocation = memory_add(call->core, call->process, context, row);

	if (!allocation) {
		loss_count(call->core, call->process, LOSS_LIMIT);
		return NULL;
	}
	if (physical)
		allocation_more(allocation)->physical = physical;
	call->core->next_allocation++;
	account_born(&call->core->growths, memory_block(allocation));
	memory_changed(call->core, allocation);
	return allocation;
}

void memory_resize(struct core *core, struct allocation *allocation, uint64_t bytes)
{
	account_debit(allocation->account, allocation->bytes, &core->changed_accounts);
	allocation->bytes = bytes;
	account_credit(allocation->account, allocation->bytes, &core->changed_accounts);
	memory_changed(core, allocation);
}

/* What only mappings keep is not found: its handle may be another one's by now. */
static void memory_hide(struct core *core, struct allocation *allocation)
{
	set_remove(&core->allocation_by_address, &allocation->node);
}

/* Unreported ones are forgotten at once. */
void memory_end(struct core *core, struct allocation *allocation)
{
	memory_hide(core, allocation);
	mempool_forget_request(core, allocation);
	account_debit(allocation->account, allocation->bytes, &core->changed_accounts);
	account_gone(&core->growths, memory_block(allocation), core->now_ns);
	list_remove(&allocation->in_context);
	if (allocation->told) {
		allocation->gone = true;
		memory_changed(core, allocation);
		return;
	}
	memory_unchanged(core, allocation);
	memory_put(core, allocation);
}

static bool memory_is_mapped(const struct allocation *allocation)
{
	return !allocation_is_block(allocation) && allocation_more(allocation)->mappings;
}

/* The program has no reference to it any more. Whether that ended it. */
static bool memory_abandon(struct core *core, struct allocation *allocation, uint64_t time_ns)
{
	const struct core_allocation row = memory_row_of(allocation);

	if (memory_is_mapped(allocation)) {
		memory_hide(core, allocation);
		allocation->handles = 0;
		memory_changed(core, allocation);
		return false;
	}
	rollup_add_freed(core, &row, time_ns);
	memory_end(core, allocation);
	return true;
}

/* The address is allocated again, so the old allocation is freed, whether its free is still to be
 * reported or was lost. */
static void memory_supersede(struct call *call, struct allocation *old, struct map_key key)
{
	struct superseded *superseded =
		superseded_add(&call->core->superseded, key, call->core->now_ns);

	if (superseded) {
		superseded->bytes = old->bytes;
		superseded->kind = old->account->kind;
		superseded->device = old->account->device;
		superseded->before_ns = call_end_ns(call);
	}
	if (!memory_abandon(call->core, old, call->op->start_ns) && superseded)
		superseded->bytes = 0;
}

void memory_retain(struct call *call, struct allocation *allocation, uint64_t handle)
{
	struct core *core = call->core;
	struct map_key key =
		memory_key(allocation->account->process, allocation->account->kind, handle);
	struct allocation *other = memory_get(core, key);

	if (other != allocation) {
		if (other)
			memory_supersede(call, other, key);
		memory_hide(core, allocation);
		allocation->address = handle;
		if (set_add(&core->allocation_by_address, &allocation->node) < 0)
			return;
	}
	allocation->handles++;
	memory_changed(core, allocation);
}

struct core_allocation memory_row(const struct call *call)
{
	const struct op *op = call->op;

	return (struct core_allocation){
		.id = call->core->next_allocation,
		.address = op->address,
		.bytes = op->bytes,
		.start_ns = op->start_ns,
		.end_ns = call_end_ns(call),
		.stack_id = op->stack_id,
		.context = memory_is_of_context(op) ? call->context->handle : 0,
		.process = op->process,
		.tid = op->tid,
		.handles = 1,
		.fn = op->fn,
		.kind = op->detail,
		.device = op->device,
	};
}

static void memory_take(struct call *call)
{
	struct core_allocation row = memory_row(call);
	struct allocation *allocation;
	struct map_key key;

	if (!row.address) {
		call->bad = (call->op->flags & (OP_RETURNED | OP_UNREAD)) == OP_RETURNED;
		return;
	}
	key = memory_key(row.process, row.kind, row.address);
	allocation = memory_get(call->core, key);
	if (allocation)
		memory_supersede(call, allocation, key);
	memory_make(call, &row, NULL);
}

void memory_alloc(struct call *call)
{
	if (call->op->bytes)
		memory_take(call);
}

/* Its size may be unknown. What is opened twice has the same address, and is closed twice. */
void memory_import(struct call *call)
{
	struct op *op = call->op;
	struct allocation *allocation =
		memory_find(call->core, op->process, op->detail, op->address);

	if (!allocation || allocation->account->kind != op->detail) {
		memory_take(call);
		return;
	}
	allocation->handles++;
	memory_changed(call->core, allocation);
}

/* A free op says what was freed, which may be of another kind than its function's; 0 bytes if
 * something else still holds it. */
static void memory_describe(struct op *op, const struct core_allocation *row, bool freed)
{
	op->bytes = freed ? row->bytes : 0;
	op->detail = row->kind;
	op->device = row->device;
}

static bool memory_is_last(const struct allocation *allocation)
{
	return allocation_handles(allocation) == 1 && !memory_is_mapped(allocation);
}

static void memory_drop(struct core *core, struct allocation *allocation, uint64_t time_ns)
{
	if (allocation_handles(allocation) > 1) {
		allocation->handles--;
		memory_changed(core, allocation);
		return;
	}
	memory_abandon(core, allocation, time_ns);
}

void memory_free(struct call *call)
{
	struct core *core = call->core;
	struct op *op = call->op;
	struct map_key key = memory_key(op->process, op->detail, op->address);
	struct allocation *allocation = memory_get(core, key);
	struct superseded *superseded;

	if (!op->address)
		return;
	if (allocation && op->start_ns >= allocation_end_ns(allocation)) {
		const struct core_allocation row = memory_row_of(allocation);

		memory_describe(op, &row, memory_is_last(allocation));
		memory_drop(core, allocation, op->start_ns);
		return;
	}
	superseded = superseded_find(&core->superseded, key);
	if (superseded && op->start_ns < superseded->before_ns) {
		op->bytes = superseded->bytes;
		op->detail = superseded->kind;
		op->device = superseded->device;
		superseded_freed(&core->superseded, superseded);
		return;
	}
	op->flags |= OP_UNKNOWN;
	/* How much of a framework's memory is unknown follows from what its allocator reports. */
	if (op->detail != MEMORY_TENSOR)
		loss_count(core, call->process, LOSS_UNKNOWN_FREE);
}

/* Usually what is mapped was created just before. */
static struct allocation *memory_physical(const struct process *process, uint64_t id)
{
	const struct list *all = &process->unknown.allocations;

	for (struct list *node = all->prev; node != all; node = node->prev) {
		struct allocation *allocation = list_item(node, struct allocation, in_context);

		if (allocation->id == id)
			return allocation;
	}
	return NULL;
}

int memory_restore(struct core *core, struct process *process, const struct core_allocation *row)
{
	struct context *context = &process->unknown;
	struct allocation *allocation, *physical = NULL;

	if (!row->kind || row->kind > MEMORY_KIND_MAX)
		return -EINVAL;
	if (row->handles && memory_find(core, row->process, row->kind, row->address))
		return -EEXIST;
	if (!row->handles && row->kind != MEMORY_PHYSICAL && row->kind != MEMORY_IMPORTED_PHYSICAL)
		return -EINVAL;
	if (row->kind == MEMORY_MAPPED) {
		physical = memory_physical(process, row->physical);
		if (!physical)
			return -ENOENT;
	}
	if (row->context)
		context = context_get(core, process, row->context, row->device);
	allocation = memory_add(core, process, context, row);
	if (!allocation)
		return -ENOSPC;
	allocation->told = true;
	if (allocation_is_block(allocation))
		mempool_set_request(core, allocation, row->requested_bytes);
	account_found(&core->growths, memory_block(allocation));
	if (physical) {
		allocation_more(allocation)->physical = physical;
		allocation_more(physical)->mappings++;
	}
	if (row->id >= core->next_allocation)
		core->next_allocation = row->id + 1;
	return 0;
}

int memory_restore_peak(struct core *core, struct process *process, const struct core_memory *row)
{
	struct account *account;

	if (!row->kind || row->kind > MEMORY_KIND_MAX)
		return -EINVAL;
	account = memory_account(process, row->device, row->kind);
	if (!account)
		return -ENOMEM;
	if (row->peak_bytes > account->peak_bytes)
		account->peak_bytes = row->peak_bytes;
	account_touch(account, &core->changed_accounts);
	return 0;
}

void memory_end_context(struct core *core, struct context *context, uint64_t time_ns)
{
	struct allocation *allocation;

	list_for_each(allocation, &context->allocations, in_context) {
		const struct core_allocation row = memory_row_of(allocation);

		rollup_add_freed(core, &row, time_ns);
		memory_end(core, allocation);
	}
}

void memory_end_process(struct core *core, struct process *process)
{
	struct allocation *allocation;
	struct context *context;

	list_for_each(context, &process->contexts, link)
		list_for_each(allocation, &context->allocations, in_context)
			memory_end(core, allocation);
	list_for_each(allocation, &process->mappings, in_context)
		memory_end(core, allocation);
}

static void memory_tell_account(struct core *core, struct account *account)
{
	const struct core_memory row = memory_sums_of(account);

	list_remove(&account->changed);
	core_tell(core, &row);
}

void memory_tell_accounts(struct core *core, struct process *process)
{
	struct account *account;

	list_for_each(account, &process->accounts, link)
		if (list_linked(&account->changed))
			memory_tell_account(core, account);
}

static void memory_tell_all(struct core *core)
{
	uint32_t waiting = 0;

	for (uint32_t i = 0; i < core->changed_count; i++) {
		struct allocation *allocation = core->changed_allocation[i];
		bool waits = !allocation->told &&
			     allocator_may_wait(allocation->account->kind,
						core->now_ns - allocation->start_ns);

		allocation->changed = waits ? waiting + 1 : 0;
		if (waits)
			core->changed_allocation[waiting++] = allocation;
		else
			memory_tell(core, allocation);
	}
	core->changed_count = waiting;
	if (waiting || core->changed_room <= CHANGED_SPARED)
		return;
	free(core->changed_allocation);
	core->changed_allocation = NULL;
	core->changed_room = 0;
}

void memory_checkpoint(struct core *core)
{
	struct account *account;

	memory_tell_all(core);
	list_for_each(account, &core->changed_accounts, changed)
		memory_tell_account(core, account);
}

void memory_release_all(struct core *core)
{
	for (uint32_t i = 0; i < core->changed_count; i++)
		if (core->changed_allocation[i]->gone)
			account_leave(core->changed_allocation[i]->account);
	free(core->changed_allocation);
	superseded_clear(&core->superseded);
	pool_clear(&core->allocation_pool);
	pool_clear(&core->block_pool);
	set_clear(&core->allocation_by_address);
}

void memory_init(struct core *core)
{
	core->allocation_by_address.key = memory_key_of;
	core->allocation_pool = POOL_OF(struct allocation_more);
	core->block_pool = POOL_OF(struct allocation);
	list_init(&core->changed_accounts);
	list_init(&core->changed_allocators);
	superseded_init(&core->superseded);
}
