/* Core: the entry to the model. Every record is copied, checked and only then believed; a table
 * says which function handles it. What happens as time passes, and what survives a daemon, is here
 * too. */
#include "core/model/core.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/time.h"
#include "core/model/call.h"
#include "core/model/correlate.h"
#include "core/model/gpu_pool.h"
#include "core/model/mempool.h"
#include "core/model/name.h"
#include "core/model/range.h"
#include "core/model/track.h"

/* No clock shows more than a century; and nothing unfinished can be an hour ahead. */
#define TIME_MAX_NS   (1ull << 62)
#define TIME_AHEAD_NS 3600000000000ull
/* The model's clock goes with the daemon's ticks, if with nothing else. */
#define CALL_AHEAD_NS 10000000000ull

#define PER_STEP_MAX  9e18 /* bytes: they fit into 63 bits */

/* Names of all processes: so many times those of one. */
#define NAMES_FACTOR 16ull

/* Requirements on the times of a record; 0 is none. */
enum record_times {
	TIMES_CALL, /* end only with TS_EVENT_RETURNED */
	TIMES_SPAN, /* both */
	TIMES_OPEN, /* the end may be 0 */
	TIMES_WORK, /* none, one or in the wrong order: then the device's are unusable */
};

static int core_take_backward(struct core *core, struct process *process,
			      const struct ts_event *event)
{
	const struct core_backward backward = {
		.id = event->stack_id,
		.process = process->row.id,
		.stack_id = event->backward.stack,
		.forward_id = event->backward.forward,
		.passed = event->backward.passed != 0,
	};

	core_tell(core, &backward);
	return INGEST_OK;
}

/* `process` is NULL only for a record that announces one. */
static const struct record_kind {
	int (*take)(struct core *core, struct process *process, const struct ts_event *event);
	enum record_times times;
	bool kernel_only; /* injected libraries may not send it */
	bool library_only;
	bool announces;
} record_table[] = {
#define KERNEL_ONLY  .kernel_only = true
#define LIBRARY_ONLY .library_only = true
	[TS_EVENT_API] = { call_ingest, KERNEL_ONLY },
	[TS_EVENT_PROCESS] = { process_announced, KERNEL_ONLY, .announces = true },
	[TS_EVENT_EXEC] = { process_executed, KERNEL_ONLY, .announces = true },
	[TS_EVENT_EXIT] = { process_exited, KERNEL_ONLY },
	[TS_EVENT_KERNEL] = { correlate_work, TIMES_WORK, LIBRARY_ONLY },
	[TS_EVENT_COPY] = { correlate_work, TIMES_WORK, LIBRARY_ONLY },
	[TS_EVENT_SET] = { correlate_work, TIMES_WORK, LIBRARY_ONLY },
	[TS_EVENT_GRAPH] = { correlate_work, TIMES_WORK, LIBRARY_ONLY },
	[TS_EVENT_CALL] = { correlate_call, TIMES_OPEN, LIBRARY_ONLY },
	[TS_EVENT_SYNC] = { range_sync, TIMES_SPAN, LIBRARY_ONLY },
	[TS_EVENT_MEMORY] = { gpu_pool_take, TIMES_CALL, LIBRARY_ONLY },
	[TS_EVENT_CONTEXT] = { track_context, TIMES_CALL, LIBRARY_ONLY },
	[TS_EVENT_DEVICE] = { exact_device, TIMES_CALL, LIBRARY_ONLY },
	[TS_EVENT_RANGE] = { range_take, TIMES_CALL, LIBRARY_ONLY },
	[TS_EVENT_OVERHEAD] = { range_overhead, TIMES_SPAN, LIBRARY_ONLY },
	[TS_EVENT_LOST] = { exact_lost, TIMES_OPEN, LIBRARY_ONLY },
	[TS_EVENT_COLLECT] = { exact_collect, TIMES_CALL, LIBRARY_ONLY },
	[TS_EVENT_COST] = { exact_cost, TIMES_SPAN, LIBRARY_ONLY },
	[TS_EVENT_BACKWARD] = { core_take_backward, KERNEL_ONLY },
};

#define RECORD_KINDS ARRAY_SIZE(record_table)

static bool core_config_ok(const struct core_config *config)
{
	return config->max_processes && config->max_threads && config->max_streams &&
	       config->max_events && config->max_pending && config->max_rollups &&
	       config->max_allocations && config->max_waiting && config->max_names &&
	       config->max_edges && call_table_ok(&config->functions);
}

/* Names are bounded by process, too. */
static void core_share_out(struct core *core)
{
	const struct core_config *config = &core->config;
	const uint64_t total[CORE_SHARES] = {
		[CORE_SHARE_PROCESSES] = config->max_processes,
		[CORE_SHARE_THREADS] = config->max_threads,
		[CORE_SHARE_STREAMS] = config->max_streams,
		[CORE_SHARE_EVENTS] = config->max_events,
		[CORE_SHARE_ALLOCATIONS] = config->max_allocations,
		[CORE_SHARE_NAMES] = config->max_names * NAMES_FACTOR,
		[CORE_SHARE_CALLS] = config->max_rollups,
		[CORE_SHARE_WORK] = config->max_rollups,
		[CORE_SHARE_PLAIN_CALLS] = config->max_rollups,
		[CORE_SHARE_PLAIN_WORK] = config->max_rollups,
		[CORE_SHARE_RANGES] = RANGES_TOTAL,
		[CORE_SHARE_GROWTHS] = config->max_growths,
		[CORE_SHARE_OOMS] = OOM_RECENT,
		[CORE_SHARE_COMMUNICATORS] = COMMUNICATORS_TOTAL,
		[CORE_SHARE_COLLECTIVES] = COLLECTIVES_TOTAL,
		[CORE_SHARE_COLLECTIVE_ROWS] = config->max_rollups,
		[CORE_SHARE_PENDING] = config->max_pending,
		[CORE_SHARE_WAITING] = config->max_waiting,
		[CORE_SHARE_EDGES] = config->max_edges,
	};

	for (int i = 0; i < CORE_SHARES; i++)
		core->share[i].total = total[i];
}

int core_new(const struct core_config *config, struct core **ret)
{
	struct core *core;

	if (!core_config_ok(config))
		return -EINVAL;
	core = calloc(1, sizeof(*core));
	if (!core)
		return -ENOMEM;
	core->config = *config;
	core->next_process = config->next_process ? config->next_process : 1;
	core->next_stream = config->next_stream ? config->next_stream : 1;
	core->next_allocation = config->next_allocation ? config->next_allocation : 1;
	core->next_oom = config->next_oom ? config->next_oom : 1;
	core->next_capture = 1;
	core_share_out(core);
	list_init(&core->processes);
	list_init(&core->states);
	list_init(&core->timelines);
	list_init(&core->exacts);
	list_init(&core->ooms);
	core->thread_pool = POOL_OF(struct thread);
	core->gpu_event_pool = POOL_OF(struct gpu_event);
	core->pending_pool = POOL_OF(struct pending);
	memory_init(core);
	growths_init(&core->growths, &core->share[CORE_SHARE_GROWTHS]);
	core->ticket_pool = POOL_OF(struct ticket);
	core->answer_pool = POOL_OF(struct answer);
	rollup_init(core);
	core->collectives = SUMS_OF(struct core_collective, calls);
	*ret = core;
	return 0;
}

struct core *core_free(struct core *core)
{
	struct process *process;

	if (!core)
		return NULL;
	list_for_each(process, &core->processes, link)
		process_free(core, process);
	memory_release_all(core);
	growths_release(&core->growths);
	oom_release_all(core);
	rollup_release(core);
	sums_release(&core->collectives);
	for (int i = 0; i < CORE_SHARES; i++)
		quota_release(&core->share[i]);
	pool_clear(&core->thread_pool);
	pool_clear(&core->gpu_event_pool);
	pool_clear(&core->pending_pool);
	pool_clear(&core->ticket_pool);
	pool_clear(&core->answer_pool);
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

static bool core_span_ok(const struct core *core, const struct ts_event *event)
{
	return core_time_ok(core, event->start_ns) && core_time_ok(core, event->end_ns) &&
	       event->end_ns >= event->start_ns;
}

static bool core_times_ok(const struct core *core, const struct ts_event *event,
			  enum record_times times)
{
	switch (times) {
	case TIMES_SPAN:
		return core_span_ok(core, event);
	case TIMES_OPEN:
		return event->end_ns ? core_span_ok(core, event)
				     : core_time_ok(core, event->start_ns);
	case TIMES_WORK:
		return !event->start_ns || event->end_ns < event->start_ns ||
		       core_span_ok(core, event);
	default:
		return event->flags & TS_EVENT_RETURNED ? core_span_ok(core, event)
							: core_time_ok(core, event->start_ns);
	}
}

static void core_see_time(struct core *core, uint64_t ns)
{
	if (ns > core->now_ns)
		core->now_ns = ns;
}

/* The model's clock is the kernel's: a process cannot move it. */
static void core_see_event(struct core *core, const struct core_origin *origin,
			   struct process *process, const struct ts_event *event)
{
	if (!origin->pid)
		core_see_time(core,
			      event->flags & TS_EVENT_RETURNED ? event->end_ns : event->start_ns);
	else if (process->exact)
		process->exact->heard_ns = core->now_ns;
}

/* From a library: without what only a return, or the kernel, can tell. Stacks were looked at by who
 * says that it may hand in calls. */
static bool core_call_ok(const struct core *core, const struct core_origin *origin,
			 const struct ts_event *event)
{
	const struct function_table *functions = &core->config.functions;

	const uint16_t flags = TS_EVENT_PER_THREAD | TS_EVENT_UNREAD | TS_EVENT_STACK_LOST;

	if (!origin->calls || event->start_ns > core->now_ns + CALL_AHEAD_NS)
		return false;
	if (event->kind == TS_EVENT_BACKWARD)
		return true;
	return event->kind == TS_EVENT_API && event->fn < functions->count &&
	       functions->row[event->fn].hot && !event->end_ns && !event->result &&
	       !(event->flags & ~flags);
}

static int core_take_event(struct core *core, const struct core_origin *origin,
			   const struct ts_event *event)
{
	const struct record_kind *kind = &record_table[event->kind];
	struct process *process = process_by_pid(core, event->tgid);
	uint64_t limited = core->stats.limited;
	int r;

	if (!event->tgid || !core_times_ok(core, event, kind->times) ||
	    (origin->pid ? kind->kernel_only && !core_call_ok(core, origin, event)
			 : kind->library_only))
		return core_bad(core, process);
	/* Its end was noticed before it was reported: nothing is missing. */
	if (!process && event->kind == TS_EVENT_EXIT)
		return INGEST_OK;
	if (!process && !kind->announces)
		return core_stray(core);
	core_see_event(core, origin, process, event);
	r = kind->take(core, process, event);
	/* What the programs lose, they count themselves. */
	if (origin->calls && event->flags & TS_EVENT_STACK_LOST)
		loss_add(process, LOSS_STACK, 1, event->start_ns, event->start_ns);
	return r == INGEST_OK && core->stats.limited != limited ? INGEST_LIMIT : r;
}

/* The library chooses the number, and the text. */
static int core_take_name(struct core *core, const struct core_origin *origin, const void *record,
			  size_t size)
{
	struct process *process;
	struct ts_name name;

	if (size < sizeof(name))
		return core_bad(core, NULL);
	memcpy(&name, record, sizeof(name));
	process = process_by_pid(core, name.tgid);
	if (!origin->pid || !name.id || !name.length || name.length > TS_NAME_MAX ||
	    size < sizeof(name) + name.length)
		return core_bad(core, process);
	if (!process)
		return core_stray(core);
	return name_take(core, process, name.id, (const char *)record + sizeof(name), name.length);
}

/* Where they are, frames of Python follow a whole array of the others. */
static size_t core_stack_size(const struct ts_stack *stack)
{
	size_t frames = stack->python_count ? TS_STACK_FRAMES_MAX : stack->frame_count;

	return sizeof(*stack) + frames * sizeof(stack->frame[0]) +
	       stack->python_count * sizeof(struct ts_python_frame);
}

/* Frames have one size, but their number varies. */
static int core_take_stack(struct core *core, const void *record, size_t size)
{
	_Alignas(struct ts_stack) char copy[sizeof(struct ts_stack) +
					    TS_STACK_FRAMES_MAX * sizeof(uint64_t) +
					    TS_STACK_PYTHON_MAX * sizeof(struct ts_python_frame)];
	struct ts_stack *stack = (struct ts_stack *)copy;
	struct process *process;

	if (size < sizeof(*stack))
		return core_bad(core, NULL);
	memcpy(copy, record, size < sizeof(copy) ? size : sizeof(copy));
	process = process_by_pid(core, stack->tgid);
	if (!stack->id || stack->end >= TS_END_COUNT || !stack->frame_count ||
	    stack->frame_count > TS_STACK_FRAMES_MAX || stack->python_count > TS_STACK_PYTHON_MAX ||
	    size < core_stack_size(stack) || !core_time_ok(core, stack->time_ns))
		return core_bad(core, process);
	if (!process)
		return core_stray(core);
	core_see_time(core, stack->time_ns);
	core_tell(core, &(struct core_stack){ &process->row, stack });
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
	if (event.kind == TS_EVENT_NAME)
		return core_take_name(core, origin, record, size);
	if (size < sizeof(event) || event.kind >= RECORD_KINDS || !record_table[event.kind].take)
		return core_bad(core, NULL);
	return core_take_event(core, origin, &event);
}

void core_tick(struct core *core, uint64_t now_ns)
{
	core_see_time(core, now_ns);
	if (now_ns > core->ticked_ns)
		core->ticked_ns = now_ns;
	process_tick(core, now_ns);
	exact_tick(core, now_ns);
	timeline_tick(core, now_ns);
	superseded_tick(&core->superseded, now_ns);
}

_Static_assert(CORE_AGES == HISTORY_AGES + 1, "it has room for all ages");

static uint64_t core_per_step(const struct growing *growing, double per_hour, uint64_t now_ns)
{
	return (uint64_t)fmin(per_hour / (3600.0 * NS_PER_S) * growing_step_ns(growing, now_ns),
			      PER_STEP_MAX);
}

static void core_tell_growths(struct core *core, uint64_t now_ns)
{
	struct verdict verdict;
	struct growth *growth;

	growths_turn(&core->growths);
	while ((growth = growths_next(&core->growths, now_ns, &verdict))) {
		struct core_growth row = {
			.process = growth->of->process,
			.device = growth->place.device,
			.kind = growth->place.kind,
			.fn = growth->place.fn,
			.stack_id = growth->place.stack_id,
			.verdict = verdict.kind,
			.confidence = verdict.confidence,
			.since_ns = growth->history.sure_ns,
			.ready_ns = verdict.needs_ns ? now_ns + verdict.needs_ns : 0,
			.told_ns = now_ns,
			.birth_ns = growth->history.last_birth_ns,
			.allocations = growth->history.allocations,
			.frees = growth->history.frees,
			.usual_ns = verdict.usual_ns,
			.kept = verdict.kept,
			.kept_bytes = verdict.kept_bytes,
			.grows_ns = verdict.since_ns,
			.bytes_per_hour = (uint64_t)verdict.bytes_per_hour,
			.bytes_per_step = core_per_step(growth->of, verdict.bytes_per_hour, now_ns),
			.laplace_ppm = (int64_t)(verdict.laplace * 1e6),
			.peak_bytes = growth->history.peak_bytes,
			.last_ns = growth->history.last_ns,
			.calls = growth->of->calls,
			.last_calls = growth->history.last_activity,
		};

		history_ages(&growth->history, row.ages);
		core_tell(core, &row);
	}
}

void core_checkpoint(struct core *core, uint64_t now_ns)
{
	core_see_time(core, now_ns);
	exact_checkpoint(core, now_ns);
	state_checkpoint(core, now_ns);
	memory_checkpoint(core);
	mempool_checkpoint(core);
	oom_checkpoint(core);
	core_tell_growths(core, now_ns);
	rollup_checkpoint(core);
	collective_checkpoint(core);
	loss_checkpoint(core);
}

void core_trim(struct core *core)
{
	pool_trim(&core->thread_pool);
	pool_trim(&core->gpu_event_pool);
	pool_trim(&core->pending_pool);
	pool_trim(&core->allocation_pool);
	pool_trim(&core->block_pool);
	pool_trim(&core->ticket_pool);
	pool_trim(&core->answer_pool);
}

void core_flush(struct core *core, uint64_t now_ns)
{
	core_see_time(core, now_ns);
	process_tick(core, UINT64_MAX);
	exact_flush(core, now_ns);
	range_flush(core, now_ns);
	timeline_flush(core, now_ns);
	state_flush(core, now_ns);
	core_checkpoint(core, now_ns);
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

int core_restore_growth(struct core *core, const struct core_growth *row)
{
	struct process *process = process_by_id(core, row->process);
	const struct growth_place place = {
		.stack_id = row->stack_id,
		.fn = row->fn,
		.device = row->device,
		.kind = row->kind,
	};
	const struct history_past past = {
		.since_ns = row->since_ns,
		.told_ns = row->told_ns,
		.birth_ns = row->birth_ns,
		.allocations = row->allocations,
		.frees = row->frees,
		.last_ns = row->last_ns,
		.peak_bytes = row->peak_bytes,
		.activity = row->calls,
		.last_activity = row->last_calls,
		.ages = row->ages,
	};

	if (!process)
		return -ENOENT;
	return growths_resume(&core->growths, &process->growing, &place, &past);
}

int core_restore_peak(struct core *core, const struct core_memory *row)
{
	struct process *process = process_by_id(core, row->process);

	return process ? memory_restore_peak(core, process, row) : -ENOENT;
}

int core_restore_collect(struct core *core, uint32_t process, uint64_t since_ns)
{
	struct process *found = process_by_id(core, process);

	return found ? exact_restore(core, found, since_ns) : -ENOENT;
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
		process_gone(core, process, now_ns);
}

bool core_allocator_told(struct core *core, const struct core_sums *sums)
{
	return mempool_told(core, sums);
}

void core_set_light(struct core *core, uint32_t pid, bool light)
{
	struct process *process = process_by_pid(core, pid);

	if (!process || process->row.light == light)
		return;
	process->row.light = light;
	core_tell(core, &process->row);
}

void core_collect_gone(struct core *core, uint32_t pid, uint64_t now_ns)
{
	struct process *process = process_by_pid(core, pid);

	core_see_time(core, now_ns);
	if (process)
		exact_gone(core, process, now_ns);
}
