/* Report: what `tsctl status` shows. Reads the parts' figures, changes nothing. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "core/base/array.h"
#include "core/base/invariant.h"
#include "core/base/time.h"
#include "core/base/units.h"
#include "core/price/starve.h"
#include "daemon/daemon_internal.h"
#include "daemon/limits.h"
#include "daemon/proc/procfs.h"

#define REPORT_CPUS 1024
#define REPORT_SLOW 8 /* names of slow functions shown */
#define REPORT_OUT  8 /* processes left out */

static const char *const way_text[] = {
	[PROBE_WAY_AUTO] = "none",
	[PROBE_WAY_MULTI] = "uprobe_multi: one link for many functions",
	[PROBE_WAY_PERF] = "perf events: one per function",
};

static uint64_t report_rss_bytes(void)
{
	unsigned long pages = 0, resident = 0;
	FILE *file = fopen("/proc/self/statm", "re");

	if (file) {
		if (fscanf(file, "%lu %lu", &pages, &resident) != 2)
			resident = 0;
		fclose(file);
	}
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool daemon_watched(void *data, char *out, size_t size)
{
	const struct probe_config *filter = &((struct daemon *)data)->probe_config;
	const struct {
		uint32_t count;
		const char *one, *many;
	} parts[] = {
		{ filter->pid_count, "pid", "pids" },
		{ filter->uid_count, "user", "users" },
		{ filter->cgroup_count, "cgroup", "cgroups" },
	};
	size_t used = 0;

	*out = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(parts) && used < size; i++)
		if (parts[i].count)
			used += (size_t)snprintf(
				out + used, size - used, "%s%u %s", used ? " and " : "",
				parts[i].count, parts[i].count == 1 ? parts[i].one : parts[i].many);
	return used;
}

static void report_filters(struct daemon *daemon, struct status_builder *builder)
{
	char watched[128];

	if (daemon_watched(daemon, watched, sizeof(watched)))
		status_text(builder, "daemon", "filters", true, "only processes of %s are traced",
			    watched);
}

static void report_daemon(struct daemon *daemon, struct status_builder *builder)
{
	char text[UNITS_TEXT_SIZE];
	uint64_t up_ns = uv_hrtime() - daemon->started_ns, cpu_ns, rss = report_rss_bytes();
	const struct meter *meter = &daemon->meter;
	struct helpers_stats helpers;
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	cpu_ns = ((uint64_t)usage.ru_utime.tv_sec + (uint64_t)usage.ru_stime.tv_sec) * NS_PER_S +
		 ((uint64_t)usage.ru_utime.tv_usec + (uint64_t)usage.ru_stime.tv_usec) * NS_PER_US;
	status_text(builder, "daemon", "version", false, "%s", TS_VERSION);
	status_number(builder, "daemon", "pid", false, getpid(), "%d", getpid());
	status_number(builder, "daemon", "running_ns", false, (int64_t)up_ns, "%s",
		      units_nanoseconds(text, up_ns));
	status_number(builder, "daemon", "cpu_ns", false, (int64_t)cpu_ns, "%s (%.2f %% of a core)",
		      units_nanoseconds(text, cpu_ns), 100.0 * (double)cpu_ns / (double)up_ns);
	status_number(builder, "daemon", "loop_longest_us", false,
		      (int64_t)(meter->longest_ns / NS_PER_US), "%s",
		      units_nanoseconds(text, meter->longest_ns));
	status_number(builder, "daemon", "loop_longest_cpu_us", false,
		      (int64_t)(meter->longest_cpu_ns / NS_PER_US), "%s",
		      units_nanoseconds(text, meter->longest_cpu_ns));
	status_number(builder, "daemon", "memory_bytes", false, (int64_t)rss, "%s",
		      units_bytes(text, rss));
	helpers_stats(daemon->helpers, &helpers);
	if (helpers.died > 0)
		status_number(builder, "daemon", "helpers_died",
			      uv_now(&daemon->loop) - helpers.died_ms < API_WARNS_MS,
			      (int64_t)helpers.died, "%lu were killed or crashed", helpers.died);
	if (invariant_count() > 0)
		status_number(
			builder, "daemon", "broken_invariants", true, (int64_t)invariant_count(),
			"%lu: a defect, please report it with the journal", invariant_count());
}

/* How long work waits for the kernel's per-CPU workers, where programs run into probes. */
static void report_workers(struct daemon *daemon, struct status_builder *builder)
{
	char last[UNITS_TEXT_SIZE], worst[UNITS_TEXT_SIZE];
	struct flood_stats flood;

	flood_stats(daemon->flood, &flood);
	if (!flood.measured)
		return;
	units_nanoseconds(last, flood.last_ns);
	units_nanoseconds(worst, flood.worst_ns);
	status_number(builder, "kernel", "workers_ns", flood.last_ns > STARVE_LONG_NS,
		      (int64_t)flood.last_ns, "work waits up to %s for a CPU's worker, worst %s",
		      last, worst);
	status_number(builder, "kernel", "workers_worst_ns", false, (int64_t)flood.worst_ns, "%s",
		      worst);
}

static void report_left_out(struct daemon *daemon, struct status_builder *builder)
{
	struct flood_out out[REPORT_OUT];
	uint32_t count = flood_list(daemon->flood, out, REPORT_OUT);
	struct flood_stats flood;
	char name[32];

	flood_stats(daemon->flood, &flood);
	for (uint32_t i = 0; status_names_all(builder) && i < count && i < REPORT_OUT; i++) {
		snprintf(name, sizeof(name), "process %u", out[i].pid);
		status_text(builder, "probes", name, true,
			    "hit probes %.0f times a second, about %.0f %% of a CPU%s: its %s are "
			    "not traced for %lu s",
			    out[i].rate, 100 * out[i].share,
			    out[i].for_host ? ", while the kernel's workers fell behind" : "",
			    flood_calls(out[i].of), out[i].left_ns / (uint64_t)NS_PER_S + 1);
	}
	status_number(builder, "probes", "left_out", false, (int64_t)count,
		      "%u processes called too often and are left out, %lu have been", count,
		      flood.processes);
	status_number(
		builder, "probes", "tensors_left_out", false, (int64_t)flood.unwatched,
		"%u processes whose tensors are not followed, as it would not be within their "
		"budget",
		flood.unwatched);
}

static void report_kernel(struct daemon *daemon, const struct probe_stats *probe,
			  struct status_builder *builder)
{
	struct maps_stats maps;
	struct utsname name;

	uname(&name);
	maps_stats(daemon->maps, &maps);
	status_text(builder, "kernel", "release", false, "%s", name.release);
	status_text(builder, "kernel", "attach", false, "%s", way_text[probe->way]);
	if (!procfs_is_host())
		status_text(
			builder, "kernel", "namespace", true,
			"not the host's PIDs: stacks have no function names, processes no command");
	status_text(builder, "kernel", "mappings", !maps.live, "%s",
		    maps.live ? "perf events: new libraries are found at once"
			      : "no perf events: new libraries are found within seconds");
	report_workers(daemon, builder);
}

static void report_ring(const struct probe_stats *probe, struct status_builder *builder)
{
	char text[UNITS_TEXT_SIZE];

	status_number(builder, "probes", "events", false, (int64_t)probe->records, "%lu received",
		      probe->records);
	status_number(builder, "probes", "ring_bytes", false, (int64_t)probe->ring_bytes, "%s",
		      units_bytes(text, probe->ring_bytes));
}

/* Which calls are seen at their start only. */
static void report_returns(const struct probe_stats *probe, struct status_builder *builder)
{
	const char *why = trial_text(probe->returns);

	if (why && probe->returns_error)
		status_text(builder, "probes", "returns", true, "%s (%s)", why,
			    strerror(probe->returns_error));
	else if (why)
		status_text(builder, "probes", "returns", true, "%s", why);
	else if (probe->without_return)
		status_number(builder, "probes", "returns", false, probe->without_return,
			      "%u functions are not probed at their return, as the settings say: "
			      "their calls have no result, no duration, and what they allocate is "
			      "not known",
			      probe->without_return);
}

/* Where a file is may say whose it is. */
static const char *path_for(const struct status_builder *builder, const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && !status_names_all(builder) ? slash + 1 : path;
}

static void report_slow(const struct library_copy *library, struct status_builder *builder)
{
	const char *name;

	for (uint32_t i = 0; i < REPORT_SLOW && (name = probe_library_slow(library->probes, i));
	     i++)
		status_text(builder, "probes", "slow", true,
			    "%s of %s is single-stepped: about 10 us per call instead of 0.7", name,
			    path_for(builder, library->path));
}

static void report_hooked(const struct library_copy *library, struct status_builder *builder)
{
	uint32_t pid = 0;

	for (enum probe_group group = 0; !pid && group < PROBE_GROUPS; group++)
		pid = links_hooked(&library->links[group]);
	if (pid)
		status_text(builder, "libraries", "hooked", true,
			    "Process %u has an inline hook in '%s', over which a probe would crash "
			    "it: it is not watched",
			    pid, library->path);
}

static void report_library(const struct library_copy *library, struct status_builder *builder)
{
	const char *path = path_for(builder, library->path);
	const char *use = library->mapped ? "in use" : "not in use (standing)";
	struct probe_library_stats stats;
	char who[COPY_WHO];

	if (library->keeper) {
		status_text(
			builder, "libraries", path, true,
			"Process %u keeps the lock of its memory while probes are put on or taken "
			"off: no process of this host may be able to fork",
			library->keeper);
		return;
	}
	if (library->busy) /* shown when it has its probes, or cannot have them */
		return;
	if (library->dormant) {
		status_text(builder, "libraries", path, false,
			    "no probes: no process that maps it uses a driver");
		return;
	}
	if (library->error == -ENOENT || library->error == -EBADMSG) {
		status_text(builder, "libraries", path, false, "not a driver library");
		return;
	}
	if (copy_is_put_off(library)) {
		copy_in_way(library, who);
		status_text(builder, "libraries", path, true, "no probes yet. %s%s", who,
			    library->error == -EBUSY
				    ? ""
				    : ", and this kernel cannot leave one process out");
		return;
	}
	if (!library->probes) {
		status_text(builder, "libraries", path, true, "no probes: %s",
			    strerror(-library->error));
		return;
	}
	probe_library_stats(library->probes, &stats);
	status_number(builder, "libraries", path, stats.failed, stats.functions,
		      "%u functions, %u with return probe, %u single-step%s, %s", stats.functions,
		      stats.returns, stats.single_steps, stats.failed ? ", some failed" : "", use);
	report_hooked(library, builder);
	report_slow(library, builder);
}

static void report_refused(struct daemon *daemon, struct status_builder *builder)
{
	struct maps_stats maps;

	maps_stats(daemon->maps, &maps);
	if (maps.refused)
		status_number(builder, "libraries", "refused", true, (int64_t)maps.refused,
			      "%lu copies have no probes: their user's processes map as many as "
			      "one user may",
			      maps.refused);
	for (int i = 0; i < DAEMON_REFUSED; i++) {
		const struct refused_copies *of = &daemon->refused[i];

		if (of->count && status_names_user(builder, of->user))
			status_text(builder, "libraries", "refused_to", true,
				    "user %u: %lu copies, the last '%s' of process %u", of->user,
				    of->count, of->path, of->pid);
	}
}

static void report_cpus(const struct probe_stats *probe, const struct probe_counters *cpu,
			struct status_builder *builder)
{
	char name[32];

	for (uint32_t i = 0; i < probe->cpus && i < REPORT_CPUS; i++) {
		if (!cpu[i].dropped && !cpu[i].limited && !cpu[i].lost_calls)
			continue;
		snprintf(name, sizeof(name), "cpu%u", i);
		status_number(builder, "loss", name, true, (int64_t)cpu[i].dropped,
			      "%llu dropped, %llu rate-limited, %llu without state", cpu[i].dropped,
			      cpu[i].limited, cpu[i].lost_calls);
	}
}

/* How stacks ended that were not walked by the programs alone. */
static void report_unwinding(struct daemon *daemon, const struct probe_stats *probe,
			     struct status_builder *builder)
{
	static const char *const ends[TS_END_COUNT] = {
#define X(number, identifier, name, text) [TS_END_##identifier] = text,
		TS_STACK_ENDS(X)
#undef X
	};
	struct unwinder_stats stats;
	struct exact_stats exact;

	if (!daemon->probe_config.unwind)
		return;
	exact_stats(daemon->exact, &exact);
	unwinder_stats(daemon->unwinder, &stats);
	status_number(builder, "unwinding", "stacks", false, (int64_t)stats.walks,
		      "%lu, %lu of them through frame pointers", stats.walks, stats.linked);
	for (int i = 0; i < TS_END_COUNT; i++)
		if (stats.end[i])
			status_number(builder, "unwinding", "ended", false, (int64_t)stats.end[i],
				      "%lu %s", stats.end[i], ends[i]);
	status_number(builder, "unwinding", "late", stats.late, (int64_t)stats.late,
		      "%lu that took too long, %lu in all not walked for lack of time", stats.late,
		      stats.cut);
	status_number(builder, "unwinding", "waiting", false, probe->parked,
		      "%u processes whose mappings are not known yet", probe->parked);
	status_number(builder, "unwinding", "rules", false, (int64_t)stats.filed,
		      "%lu, %lu of them replaced", stats.filed, stats.replaced);
	status_number(builder, "unwinding", "unread_stacks", false,
		      (int64_t)probe->total.unread_stacks, "%llu reads of a stack failed",
		      probe->total.unread_stacks);
	status_number(builder, "unwinding", "held", probe->total.stacks_wrong,
		      (int64_t)probe->total.stacks_held,
		      "%llu stacks were as the thread's last one, %llu wrongly so",
		      probe->total.stacks_held, probe->total.stacks_wrong);
	status_number(builder, "unwinding", "inside", false, (int64_t)exact.walked,
		      "%lu stacks of light mode were known without the kernel", exact.walked);
}

static void report_python(struct daemon *daemon, struct status_builder *builder)
{
	struct pythons_stats stats;
	struct freed_stats freed;

	if (!daemon->probe_config.python_depth)
		return;
	pythons_stats(daemon->pythons, &stats);
	status_number(builder, "python", "processes", false, (int64_t)stats.found,
		      "%lu, and %lu with a Python that is not supported or cannot be read",
		      stats.found, stats.unsupported + stats.unreadable);
	freed_stats(daemon->freed, &freed);
	status_number(builder, "python", "counted", false, (int64_t)freed.counted,
		      "of %u it is counted how much code they free, %lu times one freed too much",
		      freed.counted, freed.paused);
	status_number(builder, "python", "frames", false, (int64_t)stats.named,
		      "%lu named, %lu no longer had their code", stats.named, stats.gone);
	status_number(builder, "python", "late", stats.late, (int64_t)stats.late,
		      "%lu stacks got no names in time", stats.late);
}

static void report_loss(struct daemon *daemon, const struct probe_stats *probe,
			struct status_builder *builder)
{
	struct intake_stats intake;
	struct core_stats core;
	struct maps_stats maps;
	uint64_t unlined = daemon->lines ? lines_dropped(daemon->lines) : 0;

	core_stats(daemon->core, &core);
	maps_stats(daemon->maps, &maps);
	intake_stats(daemon->turn.intake, &intake);
#define X(name, text)                                                                              \
	status_number(builder, "loss", #name, probe->total.name, (int64_t)probe->total.name,       \
		      "%llu %s", probe->total.name, text);
	PROBE_COUNTERS(X)
#undef X
	status_number(builder, "loss", "bad_events", core.bad, (int64_t)core.bad,
		      "%lu malformed events", core.bad);
	status_number(builder, "loss", "stray_events", core.stray, (int64_t)core.stray,
		      "%lu events of unknown processes", core.stray);
	status_number(builder, "loss", "unordered_events", intake.unordered,
		      (int64_t)intake.unordered,
		      "%lu events that could wait no longer for earlier ones", intake.unordered);
	status_number(builder, "loss", "late_events", false, (int64_t)intake.late,
		      "%lu events that came after later ones", intake.late);
	status_number(builder, "loss", "limited_things", core.limited, (int64_t)core.limited,
		      "%lu objects beyond the daemon's limits", core.limited);
	status_number(builder, "loss", "mappings_lost", maps.lost, (int64_t)maps.lost,
		      "%lu mapping records lost", maps.lost);
	status_number(builder, "loss", "mappings_late", maps.late, (int64_t)maps.late,
		      "%lu processes that let nobody look into their memory", maps.late);
	status_number(builder, "loss", "mappings_limited", maps.limited, (int64_t)maps.limited,
		      "%lu processes, mappings or files beyond the limits", maps.limited);
	status_number(builder, "loss", "stacks_unnamed", daemon->stacks_unnamed,
		      (int64_t)daemon->stacks_unnamed, "%lu stacks without function names",
		      daemon->stacks_unnamed);
	status_number(builder, "loss", "stacks_unlined", false, (int64_t)unlined,
		      "%lu stacks without the lines of their functions", unlined);
}

static void report_model(struct daemon *daemon, struct status_builder *builder)
{
	struct core_stats core;

	core_stats(daemon->core, &core);
	status_number(builder, "model", "processes", false, (int64_t)core.processes, "%lu",
		      core.processes);
	status_number(builder, "model", "streams", false, (int64_t)core.streams, "%lu",
		      core.streams);
	status_number(builder, "model", "allocations", false, (int64_t)core.allocations, "%lu live",
		      core.allocations);
	status_number(builder, "model", "pending_ops", false, (int64_t)core.pending,
		      "%lu not yet known to have finished", core.pending);
}

static void report_failed(void *data, uint32_t pid, const char *why)
{
	char name[32];

	snprintf(name, sizeof(name), "process %u", pid);
	status_text(data, "exact", name, true, "cannot be recorded: %s", why);
}

static void report_exact(struct daemon *daemon, struct status_builder *builder)
{
	char text[UNITS_TEXT_SIZE];
	struct exact_stats exact;
	struct core_stats core;

	exact_stats(daemon->exact, &exact);
	core_stats(daemon->core, &core);
	status_number(builder, "exact", "processes", false, exact.collecting,
		      "%u recorded, %u of them attached", exact.collecting, exact.attached);
	status_number(builder, "exact", "records", false, (int64_t)exact.inject.records,
		      "%lu received", exact.inject.records);
	status_number(builder, "exact", "records_lost", exact.inject.dropped || exact.inject.stuck,
		      (int64_t)(exact.inject.dropped + exact.inject.stuck),
		      "%lu lost to a full ring, %lu with a thread that died", exact.inject.dropped,
		      exact.inject.stuck);
	status_number(builder, "exact", "ops", false, (int64_t)core.exact,
		      "%lu with exact times, %lu of them matched to their call", core.exact,
		      core.joined);
	status_number(builder, "exact", "attaches", false, (int64_t)exact.attaches,
		      "%lu, %lu failed", exact.attaches, exact.failed);
	if (exact.attaches)
		status_number(builder, "exact", "longest_stop_ns", false,
			      (int64_t)exact.longest_stop_ns, "%s",
			      units_nanoseconds(text, exact.longest_stop_ns));
	status_text(builder, "exact", "library", access(daemon->library, R_OK) < 0, "%s",
		    daemon->library);
	if (status_names_all(builder))
		exact_failed(daemon->exact, report_failed, builder);
}

static void report_store(struct daemon *daemon, struct status_builder *builder)
{
	char text[UNITS_TEXT_SIZE], aside[PATH_MAX];
	struct store_stats store;

	store_stats(daemon->store, &store);
	status_text(builder, "store", "path", false, "%s", daemon->database);
	if (daemon_aside(daemon, aside))
		status_text(builder, "store", "set_aside", true,
			    "%s has what was before: it was too damaged to be used; move it away",
			    aside);
	status_number(builder, "store", "database_bytes", false, (int64_t)store.database_bytes,
		      "%s", units_bytes(text, store.database_bytes));
	status_number(builder, "store", "ops_written", false, (int64_t)store.ops_written, "%lu",
		      store.ops_written);
	status_number(builder, "store", "ops_dropped", store.ops_dropped,
		      (int64_t)store.ops_dropped, "%lu", store.ops_dropped);
	status_number(builder, "store", "rows_dropped", store.rows_dropped,
		      (int64_t)store.rows_dropped, "%lu", store.rows_dropped);
	if (store.ops_written)
		status_number(builder, "store", "bytes_per_op", false,
			      (int64_t)(store.chunk_bytes / store.ops_written), "%.2f as written",
			      (double)store.chunk_bytes / (double)store.ops_written);
	if (store.last_error < 0)
		status_text(builder, "store", "state", true, "cannot write: %s",
			    strerror(-store.last_error));
	else
		status_text(builder, "store", "state", false, "writing");
	if (store.last_error < 0)
		status_number(builder, "store", "ops_held", true, (int64_t)store.ops_held,
			      "%lu held in memory", store.ops_held);
}

void daemon_report(void *data, struct status_builder *builder)
{
	static struct probe_counters cpu[REPORT_CPUS];
	struct daemon *daemon = data;
	const struct library_copy *library;
	struct probe_stats probe;

	probe_stats(daemon->probe, &probe, cpu, REPORT_CPUS);
	report_daemon(daemon, builder);
	report_filters(daemon, builder);
	report_kernel(daemon, &probe, builder);
	report_ring(&probe, builder);
	report_returns(&probe, builder);
	report_left_out(daemon, builder);
	for (uint32_t i = 0; (library = libraries_get(daemon->libraries, i)); i++)
		report_library(library, builder);
	report_refused(daemon, builder);
	if (!libraries_get(daemon->libraries, 0))
		status_text(builder, "libraries", "none", true,
			    "no process maps a driver library; new ones are found automatically");
	report_model(daemon, builder);
	report_exact(daemon, builder);
	daemon_report_price(daemon, builder);
	report_unwinding(daemon, &probe, builder);
	report_python(daemon, builder);
	report_loss(daemon, &probe, builder);
	report_cpus(&probe, cpu, builder);
	report_store(daemon, builder);
}
