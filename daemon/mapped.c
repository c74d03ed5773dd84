/* Mapped: which processes map a driver library, and which have ended, goes to the parts that must
 * know. */
#include "daemon/daemon_internal.h"

#include <stdio.h>
#include <stdlib.h>

#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/attach/attach.h"
#include "daemon/limits.h"

#define MAPS_RING (128 << 10)

/* A process that has ended. Its last events may still be in the rings, with the EXIT behind them.
 */
struct gone {
	struct list link;
	uint32_t pid;
	uint64_t time_ns;
	uint64_t heard_ns;
};

uint32_t daemon_unlooked(void *data)
{
	return maps_unlooked(((struct daemon *)data)->maps);
}

static void daemon_on_library(void *data, struct maps_file *file, uint32_t pid)
{
	const struct libraries_file mapped = {
		.device = file->device,
		.inode = file->inode,
		.path = file->path,
		.fd = file->fd,
		.user = file->user,
	};
	struct daemon *daemon = data;
	uint64_t mapped_ns;
	bool forked;

	if (!daemon->libraries)
		return;
	mapped_ns = maps_mapped_ns(daemon->maps, pid, &forked);
	if (libraries_mapped(daemon->libraries, pid, mapped_ns, forked, &mapped) < 0)
		daemon_never_watched(daemon, pid);
	daemon_look_for_python(daemon, pid);
	flood_wake(daemon->flood);
}

/* The user's row, a free one, or that of the user with the fewest. */
static struct refused_copies *refused_of(struct daemon *daemon, uint32_t user)
{
	struct refused_copies *of = daemon->refused;

	for (int i = 0; i < DAEMON_REFUSED; i++) {
		if (daemon->refused[i].count && daemon->refused[i].user == user)
			return &daemon->refused[i];
		if (daemon->refused[i].count < of->count)
			of = &daemon->refused[i];
	}
	*of = (struct refused_copies){ .user = user };
	return of;
}

static void daemon_on_library_refused(void *data, struct maps_file *file, uint32_t pid,
				      uint32_t user)
{
	static struct log_users limit;
	struct daemon *daemon = data;
	struct refused_copies *refused = refused_of(daemon, user);

	daemon_never_watched(daemon, pid);
	refused->count++;
	refused->pid = pid;
	snprintf(refused->path, sizeof(refused->path), "%s", file->path);
	if (log_allowed_user(&limit, user, 0))
		log_warning("Process %u maps '%s', but processes of user %u map as many driver "
			    "libraries as one user may: not tracing it",
			    pid, file->path, user);
}

static void daemon_on_library_gone(void *data, struct maps_file *file)
{
	struct daemon *daemon = data;

	if (daemon->libraries)
		libraries_unmapped(daemon->libraries, file->device, file->inode);
}

static void daemon_process_gone(struct daemon *daemon, uint32_t pid, uint64_t time_ns)
{
	if (daemon->libraries)
		libraries_process_gone(daemon->libraries, pid);
	if (daemon->price)
		price_process_gone(daemon->price, pid, time_ns);
	daemon_forget_python(daemon, pid);
	daemon_end_missed(daemon, pid, time_ns);
	core_process_gone(daemon->core, pid, time_ns);
}

void daemon_tell_gone(struct daemon *daemon, uint64_t reached_ns)
{
	struct gone *gone;

	list_for_each(gone, &daemon->gone, link) {
		if (gone->heard_ns > reached_ns)
			return;
		list_remove(&gone->link);
		daemon_process_gone(daemon, gone->pid, gone->time_ns);
		free(gone);
	}
}

uint64_t daemon_reach(struct daemon *daemon, uint64_t now_ns)
{
	uint64_t reached_ns = intake_reach(daemon->turn.intake, now_ns);

	daemon_tell_gone(daemon, reached_ns);
	return reached_ns;
}

void daemon_empty(struct daemon *daemon, uint64_t now_ns)
{
	struct intake_stats before, stats;

	intake_stats(daemon->turn.intake, &stats);
	do {
		before = stats;
		if (intake_reach(daemon->turn.intake, now_ns) == now_ns)
			return;
		intake_stats(daemon->turn.intake, &stats);
	} while (stats.given > before.given &&
		 uv_hrtime() - now_ns < LIMIT_STOP_READ_MS * (uint64_t)NS_PER_MS);
	log_warning("Stopping without the last records: there are too many");
}

static void daemon_on_process_gone(void *data, uint32_t pid, uint64_t time_ns)
{
	struct daemon *daemon = data;
	struct gone *gone = calloc(1, sizeof(*gone));
	uint64_t now_ns = uv_hrtime();

	if (!gone) {
		daemon_process_gone(daemon, pid, time_ns);
		return;
	}
	*gone = (struct gone){ .pid = pid, .time_ns = time_ns, .heard_ns = now_ns };
	list_append(&daemon->gone, &gone->link);
	daemon_stir(daemon);
	daemon_reach(daemon, now_ns);
}

static void daemon_on_mapped(void *data, uint32_t pid)
{
	struct daemon *daemon = data;

	if (daemon->exact)
		exact_mapped(daemon->exact, pid);
}

static void daemon_on_process_executed(void *data, uint32_t pid)
{
	struct daemon *daemon = data;

	ledger_forget_child(&daemon->ledger, pid);
	ledger_close(&daemon->ledger, pid, LOSS_GAP, LEDGER_REFUSED, uv_hrtime());
	if (daemon->libraries)
		libraries_process_executed(daemon->libraries, pid);
	daemon_forget_python(daemon, pid);
}

static int open_events(void *data, int cpu)
{
	const struct daemon *daemon = data;

	return broker_mapped(daemon->broker, (uint32_t)cpu);
}

/* Our own, of an attachment: nobody does one, unless it has a session. */
static void daemon_on_memory(void *data, uint32_t pid, uint64_t start)
{
	struct daemon *daemon = data;

	if (daemon->exact && start == ATTACH_PLACE)
		exact_tidy(daemon->exact, pid);
}

/* Its stacks may lack names. Who is not known to the model may never be. */
static void on_late(void *data, uint32_t pid)
{
	struct daemon *daemon = data;
	const uint64_t now_ns = uv_hrtime();
	const struct core_loss loss = {
		.start_ns = now_ns,
		.end_ns = now_ns,
		.process = daemon_process_of(daemon, pid, 0),
		.reason = LOSS_MAPPING,
		.count = 1,
	};
	const struct gap gap = {
		.pid = pid,
		.reason = LOSS_MAPPING,
		.count = 1,
		.start_ns = now_ns,
		.end_ns = now_ns,
	};

	if (loss.process)
		core_lose(daemon->core, &loss);
	else
		gaps_keep(&daemon->gaps, &gap);
}

int daemon_start_maps(struct daemon *daemon)
{
	struct maps_config config = {
		.patterns = daemon->config->libraries,
		.ring_bytes = MAPS_RING,
		.max_processes = LIMIT_PROCESSES,
		.max_mappings = LIMIT_MAPPINGS,
		.max_files = LIMIT_FILES,
		.events = { open_events, daemon },
	};
	struct maps_callbacks callbacks = {
		.library_found = daemon_on_library,
		.library_shared = daemon_on_library,
		.library_refused = daemon_on_library_refused,
		.library_missed = daemon_on_library_missed,
		.library_gone = daemon_on_library_gone,
		.process_executed = daemon_on_process_executed,
		.mapped = daemon_on_mapped,
		.process_gone = daemon_on_process_gone,
		.replaced = daemon_on_replaced,
		.memory = daemon_on_memory,
		.settled = daemon_on_settled,
		.late = on_late,
	};
	int r;

	daemon_configure_maps(daemon, &config);
	r = maps_new(&daemon->loop, &config, &callbacks, daemon, &daemon->maps);
	if (r < 0)
		log_error_errno(r, "Cannot follow the mappings of processes");
	return r;
}
