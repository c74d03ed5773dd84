/* Missed: what is not seen of a process, as the model gets it. */
#include "core/base/time.h"
#include "daemon/daemon_internal.h"

#define TELL_NS (5 * NS_PER_S)

static const enum loss_reason missed[PROBE_GROUPS] = {
	[PROBE_HOT] = LOSS_WINDOWS,
	[PROBE_REPORTS] = LOSS_TENSORS,
};

static void gap_lose(struct daemon *daemon, uint32_t process, const struct gap *gap)
{
	struct core_loss loss = {
		.start_ns = gap->start_ns,
		.end_ns = gap->end_ns,
		.process = process,
		.reason = gap->reason,
		.count = gap->count,
	};

	core_lose(daemon->core, &loss);
}

void daemon_lose_gaps(struct daemon *daemon, const struct core_process *process)
{
	for (uint32_t i = 0; i < DAEMON_GAPS; i++) {
		if (daemon->gap[i].pid != process->pid)
			continue;
		gap_lose(daemon, process->id, &daemon->gap[i]);
		daemon->gap[i].pid = 0;
	}
}

/* Whoever has not initialized the driver by now made no hot call before. */
static bool is_before_init(struct daemon *daemon, uint32_t pid)
{
	uint64_t now_ns = uv_hrtime();

	if (core_has_used(daemon->core, pid) || intake_reach(daemon->turn.intake, now_ns) < now_ns)
		return false;
	return !core_has_used(daemon->core, pid);
}

/* What links alone have missed of a process. */
static bool matters(struct daemon *daemon, const struct ledger_entry *entry)
{
	uint32_t pid = entry->pid;

	if (entry->reason != LOSS_WINDOWS || entry->certain)
		return true;
	if (pid && !libraries_is_hooked(daemon->libraries, pid) && is_before_init(daemon, pid))
		return false;
	/* Its probes come back before the library ends to report. */
	return !daemon->exact || !exact_inside_since(daemon->exact, pid, entry->since_ns);
}

static bool on_tell(void *data, const struct ledger_entry *entry, uint64_t until_ns, bool last)
{
	struct daemon *daemon = data;
	const struct core_process *process = core_process_by_pid(daemon->core, entry->pid);
	const struct gap gap = {
		.pid = entry->pid,
		.reason = (uint8_t)entry->reason,
		.count = !entry->told,
		.start_ns = entry->since_ns,
		.end_ns = until_ns,
	};

	if (!matters(daemon, entry))
		return false;
	if (process || !entry->pid)
		gap_lose(daemon, process ? process->id : 0, &gap);
	else if (last && !entry->told)
		daemon->gap[daemon->gaps++ % DAEMON_GAPS] = gap;
	return process || !entry->pid;
}

void daemon_start_ledger(struct daemon *daemon)
{
	ledger_init(&daemon->ledger, on_tell, daemon);
}

/* For who reads the database, and after a crash; an answer has it told at once. */
void daemon_tell_missed(struct daemon *daemon, uint64_t now_ns)
{
	if (now_ns - daemon->ledger_ns < (uint64_t)TELL_NS)
		return;
	daemon->ledger_ns = now_ns;
	ledger_tell(&daemon->ledger, now_ns);
}

void daemon_waits(void *data, uint32_t pid, enum loss_reason gap, uint64_t since_ns)
{
	struct daemon *daemon = data;

	ledger_open(&daemon->ledger, pid, gap, LEDGER_COPY, since_ns);
}

void daemon_waited(void *data, uint32_t pid, enum loss_reason gap, bool is_missed)
{
	struct daemon *daemon = data;

	if (is_missed)
		ledger_close(&daemon->ledger, pid, gap, LEDGER_COPY, uv_hrtime());
	else
		ledger_drop(&daemon->ledger, pid, gap, LEDGER_COPY);
}

static enum loss_reason reason_of(enum loss_reason gap, enum probe_group group)
{
	return group == PROBE_COLD ? gap : missed[group];
}

void daemon_missing(void *data, uint32_t pid, enum loss_reason gap, enum probe_group group,
		    uint64_t since_ns)
{
	struct daemon *daemon = data;

	ledger_open(&daemon->ledger, pid, reason_of(gap, group), LEDGER_LINKS, since_ns);
}

void daemon_seen(void *data, uint32_t pid, enum loss_reason gap, enum probe_group group)
{
	struct daemon *daemon = data;

	/* Of blocks that were there before it is not known whether they still are. */
	if (group == PROBE_REPORTS)
		core_forget_blocks(daemon->core, pid);
	ledger_close(&daemon->ledger, pid, reason_of(gap, group), LEDGER_LINKS, uv_hrtime());
}
