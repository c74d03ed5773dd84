/* Daemon: owns every part, connects them, and decides the order of start and stop.
 *
 * All state lives on the loop. A part starts after those that it calls, and stops before them: the
 * clients go first, then the probes, then what is still in the model goes to the store, which
 * closes last.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/clock.h"
#include "core/store/thread.h"
#include "daemon/daemon_internal.h"
#include "daemon/library/library.h"
#include "daemon/limits.h"
#include "daemon/notify.h"
#include "daemon/proc/opener.h"
#include "daemon/proc/procfs.h"
#include "proto/paths.h"

#define FILES_MAX     65536
#define MALLOC_ARENAS 2

static void daemon_on_record(void *data, const void *record, size_t size)
{
	static const struct core_origin bpf = { .pid = 0 };
	const struct ts_event *event = record;
	struct daemon *daemon = data;
	struct ts_event settled;

	if (daemon->exact && (event->kind == TS_EVENT_EXIT || event->kind == TS_EVENT_EXEC))
		exact_over(daemon->exact, event->tgid);
	if (!daemon_price_event(daemon, event))
		return;
	/* First: what links have missed of it belongs to it. */
	if (event->kind == TS_EVENT_EXEC)
		daemon_settle_doubts(daemon, event->tgid);
	if (event->kind == TS_EVENT_EXIT && daemon->libraries) {
		libraries_process_exits(daemon->libraries, event->tgid,
					event->process.started_ns -
						(uint64_t)daemon->boot_offset_ns);
		daemon_end_missed(daemon, event->tgid, event->start_ns);
	}
	sink_announcement(daemon, record, size);
	if (daemon_settle(daemon, event, &settled)) {
		record = event = &settled;
		size = sizeof(settled);
	}
	if (exact_stack_told(daemon->exact, event))
		core_ingest(daemon->core, &bpf, record, size);
	daemon_stir(daemon);
}

static void daemon_on_watchdog(uv_timer_t *timer)
{
	notify_post("WATCHDOG=1");
}

static void daemon_stop(struct daemon *daemon)
{
	uv_stop(&daemon->loop);
}

static void daemon_on_terminate(uv_signal_t *signal, int number)
{
	daemon_stop(signal->data);
}

/* One daemon per directory: two would write to one database. The lock ends with the process. */
static int daemon_lock(struct daemon *daemon)
{
	const char *directory = daemon->config->state_dir;
	_cleanup_(freep) char *path = NULL;

	if (mkdir(directory, 0700) < 0 && errno != EEXIST)
		return log_error_errno(-errno, "Cannot create the state directory '%s'", directory);
	if (asprintf(&path, "%s/lock", directory) < 0)
		return -ENOMEM;
	/* A file of our own: whoever can open a directory could lock it. */
	daemon->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (daemon->lock < 0)
		return log_error_errno(-errno, "Cannot open '%s'", path);
	if (flock(daemon->lock, LOCK_EX | LOCK_NB) < 0) {
		log_error("Another tracesmithd uses '%s': stop it, or give this one another "
			  "--state-dir",
			  directory);
		return -EBUSY;
	}
	return 0;
}

/* It was written by a former version. */
static void daemon_tell_sums(struct daemon *daemon)
{
	struct store_stats stats;

	store_stats(daemon->store, &stats);
	if (!stats.summed)
		log_warning("'%s' has no checksums, so damage to it may go unnoticed: it is larger "
			    "than 2 GiB, or there was no room to write it anew; move it away to "
			    "start with a new one",
			    daemon->database);
}

static int daemon_start_store(struct daemon *daemon)
{
	struct store_config config = {
		.path = daemon->database,
		.boot_id = daemon->boot_id,
		.wall_offset_ns = daemon->wall_offset_ns,
		.first_id = store_first_id(clock_ns(CLOCK_REALTIME)),
		.functions = library_functions(),
		.keep_ns = daemon->config->keep_ns,
		.keep_bytes = daemon->config->keep_bytes,
		.library_code = daemon->config->library_code,
	};
	int r = daemon_open_store(daemon, &config);

	if (r == -EPROTO)
		return log_error_errno(r,
				       "'%s' was written by a newer version: use that version, or "
				       "another state_dir",
				       daemon->database);
	if (r == -EBADMSG)
		return log_error_errno(
			r,
			"'%s' is not a database of tracesmithd, or no longer: move it "
			"away to start with a new one",
			daemon->database);
	if (r < 0)
		return log_error_errno(r, "Cannot open the database '%s'", daemon->database);
	daemon_tell_sums(daemon);
	return 0;
}

static int daemon_start_core(struct daemon *daemon, struct store_resume *resume)
{
	struct core_config config = {
		.functions = library_functions(),
		.sink = daemon_sink,
		.data = daemon,
		.one_device = library_device_count() == 1,
		.bounds_wait_ns = daemon->config->bounds_wait_ns,
		.max_processes = LIMIT_PROCESSES,
		.max_threads = LIMIT_THREADS,
		.max_streams = LIMIT_STREAMS,
		.max_events = LIMIT_EVENTS,
		.max_pending = LIMIT_PENDING,
		.max_rollups = LIMIT_ROLLUPS,
		.max_allocations = LIMIT_ALLOCATIONS,
		.max_growths = LIMIT_GROWTHS,
		.max_waiting = LIMIT_WAITING,
		.max_names = LIMIT_NAMES,
		.max_edges = LIMIT_EDGES,
	};
	int r = store_resume(daemon->store, resume);

	if (r < 0)
		return log_error_errno(r, "Cannot read '%s'", daemon->database);
	config.next_process = resume->next_process;
	daemon->next_process = resume->next_process;
	config.next_stream = resume->next_stream;
	config.next_allocation = resume->next_allocation;
	config.next_oom = resume->next_oom;
	return core_new(&config, &daemon->core);
}

/* A process that a former daemon knew either still runs, and continues, or ended unseen. */
static void daemon_resume_process(void *data, const struct core_process *process)
{
	struct daemon *daemon = data;
	struct core_process ended = *process;
	struct core_loss loss = { .process = process->id, .reason = LOSS_DISCONNECTED, .count = 1 };
	bool collected = store_resume_collect(daemon->store, process->id, &loss.start_ns) > 0;
	uint64_t ticks;

	if (procfs_started_ticks(process->pid, &ticks) == 0 && ticks == process->started_ticks) {
		if (core_restore_process(daemon->core, process) == 0)
			store_resume_state(daemon->store, process->id, daemon->core);
		/* Now, as it may end before it is found by a look at all processes. */
		if (maps_follow(daemon->maps, process->pid) == -ESRCH)
			core_process_gone(daemon->core, process->pid, uv_hrtime());
		if (collected)
			core_restore_collect(daemon->core, process->id, loss.start_ns);
		return;
	}
	ended.exit_ns = loss.end_ns = uv_hrtime();
	store_add(daemon->store, &ended);
	if (collected)
		core_lose(daemon->core, &loss);
}

static void daemon_resume(struct daemon *daemon)
{
	int r = store_resume_processes(daemon->store, daemon_resume_process, daemon);

	if (r < 0)
		log_warning_errno(r, "Failed to read the state saved by the previous daemon, "
				     "starting without it");
}

/* The probes are on: what a former daemon saw ended before. */
static void daemon_watch(struct daemon *daemon, const struct store_resume *resume)
{
	struct core_loss gap = { .start_ns = resume->pending_ns,
				 .reason = LOSS_NO_DAEMON,
				 .count = 1 };

	daemon->watching_ns = gap.end_ns = uv_hrtime();
	if (resume->last_ns)
		core_lose(daemon->core, &gap);
}

static int daemon_start_probes(struct daemon *daemon)
{
	struct probe_callbacks callbacks = { daemon_on_record, daemon_on_miss, daemon_on_turn };
	struct libraries_callbacks gaps = {
		.waits = daemon_waits,
		.waited = daemon_waited,
		.late = daemon_late,
		.missing = daemon_missing,
		.seen = daemon_seen,
		.is_out = daemon_is_out,
		.data = daemon,
	};
	struct libraries_found standing;
	struct probe_config config;
	int r;

	r = config_probe(daemon->config, &config);
	if (r < 0)
		return r;
	daemon_choose_unwind(daemon, &config);
	daemon->probe_config = config;
	r = turn_init(&daemon->turn, &daemon->loop, intake_sources, INTAKE_SOURCES);
	if (r < 0)
		return r;
	r = probe_new(&daemon->loop, daemon->turn.intake, daemon->broker, &config, &callbacks,
		      daemon, &daemon->probe);
	if (r < 0)
		return r;
	r = daemon_start_unwinder(daemon);
	if (r < 0)
		return r;
	r = libraries_new(&daemon->loop, daemon->probe, &gaps, &daemon->libraries);
	if (r < 0)
		return r;
	r = daemon_start_freed(daemon);
	if (r < 0)
		return r;
	r = daemon_start_price(daemon);
	if (r < 0)
		return r;
	r = daemon_start_flood(daemon);
	if (r < 0)
		return r;
	libraries_find_standing(daemon->config->standing, &standing);
	libraries_add_standing(daemon->libraries, &standing);
	libraries_found_clear(&standing);
	r = maps_scan(daemon->maps);
	if (r < 0)
		log_warning_errno(r, "Failed to read the current mappings of processes");
	return 0;
}

static void daemon_start_timers(struct daemon *daemon)
{
	uint64_t watchdog_ms = notify_watchdog_ms();

	uv_signal_start(&daemon->on_terminate, daemon_on_terminate, SIGTERM);
	uv_signal_start(&daemon->on_interrupt, daemon_on_terminate, SIGINT);
	uv_signal_start(&daemon->on_hangup, daemon_on_hangup, SIGHUP);
	daemon_tick(daemon);
	if (watchdog_ms)
		uv_timer_start(&daemon->watchdog, daemon_on_watchdog, watchdog_ms, watchdog_ms);
}

static int daemon_init(struct daemon *daemon)
{
	struct rlimit files;
	int r = uv_loop_init(&daemon->loop);

	if (r < 0)
		return r;
	uv_signal_init(&daemon->loop, &daemon->on_terminate);
	uv_signal_init(&daemon->loop, &daemon->on_interrupt);
	uv_signal_init(&daemon->loop, &daemon->on_hangup);
	uv_timer_init(&daemon->loop, &daemon->tick);
	uv_timer_init(&daemon->loop, &daemon->watchdog);
	uv_timer_init(&daemon->loop, &daemon->late);
	uv_unref((uv_handle_t *)&daemon->late);
	r = meter_start(&daemon->meter, &daemon->loop);
	if (r < 0)
		return r;
	daemon->on_terminate.data = daemon->on_interrupt.data = daemon->on_hangup.data = daemon;
	daemon->tick.data = daemon->watchdog.data = daemon->late.data = daemon;
	daemon->started_ns = daemon->counted_ns = uv_hrtime();
	daemon->boot_offset_ns = (int64_t)(clock_ns(CLOCK_BOOTTIME) - clock_ns(CLOCK_MONOTONIC));
	daemon->wall_offset_ns = (int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
	/* A file for each library and each followed file, two for each probe in the perf way. */
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max < FILES_MAX ? files.rlim_max : FILES_MAX;
	setrlimit(RLIMIT_NOFILE, &files);
	/* An arena for each thread of the pool would keep the memory of its largest query: 10
	 * MiB. */
	mallopt(M_ARENA_MAX, MALLOC_ARENAS);
	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file that may not get larger is a full disk */
	return procfs_boot_id(daemon->boot_id);
}

static int daemon_start(struct daemon *daemon)
{
	struct store_resume resume;
	int r;

	if (!procfs_has_host_clock()) {
		log_error(
			"This time namespace has a clock of its own, and the kernel's events have "
			"the host's: start tracesmithd outside of it");
		return -EOPNOTSUPP;
	}
	r = daemon_lock(daemon);
	if (r < 0)
		return r;
	r = daemon_follow_others(daemon);
	if (r < 0)
		return r;
	r = daemon_start_store(daemon);
	if (r < 0)
		return r;
	/* Clients are answered when the loop runs, but a socket that is already in use is noticed
	 * before the probes are on. */
	r = daemon_start_api(daemon);
	if (r < 0)
		return r;
	r = daemon_start_core(daemon, &resume);
	if (r < 0)
		return r;
	r = users_new(&daemon->loop, daemon_user_named, daemon, &daemon->users);
	if (r < 0)
		return r;
	r = symbolizer_new(&daemon->loop, daemon_stack_named, daemon, &daemon->symbolizer);
	if (r < 0)
		return r;
	r = daemon_start_helpers(daemon);
	if (r < 0)
		return r;
	r = daemon_start_stacks(daemon);
	if (r < 0)
		return r;
	r = daemon_start_maps(daemon);
	if (r < 0)
		return r;
	daemon_resume(daemon);
	r = daemon_start_probes(daemon);
	if (r < 0)
		return r;
	daemon_watch(daemon, &resume);
	r = daemon_start_exact(daemon);
	if (r < 0)
		return r;
	daemon_start_timers(daemon);
	if (!procfs_is_host())
		log_warning("This is not the host's PID namespace: calls are counted, but stacks "
			    "have no function names and processes no command; start tracesmithd "
			    "with the host's PIDs");
	return 0;
}

int daemon_new(struct config *config, const char *config_path, struct daemon **ret)
{
	struct daemon *daemon = calloc(1, sizeof(*daemon));
	int r;

	if (!daemon)
		return -ENOMEM;
	daemon->config = config;
	daemon->lock = -1;
	daemon->zygote = -1;
	list_init(&daemon->gone);
	daemon_start_ledger(daemon);
	daemon->config_path = strdup(config_path);
	if (!daemon->config_path ||
	    asprintf(&daemon->database, "%s/tracesmith.db", config->state_dir) < 0)
		r = -ENOMEM;
	else
		r = daemon_start_broker(daemon);
	if (!r)
		r = daemon_confine(daemon);
	if (!r)
		r = daemon_find_library(daemon);
	if (!r)
		r = daemon_start_zygote(daemon);
	if (!r)
		r = opener_start(OPENER_OF_LOOP, -1);
	if (!r)
		r = daemon_confine_wholly(daemon);
	if (!r)
		r = daemon_init(daemon);
	if (!r)
		r = daemon_start(daemon);
	if (r < 0) {
		daemon_free(daemon);
		return r;
	}
	*ret = daemon;
	return 0;
}

int daemon_run(struct daemon *daemon)
{
	/* It would wait for a CPU each time that it is woken, up to 20 ms on a busy host: a thread
	 * launches thousands of kernels in that time, whose stacks and events fill the ring. */
	thread_hurry();
	libraries_go(daemon->libraries);
	notify_send("READY=1");
	log_info("Tracing this host; try 'tsctl --socket %s status'",
		 daemon->config->control_socket);
	uv_run(&daemon->loop, UV_RUN_DEFAULT);
	notify_send("STOPPING=1");
	return daemon->failed ? -EIO : 0;
}

/* The loop runs until everything is closed: nobody waits for a single part. */
static void daemon_part_closed(void *data)
{
}

/* The timers and signals would keep the loop alive while a part shuts down. */
static void daemon_close_handles(struct daemon *daemon)
{
	uv_handle_t *handles[] = {
		(uv_handle_t *)&daemon->on_terminate,
		(uv_handle_t *)&daemon->on_interrupt,
		(uv_handle_t *)&daemon->on_hangup,
		(uv_handle_t *)&daemon->tick,
		(uv_handle_t *)&daemon->watchdog,
		(uv_handle_t *)&daemon->other_ends[DAEMON_BROKER],
		(uv_handle_t *)&daemon->other_ends[DAEMON_ZYGOTE],
		(uv_handle_t *)&daemon->other_ends[DAEMON_OPENER],
	};

	for (size_t i = 0; i < ARRAY_SIZE(handles); i++)
		if (handles[i]->loop)
			uv_close(handles[i], NULL);
}

static void daemon_on_late(uv_timer_t *timer)
{
	daemon_stop(timer->data);
}

static void daemon_close_parts(struct daemon *daemon)
{
	/* From now on probes are taken off, one after another. */
	if (daemon->maps && daemon->turn.intake) {
		daemon_tell_missed(daemon, uv_hrtime());
		daemon_note_told(daemon, daemon->ledger_ns);
	}
	daemon_close_handles(daemon);
	meter_close(&daemon->meter);
	if (daemon->api)
		api_close(daemon->api, daemon_part_closed);
	daemon_stop_price(daemon);
	if (daemon->flood)
		flood_close(TAKE(daemon->flood), daemon_part_closed);
	if (daemon->freed)
		freed_close(daemon->freed);
	if (daemon->libraries)
		libraries_close(daemon->libraries);
	daemon_stop_unwinder(daemon);
	if (daemon->turn.intake)
		daemon_empty(daemon, uv_hrtime());
	daemon_tell_gone(daemon, UINT64_MAX);
	if (daemon->turn.intake)
		daemon_tell_missed(daemon, uv_hrtime());
	if (daemon->exact)
		exact_close(TAKE(daemon->exact), daemon_part_closed);
	if (daemon->probe)
		probe_close(daemon->probe, daemon_part_closed);
	turn_close(&daemon->turn);
	if (daemon->core && daemon->store)
		core_flush(daemon->core, uv_hrtime());
	users_close(TAKE(daemon->users));
	/* What it answers goes to the symbolizer. */
	daemon->pythons = pythons_free(daemon->pythons);
	/* The symbolizer finishes its queue, and its answers go to the store. */
	if (daemon->symbolizer)
		symbolizer_close(daemon->symbolizer, daemon_part_closed);
	if (daemon->maps)
		maps_close(daemon->maps, daemon_part_closed);
	daemon_stop_helpers(daemon, daemon_part_closed);
}

/* Until all threads have answered. False: some have not, and still use what they were given. */
static bool daemon_run_out(struct daemon *daemon)
{
	if (!daemon->late.loop)
		return true;
	uv_timer_start(&daemon->late, daemon_on_late, LIMIT_STOP_MS, 0);
	if (uv_run(&daemon->loop, UV_RUN_DEFAULT))
		return false;
	uv_close((uv_handle_t *)&daemon->late, NULL);
	uv_run(&daemon->loop, UV_RUN_DEFAULT);
	return true;
}

bool daemon_free(struct daemon *daemon)
{
	bool idle;

	if (!daemon)
		return true;
	daemon_close_parts(daemon);
	idle = daemon_run_out(daemon);
	if (daemon->store)
		daemon_stop_store(daemon);
	if (!idle) {
		log_warning("Stopping without waiting any longer: a file system, the name service "
			    "or a process that is being attached to does not answer");
		return false;
	}
	store_free(daemon->store);
	core_free(daemon->core);
	stacks_free(daemon->stacks);
	map_clear(&daemon->settled);
	ledger_release(&daemon->ledger);
	uv_loop_close(&daemon->loop);
	config_free(daemon->config);
	free(daemon->library);
	free(daemon->database);
	free(daemon->config_path);
	if (libraries_free(daemon->libraries, LIMIT_STOP_PROBES_MS * NS_PER_MS) < 0)
		return false;
	freed_free(daemon->freed);
	calibrate_free(daemon->calibrate);
	probe_free(daemon->probe);
	broker_free(daemon->broker);
	closep(&daemon->zygote);
	closep(&daemon->lock);
	free(daemon);
	return true;
}
