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

#include "core/base/invariant.h"
#include "core/model/call.h"

/* How late a free may be, and how many may be late at one time. */
#define SUPERSEDED_WAIT_NS 5000000000ull
#define SUPERSEDED_MAX	   4096

static const struct {
	uint8_t space;
	bool counts;
} memory_kind[MEMORY_KIND_MAX + 1] = {
#define X(number, name, text, space_number, counted) [number] = { space_number, counted },
	MEMORY_KINDS(X)
#undef X
};

static bool memory_is_host(uint8_t kind)
{
	return kind == MEMORY_HOST || kind == MEMORY_REGISTERED;
}

/* Memory in a pool, or behind a handle, outlives the context that was current. */
static bool memory_is_of_context(const struct op *op)
{
	return (op->detail < MEMORY_PHYSICAL && op->detail != MEMORY_POOL) ||
	       (op->detail == MEMORY_IMPORTED && !op->handle);
}

static struct map_key memory_key(uint32_t process, uint8_t kind, uint64_t address)
{
	return (struct map_key){ address, (uint64_t)process << 8 | memory_kind[kind].space };
}

int16_t memory_device(uint8_t kind, int16_t device)
{
	return memory_is_host(kind) ? DEVICE_UNKNOWN : device;
}

static void account_touch(struct core *core, struct account *account)
{
	if (!list_linked(&account->changed))
		list_append(&core->changed_accounts, &account->changed);
}

static struct account *account_get(struct process *process, int16_t device, uint8_t kind)
{
	struct account *account;

	list_for_each(account, &process->accounts, link)
		if (account->row.device == device && account->row.kind == kind)
			return account;
	account = calloc(1, sizeof(*account));
	if (!account)
		return NULL;
	account->row.process = process->row.id;
	account->row.device = device;
	account->row.kind = kind;
	list_init(&account->changed);
	list_append(&process->accounts, &account->link);
	return account;
}

uint64_t memory_live_bytes(const struct process *process, int16_t device, uint8_t kind)
{
	bool host = memory_is_host(kind);
	struct account *account;
	uint64_t bytes = 0;

	list_for_each(account, &process->accounts, link)
		if (account->row.device == device && memory_kind[account->row.kind].counts &&
		    memory_is_host(account->row.kind) == host)
			bytes += account->row.live_bytes;
	return bytes;
}

static void memory_credit(struct core *core, struct allocation *allocation)
{
	struct core_memory *row = &allocation->account->row;

	row->live_bytes += allocation->row.bytes;
	row->live_count++;
	if (row->live_bytes > row->peak_bytes)
		row->peak_bytes = row->live_bytes;
	account_touch(core, allocation->account);
}

static void memory_debit(struct core *core, struct allocation *allocation)
{
	struct core_memory *row = &allocation->account->row;

	assert_invariant(row->live_count > 0 && row->live_bytes >= allocation->row.bytes);
	row->live_bytes -= allocation->row.bytes;
	row->live_count--;
	account_touch(core, allocation->account);
}

static void memory_put(struct core *core, struct allocation *allocation)
{
	quota_give(&core->share[CORE_SHARE_ALLOCATIONS], allocation->user, 1);
	pool_put(&core->allocation_pool, allocation);
}

static struct allocation *memory_new(struct core *core, uint32_t user)
{
	struct allocation *allocation;

	if (!quota_take(&core->share[CORE_SHARE_ALLOCATIONS], user, 1))
		return NULL;
	allocation = pool_get(&core->allocation_pool);
	if (allocation)
		*allocation = (struct allocation){ .user = user };
	else
		quota_give(&core->share[CORE_SHARE_ALLOCATIONS], user, 1);
	return allocation;
}

/* NULL: a limit was reached. The address is free. */
static struct allocation *memory_add(struct core *core, struct process *process,
				     struct context *context, const struct core_allocation *row)
{
	struct map_key key = memory_key(row->process, row->kind, row->address);
	struct account *account = account_get(process, row->device, row->kind);
	struct allocation *allocation = account ? memory_new(core, process->row.user) : NULL;

	if (!allocation)
		return NULL;
	allocation->row = *row;
	allocation->account = account;
	if (row->handles && map_put(&core->allocation_by_address, key, allocation) < 0) {
		memory_put(core, allocation);
		return NULL;
	}
	list_append(row->kind == MEMORY_MAPPED ? &process->mappings : &context->allocations,
		    &allocation->in_context);
	list_init(&allocation->changed);
	memory_credit(core, allocation);
	return allocation;
}

struct allocation *memory_find(const struct core *core, uint32_t process, uint8_t kind,
			       uint64_t address)
{
	return map_get(&core->allocation_by_address, memory_key(process, kind, address));
}

struct allocation *memory_make(struct call *call, const struct core_allocation *row)
{
	struct context *context = row->context ? call->context : &call->process->unknown;
	struct allocation *allocation = memory_add(call->core, call->process, context, row);

	if (!allocation) {
		loss_count(call->core, call->process, LOSS_LIMIT);
		return NULL;
	}
	call->core->next_allocation++;
	list_append(&call->core->changed_allocations, &allocation->changed);
	return allocation;
}

void memory_changed(struct core *core, struct allocation *allocation)
{
	if (!list_linked(&allocation->changed))
		list_append(&core->changed_allocations, &allocation->changed);
}

void memory_resize(struct core *core, struct allocation *allocation, uint64_t bytes)
{
	memory_debit(core, allocation);
	allocation->row.bytes = bytes;
	memory_credit(core, allocation);
	memory_changed(core, allocation);
}

/* What only mappings keep is not found: its handle may be another one's by now. */
static void memory_hide(struct core *core, struct allocation *allocation)
{
	const struct core_allocation *row = &allocation->row;
	struct map_key key = memory_key(row->process, row->kind, row->address);

	if (map_get(&core->allocation_by_address, key) == allocation)
		map_remove(&core->allocation_by_address, key);
}

/* Unreported ones are forgotten at once. */
void memory_end(struct core *core, struct allocation *allocation)
{
	memory_hide(core, allocation);
	memory_debit(core, allocation);
	list_remove(&allocation->in_context);
	if (allocation->told) {
		allocation->row.gone = true;
		memory_changed(core, allocation);
		return;
	}
	list_remove(&allocation->changed);
	memory_put(core, allocation);
}

/* The program has no reference to it any more. Whether that ended it. */
static bool memory_abandon(struct core *core, struct allocation *allocation, uint64_t time_ns)
{
	allocation->row.handles = 0;
	if (allocation->mappings) {
		memory_hide(core, allocation);
		memory_changed(core, allocation);
		return false;
	}
	rollup_add_freed(core, &allocation->row, time_ns);
	memory_end(core, allocation);
	return true;
}

static void superseded_forget(struct core *core, struct superseded *superseded)
{
	map_remove(&core->superseded_by_address, superseded->key);
	list_remove(&superseded->link);
	free(superseded);
}

static struct superseded *superseded_get(struct core *core, struct map_key key)
{
	struct superseded *superseded = map_get(&core->superseded_by_address, key);

	if (superseded)
		return superseded;
	if (core->superseded_by_address.count >= SUPERSEDED_MAX)
		superseded_forget(core, list_first(&core->superseded, struct superseded, link));
	superseded = calloc(1, sizeof(*superseded));
	if (!superseded)
		return NULL;
	if (map_put(&core->superseded_by_address, key, superseded) < 0) {
		free(superseded);
		return NULL;
	}
	superseded->key = key;
	list_append(&core->superseded, &superseded->link);
	return superseded;
}

/* The address is allocated again, so the old allocation is freed, whether its free is still to be
 * reported or was lost. */
static void memory_supersede(struct call *call, struct allocation *old, struct map_key key)
{
	struct superseded *superseded = superseded_get(call->core, key);

	if (superseded) {
		superseded->row = old->row;
		superseded->before_ns = call_end_ns(call);
		superseded->expires_ns = call->core->now_ns + SUPERSEDED_WAIT_NS;
		superseded->frees++;
		list_remove(&superseded->link);
		list_append(&call->core->superseded, &superseded->link);
	}
	if (!memory_abandon(call->core, old, call->op->start_ns) && superseded)
		superseded->row.bytes = 0;
}

void memory_retain(struct call *call, struct allocation *allocation, uint64_t handle)
{
	struct core *core = call->core;
	struct map_key key = memory_key(allocation->row.process, allocation->row.kind, handle);
	struct allocation *other = map_get(&core->allocation_by_address, key);

	if (other != allocation) {
		if (other)
			memory_supersede(call, other, key);
		memory_hide(core, allocation);
		if (map_put(&core->allocation_by_address, key, allocation) < 0)
			return;
		allocation->row.address = handle;
	}
	allocation->row.handles++;
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
	allocation = map_get(&call->core->allocation_by_address, key);
	if (allocation)
		memory_supersede(call, allocation, key);
	memory_make(call, &row);
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

	if (!allocation || allocation->row.kind != op->detail) {
		memory_take(call);
		return;
	}
	allocation->row.handles++;
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
	return allocation->row.handles == 1 && !allocation->mappings;
}

static void memory_drop(struct core *core, struct allocation *allocation, uint64_t time_ns)
{
	if (allocation->row.handles > 1) {
		allocation->row.handles--;
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
	struct allocation *allocation = map_get(&core->allocation_by_address, key);
	struct superseded *superseded;

	if (!op->address)
		return;
	if (allocation && op->start_ns >= allocation->row.end_ns) {
		memory_describe(op, &allocation->row, memory_is_last(allocation));
		memory_drop(core, allocation, op->start_ns);
		return;
	}
	superseded = map_get(&core->superseded_by_address, key);
	if (superseded && op->start_ns < superseded->before_ns) {
		memory_describe(op, &superseded->row, true);
		if (--superseded->frees == 0)
			superseded_forget(core, superseded);
		return;
	}
	op->flags |= OP_UNKNOWN;
	loss_count(core, call->process, LOSS_UNKNOWN_FREE);
}

/* Usually what is mapped was created just before. */
static struct allocation *memory_physical(const struct process *process, uint64_t id)
{
	const struct list *all = &process->unknown.allocations;

	for (struct list *node = all->prev; node != all; node = node->prev) {
		struct allocation *allocation = list_item(node, struct allocation, in_context);

		if (allocation->row.id == id)
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
	allocation->physical = physical;
	if (physical)
		physical->mappings++;
	if (row->id >= core->next_allocation)
		core->next_allocation = row->id + 1;
	return 0;
}

int memory_restore_peak(struct core *core, struct process *process, const struct core_memory *row)
{
	struct account *account;

	if (!row->kind || row->kind > MEMORY_KIND_MAX)
		return -EINVAL;
	account = account_get(process, row->device, row->kind);
	if (!account)
		return -ENOMEM;
	if (row->peak_bytes > account->row.peak_bytes)
		account->row.peak_bytes = row->peak_bytes;
	account_touch(core, account);
	return 0;
}

void memory_end_context(struct core *core, struct context *context, uint64_t time_ns)
{
	struct allocation *allocation;

	list_for_each(allocation, &context->allocations, in_context) {
		rollup_add_freed(core, &allocation->row, time_ns);
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

void memory_tick(struct core *core, uint64_t now_ns)
{
	struct superseded *superseded;

	while ((superseded = list_first(&core->superseded, struct superseded, link)) &&
	       superseded->expires_ns <= now_ns)
		superseded_forget(core, superseded);
}

static void account_tell(struct core *core, struct account *account)
{
	list_remove(&account->changed);
	core_tell(core, &account->row);
}

void memory_tell_accounts(struct core *core, struct process *process)
{
	struct account *account;

	list_for_each(account, &process->accounts, link)
		if (list_linked(&account->changed))
			account_tell(core, account);
}

void memory_checkpoint(struct core *core)
{
	struct allocation *allocation;
	struct account *account;

	list_for_each(allocation, &core->changed_allocations, changed) {
		list_remove(&allocation->changed);
		core_tell(core, &allocation->row);
		allocation->told = true;
		if (allocation->row.gone)
			memory_put(core, allocation);
	}
	list_for_each(account, &core->changed_accounts, changed)
		account_tell(core, account);
}

void memory_release_all(struct core *core)
{
	struct superseded *superseded;

	list_for_each(superseded, &core->superseded, link)
		superseded_forget(core, superseded);
	pool_clear(&core->allocation_pool);
	map_clear(&core->allocation_by_address);
	map_clear(&core->superseded_by_address);
}
