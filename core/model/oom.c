/* Oom: what is known of an allocation that failed for lack of memory, and who held what then: an
 * autopsy, which is reported as a row of core_oom and some of core_oom_memory and core_oom_stack.
 *
 * It is taken when an allocation fails, and again when a framework, which has given back by then
 * what it could, reports the failure. The same failure of the same thread is one autopsy, however
 * often it is tried again. A process that fails all the time gets a few in a minute; further
 * failures are counted. Where the thread gets as much in the end, it has recovered. */
#include <stdlib.h>

#include "core/base/bytes.h"
#include "core/base/time.h"
#include "core/model/allocator.h"
#include "core/model/call.h"
#include "core/model/oom_pieces.h"

/* What fails again within this time is the same failure. */
#define SAME_NS (10 * NS_PER_S)
/* Then it has failed, unless the thread has got its memory by then. */
#define SETTLE_NS (1 * NS_PER_S)
/* An autopsy is forgotten here, so that its place is free. */
#define RECENT_NS (60 * NS_PER_S)
/* The place of one that came to nothing may be taken by another one so soon. */
#define REUSE_NS (5 * NS_PER_S)
/* How long an answer about free memory is worth something. */
#define ROOM_NS (10 * NS_PER_S)
/* Changes are reported so often. */
#define TELL_NS	   (1 * NS_PER_S)

#define OOM_RESULT 2 /* CUresult */

/* How much is kept of one, and how many a process may have in a minute. */
#define OOM_STACKS_OF_FAILED 32
#define OOM_STACKS_OF_OTHER  8
#define OOM_PROCESSES	     32
#define OOM_OF_PROCESS	     8

/* One of the last minute: what fails again within it is a part of it. */
struct oom {
	struct list link; /* in core's, the oldest first */
	struct core_oom row;
	uint32_t user;
	uint64_t taken_ns, told_ns;
	uint64_t again; /* failures since a framework's report */
	bool changed, settled;
};

struct oom_top {
	const struct growth *growth[OOM_STACKS_OF_FAILED];
	uint32_t count, room, left_out;
};

static bool oom_is_host(uint8_t kind)
{
	return account_device(kind, 0) == DEVICE_UNKNOWN;
}

/* Whether memory of this kind and place is of what ran out. */
static bool oom_counts(const struct oom *oom, uint8_t kind, int16_t device)
{
	bool host = oom->row.kind && oom_is_host(oom->row.kind);

	return device == oom->row.device && oom_is_host(kind) == host;
}

/* The largest ones, in order. */
static void oom_rank(struct oom_top *top, const struct growth *growth)
{
	uint32_t at = top->count;

	if (top->count == top->room) {
		top->left_out++;
		if (growth->history.live_bytes <= top->growth[--at]->history.live_bytes)
			return;
	} else {
		top->count++;
	}
	for (; at && growth->history.live_bytes > top->growth[at - 1]->history.live_bytes; at--)
		top->growth[at] = top->growth[at - 1];
	top->growth[at] = growth;
}

static void oom_tell_stack(struct core *core, struct oom *oom, const struct growth *growth)
{
	const struct core_oom_stack row = {
		.oom = oom->row.id,
		.rank = oom->row.stacks++,
		.take = oom->row.take,
		.process = growth->of->process,
		.kind = growth->place.kind,
		.fn = growth->place.fn,
		.stack_id = growth->place.stack_id,
		.bytes = growth->history.live_bytes,
		.count = growth->history.live_count,
		.recent_bytes = history_recent_bytes(&growth->history, core->now_ns),
	};

	core_tell(core, &row);
}

/* What its stacks hold, and how much of it is of the last minute, by kind. */
static void oom_take_stacks(struct core *core, struct oom *oom, const struct process *process,
			    uint64_t recent[MEMORY_KIND_MAX + 1])
{
	struct oom_top top = {
		.room = process->row.id == oom->row.process ? OOM_STACKS_OF_FAILED
							    : OOM_STACKS_OF_OTHER,
	};
	struct growth *growth;

	list_for_each(growth, &process->growing.growths, link) {
		if (!growth->history.live_bytes ||
		    !oom_counts(oom, growth->place.kind, growth->place.device))
			continue;
		recent[growth->place.kind] += history_recent_bytes(&growth->history, core->now_ns);
		oom_rank(&top, growth);
	}
	for (uint32_t i = 0; i < top.count; i++)
		oom_tell_stack(core, oom, top.growth[i]);
	oom->row.left_out += top.left_out;
}

static void oom_take_allocator(struct oom *oom, const struct process *process,
			       struct core_oom_memory *row)
{
	struct allocator *allocator;
	uint64_t used = 0;

	if (row->kind != MEMORY_TENSOR)
		return;
	list_for_each(allocator, &process->allocators, link) {
		if (allocator->device != oom->row.device)
			continue;
		used += allocator->used_bytes;
		row->reserved_bytes += allocator->bytes;
	}
	if (row->reserved_bytes)
		row->bytes = used;
	if (process->row.id != oom->row.process)
		return;
	oom->row.live_bytes = used;
	oom->row.reserved_bytes = row->reserved_bytes;
}

static void oom_take_accounts(struct core *core, struct oom *oom, const struct process *process,
			      const uint64_t recent[MEMORY_KIND_MAX + 1])
{
	struct account *account;

	list_for_each(account, &process->accounts, link) {
		struct core_oom_memory row = {
			.oom = oom->row.id,
			.take = oom->row.take,
			.process = process->row.id,
			.kind = account->kind,
			.bytes = account->live_bytes,
			.count = account->live_count,
			.recent_bytes = recent[account->kind],
		};

		if (!account->growing || !oom_counts(oom, account->kind, account->device))
			continue;
		oom_take_allocator(oom, process, &row);
		if (row.bytes || row.reserved_bytes)
			core_tell(core, &row);
	}
}

static uint64_t oom_held(const struct oom *oom, const struct process *process)
{
	uint8_t kind = oom->row.kind && oom_is_host(oom->row.kind) ? MEMORY_HOST : MEMORY_DEVICE;

	return account_live_bytes(&process->accounts, oom->row.device, kind);
}

static void oom_take_process(struct core *core, struct oom *oom, const struct process *process)
{
	uint64_t recent[MEMORY_KIND_MAX + 1] = { 0 };

	oom_take_stacks(core, oom, process, recent);
	oom_take_accounts(core, oom, process, recent);
}

/* The failed process first, so that its stacks come first; then the others that hold most. */
static void oom_take(struct core *core, struct oom *oom, const struct process *failed)
{
	const struct process *most[OOM_PROCESSES] = { failed };
	uint64_t held[OOM_PROCESSES] = { UINT64_MAX };
	uint32_t count = 1, at;
	struct process *process;

	oom->taken_ns = core->now_ns;
	oom->row.take++;
	oom->row.stacks = oom->row.left_out = oom->row.processes_left_out = 0;
	oom->row.held_bytes = oom->row.live_bytes = oom->row.reserved_bytes = 0;
	list_for_each(process, &core->processes, link) {
		uint64_t bytes = oom_held(oom, process);

		oom->row.held_bytes += bytes;
		if (process == failed || !bytes)
			continue;
		at = count < OOM_PROCESSES ? count++ : OOM_PROCESSES;
		if (at == OOM_PROCESSES) {
			oom->row.processes_left_out++;
			if (held[--at] >= bytes)
				continue;
		}
		for (; held[at - 1] < bytes; at--) {
			most[at] = most[at - 1];
			held[at] = held[at - 1];
		}
		most[at] = process;
		held[at] = bytes;
	}
	for (uint32_t i = 0; i < count; i++)
		oom_take_process(core, oom, most[i]);
	oom_pieces(failed, &oom->row);
	oom->changed = true;
	oom->told_ns = 0;
}

static void oom_free(struct core *core, struct oom *oom)
{
	quota_give(&core->share[CORE_SHARE_OOMS], oom->user, 1);
	list_remove(&oom->link);
	free(oom);
}

static struct oom *oom_new(struct core *core, const struct process *process)
{
	struct quota *share = &core->share[CORE_SHARE_OOMS];
	struct oom *oom;

	if (!quota_take(share, process->row.user, 1))
		return NULL;
	oom = calloc(1, sizeof(*oom));
	if (!oom) {
		quota_give(share, process->row.user, 1);
		return NULL;
	}
	oom->user = process->row.user;
	oom->row.id = core->next_oom++;
	list_append(&core->ooms, &oom->link);
	return oom;
}

/* One that came to nothing makes room. */
static struct oom *oom_reuse(struct core *core, const struct process *process)
{
	struct oom *oom;

	list_for_each(oom, &core->ooms, link) {
		if (oom->row.process != process->row.id || !oom->row.recovered_ns ||
		    oom->row.reported_ns || core->now_ns - oom->taken_ns < REUSE_NS)
			continue;
		list_remove(&oom->link);
		list_append(&core->ooms, &oom->link);
		return oom;
	}
	return NULL;
}

static struct oom *oom_latest(struct core *core, const struct process *process, uint32_t *ret_count)
{
	struct oom *oom, *latest = NULL;

	*ret_count = 0;
	list_for_each(oom, &core->ooms, link) {
		if (oom->row.process != process->row.id)
			continue;
		latest = oom;
		++*ret_count;
	}
	return latest;
}

/* What a driver said of this device before this call, if that is not too old. */
static void oom_take_room(struct oom *oom, const struct oom_room *room)
{
	if (room->device != oom->row.device || !room->told_ns ||
	    oom->row.last_ns > room->told_ns + ROOM_NS)
		return;
	oom->row.room_ns = room->told_ns;
	oom->row.free_bytes = room->free_bytes;
	oom->row.total_bytes = room->total_bytes;
}

/* NULL: it is only counted. */
static struct oom *oom_begin(struct call *call)
{
	struct core *core = call->core;
	const struct op *op = call->op;
	uint32_t count, id, take;
	struct oom *latest = oom_latest(core, call->process, &count), *oom;

	oom = count < OOM_OF_PROCESS ? oom_new(core, call->process) : NULL;
	if (!oom)
		oom = oom_reuse(core, call->process);
	if (!oom) {
		if (latest) {
			latest->row.skipped++;
			latest->changed = true;
		} else {
			loss_count(core, call->process, LOSS_LIMIT);
		}
		return NULL;
	}
	id = oom->row.id;
	take = oom->row.take;
	oom->row = (struct core_oom){
		.id = id,
		.take = take,
		.process = op->process,
		.tid = op->tid,
		.device = op->device,
		.fn = op->fn,
		.stack_id = op->stack_id,
		.time_ns = call_end_ns(call),
		.last_ns = call_end_ns(call),
	};
	oom->settled = false;
	oom->again = 0;
	return oom;
}

/* A failure that the thread's next one continues, or its next allocation ends. */
static struct oom *oom_open(const struct call *call)
{
	struct oom *oom, *open = NULL;

	list_for_each(oom, &call->core->ooms, link)
		if (oom->row.process == call->op->process && oom->row.tid == call->op->tid &&
		    oom->row.device == call->op->device && !oom->row.recovered_ns &&
		    call->op->start_ns < oom->row.last_ns + SAME_NS)
			open = oom;
	return open;
}

/* Other calls than allocations need memory of unknown size. */
static bool oom_is_alloc(const struct op *op)
{
	return op->kind == OP_ALLOC && op->detail && op->detail <= MEMORY_KIND_MAX &&
	       op->detail != MEMORY_TENSOR;
}

static uint8_t oom_kind(const struct op *op)
{
	return oom_is_alloc(op) ? op->detail : 0;
}

static uint64_t oom_bytes(const struct op *op)
{
	return oom_is_alloc(op) ? op->bytes : 0;
}

static bool oom_is_same(const struct oom *oom, const struct op *op)
{
	return oom->row.kind == oom_kind(op) && oom->row.bytes == oom_bytes(op);
}

static void oom_failed(struct call *call)
{
	const struct op *op = call->op;
	struct oom *oom = oom_open(call);

	if (oom && oom_is_same(oom, op)) {
		oom->row.last_ns = call_end_ns(call);
		oom->row.failures++;
		oom->again++;
		oom->changed = true;
		return;
	}
	oom = oom_begin(call);
	if (!oom)
		return;
	oom->row.kind = oom_kind(op);
	oom->row.bytes = oom_bytes(op);
	oom->row.failures = 1;
	oom_take_room(oom, &call->process->room);
	oom_take(call->core, oom, call->process);
}

/* The thread gets as much as it failed to get before. */
static void oom_recovered(struct call *call)
{
	struct oom *oom = oom_open(call);

	if (!oom || !oom->row.bytes || call->op->bytes < oom->row.bytes ||
	    oom_is_host(oom->row.kind) != oom_is_host(call->op->detail))
		return;
	oom->row.recovered_ns = call_end_ns(call);
	oom->changed = true;
}

void oom_look(struct call *call)
{
	const struct op *op = call->op;

	if (op->result == OOM_RESULT)
		oom_failed(call);
	else if (!op->result && op->flags & OP_RETURNED && !list_empty(&call->core->ooms) &&
		 oom_is_alloc(op))
		oom_recovered(call);
}

/* What failed since the last report was for this one. */
static struct oom *oom_begin_after(struct call *call, struct oom *before)
{
	struct oom *oom = oom_begin(call);

	if (!oom || !before || oom == before)
		return oom;
	oom->row.kind = before->row.kind;
	oom->row.fn = before->row.fn;
	oom->row.bytes = before->row.bytes;
	oom->row.failures = before->again;
	before->row.failures -= before->again;
	before->again = 0;
	before->changed = true;
	return oom;
}

void oom_reported(struct call *call)
{
	const struct ts_api *api = &call->event->api;
	struct oom *oom;

	if ((uint8_t)api->device != call->op->detail)
		return;
	call->op->device = call_framework_device(call->event);
	oom = oom_open(call);
	if (!oom || (oom->row.reported_ns && oom->row.wanted_bytes != call->op->bytes))
		oom = oom_begin_after(call, oom);
	if (!oom)
		return;
	oom->row.last_ns = call_end_ns(call);
	oom->row.reports++;
	oom->again = 0;
	oom->changed = true;
	if (oom->row.reported_ns)
		return;
	oom->row.reported_ns = call->op->start_ns;
	oom->row.wanted_bytes = call->op->bytes;
	oom->row.stack_id = call->op->stack_id ?: oom->row.stack_id;
	oom_take_room(oom, &call->process->room);
	oom_take(call->core, oom, call->process);
	oom->row.live_bytes = bytes_bounded(api->source);
	oom->row.reserved_bytes = bytes_bounded(api->handle);
}

/* Programs ask when they have failed: then it says what was free at the time. */
void oom_room(struct call *call)
{
	struct oom *oom = oom_open(call);

	if (call->op->flags & OP_UNREAD)
		return;
	call->process->room = (struct oom_room){
		.told_ns = call_end_ns(call),
		.free_bytes = bytes_bounded(call->op->address),
		.total_bytes = bytes_bounded(call->op->handle),
		.device = call->op->device,
	};
	call_shows_size(call, call->op->handle);
	if (!oom || oom->row.room_ns >= oom->row.time_ns)
		return;
	oom_take_room(oom, &call->process->room);
	oom->changed = true;
}

static void oom_settle(struct oom *oom, uint64_t now_ns)
{
	if (oom->settled)
		return;
	if (!oom->row.reported_ns && !oom->row.recovered_ns &&
	    now_ns < oom->row.last_ns + SETTLE_NS)
		return;
	oom->settled = oom->changed = true;
	oom->told_ns = 0;
	oom->row.news = !oom->row.recovered_ns;
}

void oom_checkpoint(struct core *core)
{
	uint64_t now_ns = core->now_ns;
	struct oom *oom;

	list_for_each(oom, &core->ooms, link) {
		bool over = now_ns > oom->row.last_ns + RECENT_NS;

		oom_settle(oom, now_ns);
		if (oom->changed && (over || now_ns >= oom->told_ns + TELL_NS)) {
			core_tell(core, &oom->row);
			oom->row.news = oom->changed = false;
			oom->told_ns = now_ns;
		}
		if (over)
			oom_free(core, oom);
	}
}

void oom_release_all(struct core *core)
{
	struct oom *oom;

	list_for_each(oom, &core->ooms, link)
		oom_free(core, oom);
}
