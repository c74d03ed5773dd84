/* Missed: what is not seen of a process, as the model gets it. */
#include "core/base/time.h"
#include "daemon/daemon_internal.h"
#include "daemon/proc/owner.h"
#include "daemon/proc/procfs.h"

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

/* Whoever has ended is known by its number only. */
static void announce(struct daemon *daemon, uint32_t pid, uint64_t since_ns)
{
	static const struct core_origin kernel = { .pid = 0 };
	struct ts_event event = {
		.kind = TS_EVENT_PROCESS,
		.tgid = pid,
		.tid = pid,
		.start_ns = since_ns,
	};

	if (procfs_identity(pid, &event.process) == 0)
		event.process.owner = owner_of(pid, event.process.uid);
	else
		event.process.started_ns = since_ns + (uint64_t)daemon->boot_offset_ns;
	core_ingest(daemon->core, &kernel, &event, sizeof(event));
}

/* What it called by now comes first. */
static void announce_gap(struct daemon *daemon, struct gap *gap)
{
	uint64_t now_ns = uv_hrtime();
	uint32_t pid = gap->pid;

	if (!pid || gap->reason != LOSS_GAP || daemon_reach(daemon, now_ns) < now_ns)
		return;
	if (core_process_by_pid(daemon->core, pid))
		daemon_lose_gaps(daemon, core_process_by_pid(daemon->core, pid));
	else
		announce(daemon, pid, gap->start_ns);
	if (!procfs_has_first_thread(pid))
		core_process_gone(daemon->core, pid, gap->end_ns);
	gap->pid = 0;
}

static bool announce_entry(struct daemon *daemon)
{
	struct ledger_entry *entry;

	list_for_each(entry, &daemon->ledger.entries, link) {
		if (!entry->pid || entry->announced || entry->reason != LOSS_GAP)
			continue;
		entry->announced = true;
		if (core_process_by_pid(daemon->core, entry->pid) ||
		    !procfs_has_first_thread(entry->pid))
			continue;
		announce(daemon, entry->pid, entry->since_ns);
		return true;
	}
	return false;
}

/* A process of which something is missed is known before its first call. Filters are for the kernel
 * to decide. */
static void daemon_announce(struct daemon *daemon)
{
	const struct probe_config *filters = &daemon->probe_config;

	if (filters->pid_count || filters->uid_count || filters->cgroup_count)
		return;
	for (uint32_t i = 0; i < DAEMON_GAPS; i++)
		announce_gap(daemon, &daemon->gap[i]);
	while (announce_entry(daemon))
		;
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

	if (core_has_used(daemon->core, pid))
		return false;
	if (daemon->telling)
		return daemon->telling_all;
	return intake_reach(daemon->turn.intake, now_ns) == now_ns &&
	       !core_has_used(daemon->core, pid);
}

/* What links alone have missed of a process. */
static bool matters(struct daemon *daemon, const struct ledger_entry *entry)
{
	uint32_t pid = entry->pid;

	if (entry->reason != LOSS_WINDOWS || entry->certain)
		return true;
	/* For a child its parent did. */
	if (pid && !entry->child && !libraries_is_hooked(daemon->libraries, pid) &&
	    is_before_init(daemon, pid))
		return false;
	/* Its probes come back before the library ends to report. */
	return !daemon->exact || !exact_inside_since(daemon->exact, pid, entry->since_ns);
}

static bool on_tell(void *data, const struct ledger_entry *entry, uint64_t until_ns, bool last)
{
	struct daemon *daemon = data;
	const struct gap gap = {
		.pid = entry->pid,
		.reason = (uint8_t)entry->reason,
		.count = !entry->told,
		.start_ns = entry->since_ns,
		.end_ns = until_ns,
	};
	uint32_t id;

	if (!matters(daemon, entry))
		return false;
	id = daemon_process_of(daemon, entry->pid, entry->since_ns);
	if (id || !entry->pid)
		gap_lose(daemon, id, &gap);
	else if (last && !entry->told)
		daemon->gap[daemon->gaps++ % DAEMON_GAPS] = gap;
	return id || !entry->pid;
}

void daemon_start_ledger(struct daemon *daemon)
{
	ledger_init(&daemon->ledger, on_tell, daemon);
}

void daemon_tell_missed(struct daemon *daemon, uint64_t now_ns)
{
	daemon_announce(daemon);
	daemon->telling_all = daemon_reach(daemon, now_ns) >= now_ns;
	daemon->telling = true;
	ledger_tell(&daemon->ledger, now_ns);
	daemon->telling = false;
	daemon->ledger_ns = now_ns;
}

/* For who reads the database, and after a crash; an answer has it told at once. */
void daemon_tick_missed(struct daemon *daemon, uint64_t now_ns)
{
	if (now_ns - daemon->ledger_ns >= (uint64_t)TELL_NS)
		daemon_tell_missed(daemon, now_ns);
	else
		daemon_announce(daemon);
}

void daemon_note_told(struct daemon *daemon, uint64_t now)
{
	uint64_t reached_ns, unheard_ns;

	maps_catch_up(daemon->maps);
	reached_ns = daemon_reach(daemon, now);
	unheard_ns = maps_unheard_ns(daemon->maps);
	daemon->told_ns = reached_ns < unheard_ns ? reached_ns : unheard_ns;
	if (!list_empty(&daemon->ledger.entries) && daemon->ledger_ns < daemon->told_ns)
		daemon->told_ns = daemon->ledger_ns;
}

void daemon_end_missed(struct daemon *daemon, uint32_t pid, uint64_t end_ns)
{
	const struct core_process *process = core_process_by_pid(daemon->core, pid);

	ledger_end(&daemon->ledger, pid, end_ns);
	if (process)
		daemon_lose_gaps(daemon, process);
}

static void daemon_miss(struct daemon *daemon, uint32_t pid, enum loss_reason reason,
			enum ledger_by by, uint64_t since_ns)
{
	struct ledger_entry *entry = ledger_open(&daemon->ledger, pid, reason, by, since_ns);
	bool forked;

	maps_mapped_ns(daemon->maps, pid, &forked);
	if (entry)
		entry->child = forked;
}

void daemon_never_watched(struct daemon *daemon, uint32_t pid)
{
	bool forked;
	uint64_t mapped_ns = maps_mapped_ns(daemon->maps, pid, &forked);

	daemon_miss(daemon, pid, LOSS_GAP, LEDGER_COPY, mapped_ns ? mapped_ns : uv_hrtime());
}

void daemon_waits(void *data, uint32_t pid, enum loss_reason gap, uint64_t since_ns)
{
	struct daemon *daemon = data;

	daemon_miss(daemon, pid, gap, LEDGER_COPY, since_ns);
}

/* It lived for so short a time that nobody has looked at what it mapped. */
void daemon_on_library_missed(void *data, struct maps_file *file, uint32_t pid, uint64_t mapped_ns,
			      uint64_t ended_ns)
{
	struct daemon *daemon = data;

	if (!daemon->libraries ||
	    (file && libraries_sees(daemon->libraries, file->device, file->inode, mapped_ns)))
		return;
	ledger_open(&daemon->ledger, pid, LOSS_GAP, LEDGER_COPY, mapped_ns);
	ledger_close(&daemon->ledger, pid, LOSS_GAP, LEDGER_COPY, ended_ns);
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

	daemon_miss(daemon, pid, reason_of(gap, group), LEDGER_LINKS, since_ns);
}

void daemon_seen(void *data, uint32_t pid, enum loss_reason gap, enum probe_group group)
{
	struct daemon *daemon = data;

	/* Of blocks that were there before it is not known whether they still are. */
	if (group == PROBE_REPORTS)
		core_forget_blocks(daemon->core, pid);
	ledger_close(&daemon->ledger, pid, reason_of(gap, group), LEDGER_LINKS, uv_hrtime());
}
