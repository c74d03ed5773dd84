/* Sink: passes the model's output to the store; a new process or stack makes the other parts look
 * up more about it. Runs on the loop, inside core_ingest() and core_checkpoint(). */
#include <errno.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/daemon_internal.h"
#include "daemon/proc/procfs.h"

static void sink_op(void *data, const struct op *op)
{
	struct daemon *daemon = data;

	store_add_op(daemon->store, op);
	if (daemon->live)
		live_op(daemon->live, op);
}

void sink_announcement(struct daemon *daemon, const void *record, size_t size)
{
	const struct probe_announcement *announcement = record;
	uint16_t kind = announcement->event.kind;
	uint32_t length;

	daemon->announced.pid = 0;
	if ((kind != TS_EVENT_PROCESS && kind != TS_EVENT_EXEC) || size < sizeof(*announcement) ||
	    announcement->command_size > sizeof(announcement->command))
		return;
	length = announcement->command_size;
	daemon->announced.whole = length < sizeof(announcement->command);
	memcpy(daemon->announced.command, announcement->command, length);
	procfs_join(daemon->announced.command, length);
	if (daemon->announced.command[0])
		daemon->announced.pid = announcement->event.tgid;
}

static void sink_process_detail(struct daemon *daemon, const struct core_process *process)
{
	struct store_process_detail detail = { .executed = process->executed };

	if (daemon->announced.pid == process->pid)
		detail.command = daemon->announced.command;
	store_add_process_detail(daemon->store, process->id, &detail);
	daemon_describe(daemon, process);
	users_ask(daemon->users, process->uid, process->id);
}

void daemon_user_named(void *data, uint32_t process, const char *name)
{
	const struct store_process_detail detail = { .user = name };
	struct daemon *daemon = data;

	store_add_process_detail(daemon->store, process, &detail);
}

/* What a process did before tracing started was not seen. */
static void sink_process_past(struct daemon *daemon, const struct core_process *process)
{
	/* Before a sleep of the host, in which CLOCK_MONOTONIC stood still, it may be less than
	 * 0.
	 */
	int64_t started_ns =
		(int64_t)(process->started_ticks * NS_PER_TICK) - daemon->boot_offset_ns;
	struct core_loss gap = {
		.start_ns = started_ns > 0 ? (uint64_t)started_ns : 0,
		.end_ns = daemon->watching_ns,
		.process = process->id,
		.reason = LOSS_NO_DAEMON,
		.count = 1,
	};

	/* It started within that tick; none calls a driver sooner than that. */
	if (gap.start_ns + NS_PER_TICK <= gap.end_ns)
		core_lose(daemon->core, &gap);
}

static void sink_process(struct daemon *daemon, const struct core_process *process)
{
	store_add(daemon->store, process);
	if (process->exit_ns) {
		daemon_ended(daemon, process);
		maps_unfollow(daemon->maps, process->pid);
		daemon_forget_python(daemon, process->pid);
		return;
	}
	maps_catch_up(daemon->maps);
	maps_follow(daemon->maps, process->pid);
	daemon_look_for_python(daemon, process->pid);
	sink_process_detail(daemon, process);
	daemon_lose_gaps(daemon, process);
	/* Ids count up; a process is reported again when it runs another program. */
	if (process->id < daemon->next_process)
		return;
	daemon->next_process = process->id + 1;
	sink_process_past(daemon, process);
}

static void sink_stack(struct daemon *daemon, const struct core_stack *walked)
{
	exact_stack_walked(daemon->exact, walked->process->pid, walked->stack);
	daemon_name_stack(daemon, walked->process, walked->stack);
}

static void sink_row(void *data, enum core_row type, const void *row)
{
	const struct core_stack *walked = row;
	struct daemon *daemon = data;

	if (type == CORE_ROW_PROCESS)
		sink_process(data, row);
	else if (type == CORE_ROW_STACK)
		sink_stack(data, walked);
	else
		store_add_row(daemon->store, type, row);
	if (type == CORE_ROW_OOM)
		daemon_tell_oom(daemon, row);
	if (daemon->live)
		live_row(daemon->live, type, row);
}

const struct core_sink daemon_sink = { .op = sink_op, .row = sink_row };
