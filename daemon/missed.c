/* Missed: what is not seen of a process, as the model gets it. */
#include "core/base/time.h"
#include "daemon/daemon_internal.h"
#include "daemon/proc/owner.h"
#include "daemon/proc/procfs.h"

#define TELL_NS (5 * NS_PER_S)
#define NOBODY	65534u

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

/* Whoever has ended is known by its number and times only. */
static void announce(struct daemon *daemon, uint32_t pid, uint64_t since_ns, uint64_t until_ns)
{
	static const struct core_origin kernel = { .pid = 0 };
	const uint64_t offset_ns = (uint64_t)daemon->boot_offset_ns;
	struct ts_event event;
	bool found = owner_announcement(pid, since_ns, &event) == 0 &&
		     event.process.started_ns <= until_ns + offset_ns;

	if (!found)
		event.process = (struct ts_process){
			.started_ns = since_ns + offset_ns,
			.uid = NOBODY,
			.owner = NOBODY,
		};
	core_ingest(daemon->core, &kernel, &event, sizeof(event));
	/* It has gone, or is a zombie. */
	if (!found || (!procfs_has_first_thread(pid) && procfs_living_thread(pid) == pid))
		core_process_gone(daemon->core, pid, until_ns);
}

static void gap_settle(struct daemon *daemon, struct gap *gap, uint32_t process)
{
	if (process)
		gap_lose(daemon, process, gap);
	gap->pid = 0;
}

/* It matters if the process has used the driver by then. */
static void doubt_settle(struct daemon *daemon, struct gap *gap)
{
	uint64_t used_ns = core_used_ns(daemon->core, gap->pid);
	bool matters = used_ns && used_ns <= gap->end_ns;

	gap_settle(daemon, gap, matters ? daemon_process_of(daemon, gap->pid, 0) : 0);
}

void daemon_settle_doubts(struct daemon *daemon, uint32_t pid)
{
	for (uint32_t i = 0; i < GAPS_MAX; i++)
		if (daemon->gaps.gap[i].pid == pid && daemon->gaps.gap[i].doubt)
			doubt_settle(daemon, &daemon->gaps.gap[i]);
}

/* All that it has called by now has been read. */
static void gap_announce(struct daemon *daemon, struct gap *gap, bool filtered)
{
	uint32_t process;

	if (!gap->pid)
		return;
	if (gap->doubt) {
		doubt_settle(daemon, gap);
		return;
	}
	process = daemon_process_of(daemon, gap->pid, gap->start_ns);
	if (process)
		gap_settle(daemon, gap, process);
	else if (gap->reason == LOSS_GAP && !filtered) {
		/* The gap goes to it at once. */
		announce(daemon, gap->pid, gap->start_ns, gap->end_ns);
		gap->pid = 0;
	}
}

static bool entry_announce(struct daemon *daemon, uint64_t now_ns)
{
	struct ledger_entry *entry;

	list_for_each(entry, &daemon->ledger.entries, link) {
		if (!entry->pid || entry->announced || entry->reason != LOSS_GAP)
			continue;
		entry->announced = true;
		if (core_process_by_pid(daemon->core, entry->pid) ||
		    !procfs_has_first_thread(entry->pid))
			continue;
		announce(daemon, entry->pid, entry->since_ns, now_ns);
		return true;
	}
	return false;
}

/* A process of which something is missed is known before its first call. Filters are for the kernel
 * to decide. */
static void daemon_announce(struct daemon *daemon)
{
	const struct probe_config *filters = &daemon->probe_config;
	bool filtered = filters->pid_count || filters->uid_count || filters->cgroup_count;
	uint64_t now_ns = uv_hrtime();

	if (daemon_reach(daemon, now_ns) < now_ns)
		return;
	for (uint32_t i = 0; i < GAPS_MAX; i++)
		gap_announce(daemon, &daemon->gaps.gap[i], filtered);
	while (!filtered && entry_announce(daemon, now_ns))
		;
}

void daemon_lose_gaps(struct daemon *daemon, const struct core_process *process)
{
	for (uint32_t i = 0; i < GAPS_MAX; i++)
		if (daemon->gaps.gap[i].pid == process->pid && !daemon->gaps.gap[i].doubt)
			gap_settle(daemon, &daemon->gaps.gap[i], process->id);
}

/* What links alone have missed of it matters only from its first use of the driver on; for a child
 * its parent did that. */
static bool is_doubtful(const struct daemon *daemon, const struct ledger_entry *entry)
{
	return entry->reason == LOSS_WINDOWS && !entry->certain && !entry->told && entry->pid &&
	       !entry->child && !libraries_is_hooked(daemon->libraries, entry->pid);
}

enum matter { MATTERS_NOT, MATTERS, MATTERS_PERHAPS };

/* Reads nothing: it is asked in the middle of changes to whoever would be told. */
static enum matter matters(struct daemon *daemon, const struct ledger_entry *entry,
			   uint64_t until_ns, bool last)
{
	uint64_t used_ns;

	if (is_doubtful(daemon, entry)) {
		used_ns = core_used_ns(daemon->core, entry->pid);
		if (used_ns > until_ns || (!used_ns && daemon->telling_all))
			return MATTERS_NOT;
		if (!used_ns && last && !intake_is_turning(daemon->turn.intake))
			return MATTERS_PERHAPS;
	}
	/* Its probes come back before the library ends to report. */
	return entry->reason == LOSS_WINDOWS && !entry->certain && daemon->exact &&
			       exact_inside_since(daemon->exact, entry->pid, entry->since_ns)
		       ? MATTERS_NOT
		       : MATTERS;
}

static bool on_tell(void *data, const struct ledger_entry *entry, uint64_t until_ns, bool last)
{
	struct daemon *daemon = data;
	enum matter matter = matters(daemon, entry, until_ns, last);
	const struct gap gap = {
		.pid = entry->pid,
		.reason = (uint8_t)entry->reason,
		.count = !entry->told,
		.doubt = matter == MATTERS_PERHAPS,
		.start_ns = entry->since_ns,
		.end_ns = until_ns,
	};
	uint32_t id;

	if (matter == MATTERS_NOT)
		return false;
	id = daemon_process_of(daemon, entry->pid, entry->since_ns);
	if (matter == MATTERS && (id || !entry->pid)) {
		gap_lose(daemon, id, &gap);
		return true;
	}
	if (last && !entry->told)
		gaps_keep(&daemon->gaps, &gap);
	return false;
}

void daemon_start_ledger(struct daemon *daemon)
{
	ledger_init(&daemon->ledger, on_tell, daemon);
}

void daemon_tell_missed(struct daemon *daemon, uint64_t now_ns)
{
	daemon_announce(daemon);
	daemon->telling_all = daemon_reach(daemon, now_ns) >= now_ns;
	ledger_tell(&daemon->ledger, now_ns);
	daemon->telling_all = false;
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

static void lower(uint64_t *least, uint64_t ns)
{
	if (ns < *least)
		*least = ns;
}

/* What goes on was reported the last time. What has no process to be reported for is of the last
 * seconds, or of one that has not used the driver. */
static uint64_t untold_since(const struct daemon *daemon, uint64_t lately_ns)
{
	const struct ledger_entry *entry;
	uint64_t since_ns = UINT64_MAX;

	if (daemon->libraries)
		since_ns = libraries_unsaid_ns(daemon->libraries, lately_ns);
	list_for_each(entry, &daemon->ledger.entries, link) {
		lower(&since_ns, daemon->ledger_ns);
		if (!entry->told && entry->since_ns >= lately_ns)
			lower(&since_ns, entry->since_ns);
	}
	for (uint32_t i = 0; i < GAPS_MAX; i++)
		if (daemon->gaps.gap[i].pid && daemon->gaps.gap[i].start_ns >= lately_ns)
			lower(&since_ns, daemon->gaps.gap[i].start_ns);
	return since_ns;
}

void daemon_note_told(struct daemon *daemon, uint64_t now)
{
	uint64_t told_ns, unheard_ns;

	maps_catch_up(daemon->maps);
	told_ns = daemon_reach(daemon, now);
	/* Of who has not been looked into for longer than that, the end tells it. */
	unheard_ns = maps_unheard_ns(daemon->maps);
	if (unheard_ns >= now - (uint64_t)TELL_NS)
		lower(&told_ns, unheard_ns);
	lower(&told_ns, untold_since(daemon, now - (uint64_t)TELL_NS));
	daemon->told_ns = told_ns;
}

void daemon_end_missed(struct daemon *daemon, uint32_t pid, uint64_t end_ns)
{
	const struct core_process *process = core_process_by_pid(daemon->core, pid);

	ledger_end(&daemon->ledger, pid, end_ns);
	daemon_settle_doubts(daemon, pid);
	if (process)
		daemon_lose_gaps(daemon, process);
}

/* Of who was found to map a library, and may have done so for long. */
static uint64_t found_since(struct daemon *daemon, uint32_t pid)
{
	uint64_t since_ns = daemon->watching_ns ? daemon->watching_ns : daemon->started_ns;
	int64_t started_ns = 0;
	uint64_t ticks;

	if (pid && procfs_started_ticks(pid, &ticks) == 0)
		started_ns = (int64_t)(ticks * NS_PER_TICK) - daemon->boot_offset_ns;
	return started_ns > (int64_t)since_ns ? (uint64_t)started_ns : since_ns;
}

/* `since_ns` 0: it is not known. */
static void daemon_miss(struct daemon *daemon, uint32_t pid, enum loss_reason reason,
			enum ledger_by by, uint64_t since_ns)
{
	struct ledger_entry *entry;
	bool forked;

	if (!since_ns)
		since_ns = found_since(daemon, pid);
	entry = ledger_open(&daemon->ledger, pid, reason, by, since_ns);
	maps_mapped_ns(daemon->maps, pid, &forked);
	if (entry)
		entry->child = forked;
}

void daemon_never_watched(struct daemon *daemon, uint32_t pid)
{
	bool forked;
	uint64_t mapped_ns = maps_mapped_ns(daemon->maps, pid, &forked);

	daemon_miss(daemon, pid, LOSS_GAP, LEDGER_REFUSED, mapped_ns);
}

void daemon_waits(void *data, uint32_t pid, enum loss_reason gap, uint64_t since_ns)
{
	struct daemon *daemon = data;

	daemon_miss(daemon, pid, gap, LEDGER_COPY, since_ns);
}

/* It lived for so short a time that nobody has looked at what it mapped, or that cannot be looked
 * at. */
void daemon_on_library_missed(void *data, struct maps_file *file, uint32_t pid, uint64_t mapped_ns,
			      uint64_t ended_ns, bool executed)
{
	static struct log_users limit;
	struct daemon *daemon = data;

	if (!daemon->libraries)
		return;
	if (!ended_ns) {
		daemon_never_watched(daemon, pid);
		if (log_allowed_user(&limit, file->user, file->inode))
			log_warning("Process %u maps '%s', which cannot be opened: not tracing it",
				    pid, file->path);
		return;
	}
	if ((file && libraries_sees(daemon->libraries, file->device, file->inode, mapped_ns)) ||
	    /* At its end it was told already what links to single processes have missed. */
	    (!executed && !core_process_by_pid(daemon->core, pid) &&
	     daemon_process_of(daemon, pid, mapped_ns)))
		return;
	ledger_past(&daemon->ledger, pid, LOSS_GAP, mapped_ns, ended_ns);
}

void daemon_late(void *data, uint32_t pid, enum loss_reason gap, uint64_t since_ns,
		 uint64_t until_ns)
{
	struct daemon *daemon = data;

	ledger_past(&daemon->ledger, pid, gap, since_ns ? since_ns : found_since(daemon, pid),
		    until_ns);
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
