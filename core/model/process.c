/* Process: which processes are followed. A running process is in both maps under its pid and its
 * id; an ended one is in neither, and everything it held has been reported. */
#include "core/model/process.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/time.h"
#include "core/model/call.h"
#include "core/model/device.h"
#include "core/model/gpu_pool.h"
#include "core/model/mempool.h"
#include "core/model/name.h"

/* How long the EXIT of a process that is gone is awaited: a ring is read up to an unfinished
 * processor, whose task may have to wait for its turn. */
#define GONE_NS 250000000ull

static struct map_key process_key(uint32_t number)
{
	return (struct map_key){ number, 0 };
}

struct process *process_by_pid(const struct core *core, uint32_t pid)
{
	return map_get(&core->process_by_pid, process_key(pid));
}

struct process *process_by_id(const struct core *core, uint32_t id)
{
	return map_get(&core->process_by_id, process_key(id));
}

static void process_init(const struct core *core, struct process *process,
			 const struct core_process *row)
{
	process->row = *row;
	process->row.user = row->user ?: row->uid;
	list_init(&process->contexts);
	list_init(&process->threads);
	list_init(&process->gpu_events);
	list_init(&process->accounts);
	growing_init(&process->growing, process->row.id, process->row.user);
	list_init(&process->devices);
	list_init(&process->capturing);
	list_init(&process->mappings);
	list_init(&process->mempools);
	list_init(&process->allocators);
	list_init(&process->sizes);
	ranges_init(&process->ranges);
	communicator_init(&process->communicators);
	collective_init(&process->collectives);
	timeline_init(&process->timeline);
	context_init(core, &process->unknown, 0);
	list_append(&process->contexts, &process->unknown.link);
}

struct process *process_add(struct core *core, const struct core_process *row)
{
	_cleanup_(freep) struct process *process = calloc(1, sizeof(*process));

	if (!process)
		return NULL;
	process_init(core, process, row);
	if (!quota_take(&core->share[CORE_SHARE_PROCESSES], process->row.user, 1))
		return NULL;
	if (map_put(&core->process_by_id, process_key(row->id), process) < 0 ||
	    map_put(&core->process_by_pid, process_key(row->pid), process) < 0) {
		map_remove(&core->process_by_id, process_key(row->id));
		quota_give(&core->share[CORE_SHARE_PROCESSES], process->row.user, 1);
		return NULL;
	}
	list_append(&core->processes, &process->link);
	if (row->id >= core->next_process)
		core->next_process = row->id + 1;
	return TAKE(process);
}

/* The address space is gone, with everything that the driver kept for it. */
static void process_empty(struct core *core, struct process *process, uint64_t time_ns)
{
	struct context *context;
	struct device *device;

	exact_end(core, process, time_ns);
	range_end_all(core, &process->ranges, process, time_ns);
	name_forget_all(core, process, &process->range_names);
	list_for_each(context, &process->contexts, link)
		context_end_streams(core, context, time_ns);
	list_for_each(device, &process->devices, link)
		state_set(core, &device->state, STATE_NONE, time_ns);
	collective_end_all(core, process);
	communicator_end_all(core, process, time_ns);
	growths_forget(&core->growths, &process->growing);
	memory_end_process(core, process);
	thread_forget_all(core, process);
	gpu_event_forget_all(core, process);
	mempool_forget_all(process);
	mempool_forget_allocators(core, process);
	device_size_forget_all(&process->sizes);
	process->init_ns = process->used_ns = 0;
	process->events_told = process->event_missed = false;
	memset(process->retains, 0, sizeof(process->retains));
	list_for_each(context, &process->contexts, link) {
		if (context == &process->unknown)
			continue;
		list_remove(&context->link);
		free(context);
	}
	process->context_count = 0;
}

static void process_forget_gone(struct core *core, struct process *process)
{
	core->gone -= process->gone_ns != 0;
	process->gone_ns = 0;
}

void process_end(struct core *core, struct process *process, uint64_t time_ns, int32_t exit_code)
{
	process_empty(core, process, time_ns);
	memory_tell_accounts(core, process);
	process->row.exit_ns = time_ns;
	process->row.exit_code = exit_code;
	core_tell(core, &process->row);
	loss_hand_over(core, &process->loss, process->row.id);
	map_remove(&core->process_by_pid, process_key(process->row.pid));
	map_remove(&core->process_by_id, process_key(process->row.id));
	quota_give(&core->share[CORE_SHARE_PROCESSES], process->row.user, 1);
	list_remove(&process->link);
	process_forget_gone(core, process);
	process_free(core, process);
}

static void process_describe(struct core_process *row, const struct ts_process *from)
{
	row->ns_pid = from->ns_pid;
	row->ppid = from->ppid;
	row->uid = from->uid;
	row->user = row->user ?: from->owner ?: from->uid; /* the first, who is charged */
	row->cgroup = from->cgroup;
	memset(row->comm, 0, sizeof(row->comm));
	memcpy(row->comm, from->comm, strnlen(from->comm, sizeof(from->comm) - 1));
}

int process_announced(struct core *core, struct process *process, const struct ts_event *event)
{
	struct core_process row = {
		.id = core->next_process,
		.pid = event->tgid,
		.started_ticks = event->process.started_ns / NS_PER_TICK,
		.first_ns = event->start_ns,
		.exit_code = EXIT_UNKNOWN,
	};

	if (process && process->row.started_ticks != row.started_ticks) {
		/* Its EXIT was lost, and the pid is in use again. */
		process_end(core, process, process->gone_ns ?: event->start_ns, EXIT_UNKNOWN);
		process = NULL;
	}
	if (process)
		row = process->row;
	process_describe(&row, &event->process);
	if (!process)
		process = process_add(core, &row);
	if (!process) {
		loss_count(core, NULL, LOSS_LIMIT);
		return INGEST_LIMIT;
	}
	process->row = row;
	row.executed = event->kind == TS_EVENT_EXEC;
	core_tell(core, &row);
	return INGEST_OK;
}

int process_executed(struct core *core, struct process *process, const struct ts_event *event)
{
	if (process && process->exact)
		gpu_pool_forget_all(core, process->exact);
	if (process) {
		process_empty(core, process, event->start_ns);
		process->emptied_ns = event->start_ns;
	}
	return process_announced(core, process, event);
}

int process_exited(struct core *core, struct process *process, const struct ts_event *event)
{
	if (!exact_lingers(process, event->start_ns, event->process.exit_code))
		process_end(core, process, event->start_ns, event->process.exit_code);
	return INGEST_OK;
}

void process_gone(struct core *core, struct process *process, uint64_t time_ns)
{
	if (process->gone_ns)
		return;
	process->gone_ns = time_ns;
	core->gone++;
}

void process_tick(struct core *core, uint64_t now_ns)
{
	struct process *process;

	if (!core->gone)
		return;
	list_for_each(process, &core->processes, link) {
		uint64_t time_ns = process->gone_ns;

		if (!time_ns || now_ns < time_ns + GONE_NS)
			continue;
		process_forget_gone(core, process);
		if (!exact_lingers(process, time_ns, EXIT_UNKNOWN))
			process_end(core, process, time_ns, EXIT_UNKNOWN);
	}
}

void process_used(struct process *process, uint64_t start_ns)
{
	if (!process->used_ns || start_ns < process->used_ns)
		process->used_ns = start_ns;
}

void process_initialized(struct call *call)
{
	if (!call->process->init_ns)
		call->process->init_ns = call->op->start_ns;
}

/* Calls made inside the initialization, for example by a library that it loads, are reported before
 * it. */
bool process_is_whole(const struct process *process)
{
	return process->init_ns && process->init_ns <= process->used_ns && !process->unreturned;
}

static void process_free_context(struct process *process, struct context *context)
{
	struct stream *stream;

	list_for_each(stream, &context->streams, in_context)
		free(stream);
	if (context != &process->unknown)
		free(context);
}

void process_free(struct core *core, struct process *process)
{
	struct context *context;
	struct device *device;

	exact_free(core, process);
	range_free_all(core, &process->ranges, process);
	name_forget_all(core, process, &process->range_names);
	mempool_forget_all(process);
	mempool_forget_allocators(NULL, process);
	collective_free_all(core, process);
	communicator_free_all(core, process);
	list_for_each(context, &process->contexts, link)
		process_free_context(process, context);
	growths_forget(&core->growths, &process->growing);
	account_free_all(&process->accounts);
	list_for_each(device, &process->devices, link) {
		free(device->busy);
		free(device);
	}
	device_size_forget_all(&process->sizes);
	free(process);
}
