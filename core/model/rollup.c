/* Rollup: calls and device work, added up by second and by what they have in common, until the
 * checkpoint hands the rows over. At its user's limit, new ones of a process share a row without
 * stack and stream; if even too many of those are taken, it is not added up. Both are counted. */
#include "core/model/rollup.h"

#include <string.h>

#include "core/base/time.h"
#include "core/model/model.h"

void rollup_init(struct core *core)
{
	core->calls = SUMS_OF(struct core_rollup, calls);
	core->work = SUMS_OF(struct core_work, count);
}

/* A new one only if the user of the process has room for it. */
static void *rollup_row(struct core *core, struct sums *sums, enum core_share share,
			const void *key, uint32_t process_id)
{
	void *row = sums_get(sums, key, 0);
	struct process *process;

	if (row)
		return row;
	process = process_by_id(core, process_id);
	if (!quota_take(&core->share[share], process ? process->row.user : 0, 1))
		return NULL;
	return sums_get(sums, key, UINT32_MAX);
}

static struct core_rollup *rollup_call_row(struct core *core, struct core_rollup *key)
{
	struct core_rollup *row =
		rollup_row(core, &core->calls, CORE_SHARE_CALLS, key, key->process);

	if (row)
		return row;
	loss_count(core, process_by_id(core, key->process), LOSS_LIMIT);
	key->stack_id = 0;
	key->stream = 0;
	return rollup_row(core, &core->calls, CORE_SHARE_PLAIN_CALLS, key, key->process);
}

static void rollup_time(struct core_rollup *row, uint64_t ns)
{
	if (!row->timed++ || ns < row->min_ns)
		row->min_ns = ns;
	if (ns > row->max_ns)
		row->max_ns = ns;
	row->total_ns += ns;
}

/* Bytes that a call only requested were neither moved nor allocated. Allocations and frees that did
 * not return do not say what they did; what a framework reports has happened. */
static uint64_t rollup_bytes(const struct op *op)
{
	bool memory = (op->kind == OP_ALLOC || op->kind == OP_FREE) && op->detail != MEMORY_TENSOR;

	if (op->result || op->flags & OP_CAPTURED || (memory && !(op->flags & OP_RETURNED)))
		return 0;
	return op->bytes;
}

void rollup_add_call(struct core *core, const struct op *op)
{
	struct core_rollup key, *row;

	memset(&key, 0, sizeof(key)); /* padding too */
	key.second = op->start_ns / NS_PER_S;
	key.stack_id = op->stack_id;
	key.process = op->process;
	key.stream = op->stream;
	key.result = op->result;
	key.fn = op->fn;
	key.kind = op->kind;
	key.detail = op->detail;
	key.device = op->device;
	row = rollup_call_row(core, &key);
	if (!row)
		return;
	row->calls++;
	row->captured += !!(op->flags & OP_CAPTURED);
	row->bytes += rollup_bytes(op);
	if (op->end_ns)
		rollup_time(row, op->end_ns - op->start_ns);
}

void rollup_add_freed(struct core *core, const struct core_allocation *allocation, uint64_t time_ns)
{
	struct core_rollup key, *row;

	memset(&key, 0, sizeof(key));
	key.second = time_ns / NS_PER_S;
	key.stack_id = allocation->stack_id;
	key.process = allocation->process;
	key.fn = allocation->fn;
	key.kind = OP_ALLOC;
	key.detail = allocation->kind;
	key.device = allocation->device;
	key.freed = true;
	row = rollup_call_row(core, &key);
	if (!row)
		return;
	row->calls++;
	row->bytes += allocation->bytes;
}

static struct core_work *rollup_work_row(struct core *core, struct core_work *key)
{
	struct core_work *row = rollup_row(core, &core->work, CORE_SHARE_WORK, key, key->process);

	if (row)
		return row;
	loss_count(core, process_by_id(core, key->process), LOSS_LIMIT);
	key->stack_id = 0;
	key->stream = 0;
	key->graph = 0;
	return rollup_row(core, &core->work, CORE_SHARE_PLAIN_WORK, key, key->process);
}

static uint8_t rollup_work_kind(const struct op *op)
{
	if (op->kind == OP_LAUNCH)
		return op->graph ? OP_GRAPH : OP_KERNEL;
	return op->kind;
}

void rollup_add_work(struct core *core, const struct op *op)
{
	uint64_t ns = op->gpu_end_ns - op->gpu_start_ns, delay_ns = 0;
	bool own = !(op->flags & (OP_NODE | OP_NO_CALL));
	struct core_work key, *row;

	memset(&key, 0, sizeof(key));
	key.second = op->gpu_end_ns / NS_PER_S;
	key.name = op->name;
	key.stack_id = op->stack_id;
	key.process = op->process;
	key.stream = op->stream;
	key.graph = op->graph;
	key.bucket = work_bucket(ns);
	key.kind = rollup_work_kind(op);
	key.detail = key.kind == OP_COPY || op->kind == OP_GRAPH ? op->detail : 0;
	key.device = op->device;
	row = rollup_work_row(core, &key);
	if (!row)
		return;
	if (!row->count++ || ns < row->min_ns)
		row->min_ns = ns;
	if (ns > row->max_ns)
		row->max_ns = ns;
	row->total_ns += ns;
	row->bytes += op->bytes;
	if (!own)
		return;
	if (op->gpu_start_ns > op->start_ns)
		delay_ns = op->gpu_start_ns - op->start_ns;
	row->delay_ns += delay_ns;
	row->delays[work_delay(delay_ns)]++;
}

void rollup_checkpoint(struct core *core)
{
	for (uint32_t i = 0; i < core->work.count; i++)
		core_tell(core, (const struct core_work *)sums_row(&core->work, i));
	for (uint32_t i = 0; i < core->calls.count; i++)
		core_tell(core, (const struct core_rollup *)sums_row(&core->calls, i));
	sums_empty(&core->work);
	sums_empty(&core->calls);
	for (int share = CORE_SHARE_CALLS; share <= CORE_SHARE_PLAIN_WORK; share++)
		quota_release(&core->share[share]);
}

void rollup_release(struct core *core)
{
	sums_release(&core->calls);
	sums_release(&core->work);
}
