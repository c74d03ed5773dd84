/* Core: the door of the model. Every record is copied, checked and only then believed; a table says
 * who takes it. Here is also what happens as time passes, and what outlives a daemon. */
#include "core/core.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/call.h"

/* No clock shows more in a century; and what is not yet over cannot be an hour ahead. */
#define TIME_MAX_NS   (1ull << 62)
#define TIME_AHEAD_NS 3600000000000ull

/* `process` is NULL only for a record that announces one. */
static const struct record_kind {
	int (*take)(struct core *core, struct process *process, const struct ts_event *event);
	bool kernel_only; /* not for injected libraries to say */
	bool announces;
} record_table[] = {
	[TS_EVENT_API] = { .take = call_ingest },
	[TS_EVENT_PROCESS] = { .take = process_announced, .kernel_only = true, .announces = true },
	[TS_EVENT_EXEC] = { .take = process_executed, .kernel_only = true, .announces = true },
	[TS_EVENT_EXIT] = { .take = process_exited, .kernel_only = true },
};

#define RECORD_KINDS (sizeof(record_table) / sizeof(record_table[0]))

CLEANUP_DEFINE(struct core, core_free)

static bool core_config_ok(const struct core_config *config)
{
	return config->max_processes && config->max_threads && config->max_streams &&
	       config->max_events && config->max_pending && config->max_rollups &&
	       config->max_allocations && call_table_ok(&config->functions);
}

int core_new(const struct core_config *config, struct core **ret)
{
	_cleanup_(core_freep) struct core *core = NULL;
	int r;

	if (!core_config_ok(config))
		return -EINVAL;
	core = calloc(1, sizeof(*core));
	if (!core)
		return -ENOMEM;
	core->config = *config;
	core->next_process = config->next_process ? config->next_process : 1;
	core->next_stream = config->next_stream ? config->next_stream : 1;
	core->next_allocation = config->next_allocation ? config->next_allocation : 1;
	core->next_capture = 1;
	list_init(&core->processes);
	list_init(&core->threads);
	list_init(&core->states);
	list_init(&core->pendings);
	list_init(&core->changed_allocations);
	list_init(&core->changed_accounts);
	list_init(&core->superseded);
	core->thread_pool = POOL_OF(struct thread);
	core->gpu_event_pool = POOL_OF(struct gpu_event);
	core->pending_pool = POOL_OF(struct pending);
	core->allocation_pool = POOL_OF(struct allocation);
	r = rollup_init(core);
	if (r < 0)
		return r;
	*ret = TAKE(core);
	return 0;
}

struct core *core_free(struct core *core)
{
	struct process *process;

	if (!core)
		return NULL;
	list_for_each(process, &core->processes, link)
		process_free(process);
	memory_release_all(core);
	rollup_release(core);
	pool_clear(&core->thread_pool);
	pool_clear(&core->gpu_event_pool);
	pool_clear(&core->pending_pool);
	map_clear(&core->process_by_pid);
	map_clear(&core->process_by_id);
	map_clear(&core->thread_by_tid);
	map_clear(&core->stream_by_key);
	map_clear(&core->stream_by_id);
	map_clear(&core->gpu_event_by_handle);
	free(core);
	return NULL;
}

static int core_bad(struct core *core, struct process *process)
{
	loss_count(core, process, LOSS_BAD_EVENT);
	return INGEST_BAD;
}

static int core_stray(struct core *core)
{
	loss_count(core, NULL, LOSS_STRAY);
	return INGEST_STRAY;
}

static bool core_time_ok(const struct core *core, uint64_t ns)
{
	return ns && ns < TIME_MAX_NS && (!core->ticked_ns || ns < core->ticked_ns + TIME_AHEAD_NS);
}

static bool core_event_ok(const struct core *core, const struct ts_event *event)
{
	if (!event->tgid || !core_time_ok(core, event->start_ns))
		return false;
	return !(event->flags & TS_EVENT_RETURNED) ||
	       (event->end_ns >= event->start_ns && core_time_ok(core, event->end_ns));
}

static void core_see_time(struct core *core, uint64_t ns)
{
	if (ns > core->now_ns)
		core->now_ns = ns;
}

static int core_take_event(struct core *core, const struct core_origin *origin,
			   const struct ts_event *event)
{
	const struct record_kind *kind = &record_table[event->kind];
	struct process *process = process_by_pid(core, event->tgid);
	uint64_t limited = core->stats.limited;
	int r;

	if (!core_event_ok(core, event) || (kind->kernel_only && origin->pid))
		return core_bad(core, process);
	if (!process && !kind->announces)
		return core_stray(core);
	core_see_time(core, event->flags & TS_EVENT_RETURNED ? event->end_ns : event->start_ns);
	r = kind->take(core, process, event);
	return r == INGEST_OK && core->stats.limited != limited ? INGEST_LIMIT : r;
}

/* The one record without a fixed size. */
static int core_take_stack(struct core *core, const void *record, size_t size)
{
	_Alignas(struct ts_stack) char
		copy[sizeof(struct ts_stack) + TS_STACK_FRAMES_MAX * sizeof(uint64_t)];
	struct ts_stack *stack = (struct ts_stack *)copy;
	struct process *process;

	if (size < sizeof(*stack))
		return core_bad(core, NULL);
	memcpy(copy, record, size < sizeof(copy) ? size : sizeof(copy));
	process = process_by_pid(core, stack->tgid);
	if (!stack->id || !stack->frame_count || stack->frame_count > TS_STACK_FRAMES_MAX ||
	    size < sizeof(*stack) + stack->frame_count * sizeof(stack->frame[0]) ||
	    !core_time_ok(core, stack->time_ns))
		return core_bad(core, process);
	if (!process)
		return core_stray(core);
	core_see_time(core, stack->time_ns);
	core->config.sink.stack(core->config.data, &process->row, stack);
	return INGEST_OK;
}

int core_ingest(struct core *core, const struct core_origin *origin, const void *record,
		size_t size)
{
	struct ts_event event;

	core->stats.events++;
	if (size < offsetof(struct ts_event, start_ns))
		return core_bad(core, NULL);
	memcpy(&event, record, size < sizeof(event) ? size : sizeof(event));
	if (origin->pid && origin->pid != event.tgid)
		return core_bad(core, process_by_pid(core, origin->pid));
	if (event.kind == TS_EVENT_STACK)
		return core_take_stack(core, record, size);
	if (size < sizeof(event) || event.kind >= RECORD_KINDS || !record_table[event.kind].take)
		return core_bad(core, NULL);
	return core_take_event(core, origin, &event);
}

void core_tick(struct core *core, uint64_t now_ns)
{
	core_see_time(core, now_ns);
	if (now_ns > core->ticked_ns)
		core->ticked_ns = now_ns;
	timeline_tick(core, now_ns);
	memory_tick(core, now_ns);
}

void core_checkpoint(struct core *core, uint64_t now_ns)
{
	core_see_time(core, now_ns);
	state_checkpoint(core, now_ns);
	memory_checkpoint(core);
	rollup_checkpoint(core);
	loss_checkpoint(core);
}

void core_flush(struct core *core, uint64_t now_ns)
{
	core_see_time(core, now_ns);
	timeline_flush(core, now_ns);
	state_flush(core, now_ns);
	core_checkpoint(core, now_ns);
}

void core_lose(struct core *core, const struct core_loss *loss)
{
	core->config.sink.loss(core->config.data, loss);
}

int core_restore_process(struct core *core, const struct core_process *row)
{
	if (!row->id || !row->pid || row->exit_ns)
		return -EINVAL;
	if (process_by_pid(core, row->pid) || process_by_id(core, row->id))
		return -EEXIST;
	return process_add(core, row) ? 0 : -ENOSPC;
}

int core_restore_stream(struct core *core, const struct core_stream *row)
{
	struct process *process = process_by_id(core, row->process);

	if (!process)
		return -ENOENT;
	if (!row->id || row->destroyed_ns)
		return -EINVAL;
	if (stream_by_id(core, row->id))
		return -EEXIST;
	return stream_add(core, process, row) ? 0 : -ENOSPC;
}

int core_restore_allocation(struct core *core, const struct core_allocation *row)
{
	struct process *process = process_by_id(core, row->process);

	return process ? memory_restore(core, process, row) : -ENOENT;
}

int core_restore_peak(struct core *core, const struct core_memory *row)
{
	struct process *process = process_by_id(core, row->process);

	return process ? memory_restore_peak(core, process, row) : -ENOENT;
}

const struct core_process *core_process_by_pid(const struct core *core, uint32_t pid)
{
	const struct process *process = process_by_pid(core, pid);

	return process ? &process->row : NULL;
}

const struct core_process *core_process_by_id(const struct core *core, uint32_t id)
{
	const struct process *process = process_by_id(core, id);

	return process ? &process->row : NULL;
}

void core_process_gone(struct core *core, uint32_t pid, uint64_t now_ns)
{
	struct process *process = process_by_pid(core, pid);

	core_see_time(core, now_ns);
	if (process)
		process_end(core, process, now_ns, 0);
}

void core_stats(const struct core *core, struct core_stats *ret)
{
	*ret = core->stats;
	ret->processes = core->process_by_id.count;
	ret->streams = core->stream_by_id.count;
	ret->allocations = core->allocation_by_address.count;
	ret->pending = core->pending_pool.used;
}
