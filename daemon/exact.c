/* Exact: the sessions of the exact tier, one for each process that carries our library.
 *
 * A session begins with an attach request or with a library's hello, and ends when its connection
 * has ended and, where we have put the library there, it is out of the process again. Whoever asked
 * (a ticket) is answered exactly once, when the session gets to what he asked for or cannot.
 */
#include "daemon/exact.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/list.h"
#include "core/base/log.h"
#include "daemon/source/attach.h"
#include "daemon/source/procfs.h"

/* The library says hello some milliseconds after it was started. CUPTI's set-up takes 10 to 50 ms,
 * but a program that has not called cuInit() yet may take its time. */
#define HELLO_MS  5000
#define BEGIN_MS  3000
#define DETACH_MS 10000
/* The pool's threads serve queries as well. */
#define JOBS_MAX 2

enum session_stage {
	SESSION_ASKED,	   /* waits for its turn in the pool */
	SESSION_INJECTING, /* a job of the pool puts the library in */
	SESSION_WAITING,   /* for its hello */
	SESSION_BEGINNING, /* connected; collects when the driver is ready */
	SESSION_COLLECTING,
	SESSION_LEAVING,   /* was told to detach */
	SESSION_STAYING,   /* gone, and waits for its turn in the pool */
	SESSION_UNLOADING, /* a job of the pool takes the library out */
};

struct session {
	struct list link;
	struct exact *exact;
	uint32_t pid;
	enum session_stage stage;
	bool attached; /* by us, so we take it out again */
	bool connected;
	bool unloadable; /* the library says so */
	uint64_t asked_ns;
	struct api_ticket *attach, *detach; /* who waits, or NULL */
	struct ts_settings settings;
	char library[TS_HELLO_TEXT]; /* which libcupti, as the library says */
	char note[TS_HELLO_TEXT];    /* what the user should know */
	uint32_t cupti_version, records_now;
	uint64_t records, lost;
	uv_timer_t timer;

	/* Of the job of the pool: */
	uv_work_t work;
	struct attach_request request;
	struct attach_result result;
	int error;
	char why[ATTACH_WHY_MAX];
};

struct exact {
	uv_loop_t *loop;
	struct exact_config config;
	struct exact_parts parts;
	struct inject *inject;
	struct list sessions;
	struct exact_stats stats;
	bool closing;
	uint32_t jobs; /* under way */
	uint32_t open; /* sessions whose timer is not closed yet, and the inject part */
	void (*closed)(void *data);
};

static void session_on_timer(uv_timer_t *timer);
static void exact_next_job(struct exact *exact);

/* A job of the pool has it. */
static bool session_is_busy(const struct session *session)
{
	return session->stage == SESSION_INJECTING || session->stage == SESSION_UNLOADING;
}

static struct session *session_find(const struct exact *exact, uint32_t pid)
{
	struct session *session;

	list_for_each(session, &exact->sessions, link)
		if (session->pid == pid)
			return session;
	return NULL;
}

static struct session *session_new(struct exact *exact, uint32_t pid)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		return NULL;
	session->exact = exact;
	session->pid = pid;
	session->asked_ns = uv_hrtime();
	session->request.library = -1;
	session->result.socket = -1;
	uv_timer_init(exact->loop, &session->timer);
	session->timer.data = session->work.data = session;
	list_append(&exact->sessions, &session->link);
	exact->open++;
	return session;
}

static void exact_part_closed(struct exact *exact)
{
	if (--exact->open)
		return;
	if (exact->closed)
		exact->closed(exact->parts.data);
	free(exact);
}

static void session_closed(uv_handle_t *timer)
{
	struct session *session = timer->data;
	struct exact *exact = session->exact;

	free(session);
	exact_part_closed(exact);
}

static void session_fail(struct session *session, int error, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Answers whoever waits, and forgets the session. */
static void session_end(struct session *session)
{
	session_fail(session, -ECANCELED, "Process %u has ended, or the daemon ends", session->pid);
	closep(&session->request.library);
	closep(&session->result.socket);
	list_remove(&session->link);
	uv_close((uv_handle_t *)&session->timer, session_closed);
}

static void session_fail(struct session *session, int error, const char *format, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (session->attach)
		api_ticket_fail(TAKE(session->attach), error, text);
	if (session->detach)
		api_ticket_fail(TAKE(session->detach), error, text);
}

static void session_answer_attach(struct session *session)
{
	const char *note[] = { session->note };
	struct api_attach_result result = {
		.stopped_ns = session->result.stopped_ns,
		.stops = session->result.stops,
		.library = session->library,
		.cupti_version = session->cupti_version,
		.records = session->records_now,
		.stacks = session->settings.stacks,
		.note = note,
		.note_count = session->note[0] != '\0',
	};

	uv_timer_stop(&session->timer);
	if (session->attach)
		api_attach_done(TAKE(session->attach), &result);
}

static void session_answer_detach(struct session *session, bool unloaded)
{
	const char *note[] = { session->note };
	struct api_detach_result result = {
		.records = session->records,
		.lost = session->lost,
		.unloaded = unloaded,
		.note = note,
		.note_count = session->note[0] != '\0',
	};

	if (session->detach)
		api_detach_done(TAKE(session->detach), &result);
}

/* The model knows a process from its first call of the driver on. One that has made none since we
 * look is told from /proc, or its records would be strays. */
static void session_announce(struct session *session)
{
	struct core *core = session->exact->parts.core;
	const struct core_origin kernel = { .pid = 0 };
	struct ts_event event = {
		.kind = TS_EVENT_PROCESS,
		.tgid = session->pid,
		.tid = session->pid,
		.start_ns = uv_hrtime(),
	};

	if (core_process_by_pid(core, session->pid))
		return;
	if (procfs_identity(session->pid, &event.process) == 0)
		core_ingest(core, &kernel, &event, sizeof(event));
}

static int on_hello(void *data, uint32_t pid, uint32_t uid, const struct ts_hello *hello,
		    struct ts_settings *ret_settings, char *why)
{
	struct exact *exact = data;
	struct session *session = session_find(exact, pid);

	if (session && session->stage != SESSION_WAITING && session->connected) {
		snprintf(why, TS_HELLO_TEXT, "process %u is connected already", pid);
		return -EALREADY;
	}
	if (!session)
		session = session_new(exact, pid);
	if (!session) {
		snprintf(why, TS_HELLO_TEXT, "the daemon has no memory for another process");
		return -ENOMEM;
	}
	session->connected = true;
	session->stage = SESSION_BEGINNING;
	session->settings = hello->wanted;
	if (!session->settings.records)
		session->settings.records = TS_RECORDS_DEFAULT;
	if (session->settings.stacks > TS_STACKS_ALL || !session->settings.stacks)
		session->settings.stacks = TS_STACKS_SAMPLED;
	probe_choose_stacks(exact->parts.probe, pid, (enum probe_choice)session->settings.stacks);
	session_announce(session);
	*ret_settings = session->settings;
	if (session->attach)
		uv_timer_start(&session->timer, session_on_timer, BEGIN_MS, 0);
	return 0;
}

static void on_record(void *data, uint32_t pid, const void *record, size_t size)
{
	const struct core_origin origin = { .pid = pid };
	const struct ts_event *event = record;
	struct exact *exact = data;
	struct session *session = session_find(exact, pid);

	/* The calls that the change is about may still be in the other ring. */
	if (event->kind == TS_EVENT_COLLECT)
		probe_drain(exact->parts.probe);
	core_ingest(exact->parts.core, &origin, record, size);
	exact->parts.stir(exact->parts.data);
	if (!session)
		return;
	session->records++;
	if (event->kind != TS_EVENT_COLLECT || size < sizeof(*event))
		return;
	session->records_now = event->collect.records;
	session->cupti_version = event->collect.cupti_version;
	/* Only now is it sure that records arrive. */
	if (session->stage == SESSION_COLLECTING)
		session_answer_attach(session);
}

static void session_leave(struct session *session)
{
	session->stage = SESSION_LEAVING;
	if (inject_detach(session->exact->inject, session->pid) == 0)
		uv_timer_start(&session->timer, session_on_timer, DETACH_MS, 0);
}

static void on_state(void *data, uint32_t pid, const struct ts_state *state)
{
	struct exact *exact = data;
	struct session *session = session_find(exact, pid);

	if (!session)
		return;
	switch (state->state) {
	case TS_LIBRARY_COLLECTING:
		snprintf(session->library, sizeof(session->library), "%s", state->text);
		if (session->stage == SESSION_BEGINNING)
			session->stage = SESSION_COLLECTING;
		inject_drain(exact->inject);
		if (session->records_now)
			session_answer_attach(session);
		break;
	case TS_LIBRARY_FAILED:
		log_info("Process %u cannot be collected from: %s", pid, state->text);
		session_fail(session, -EIO, "Process %u cannot be collected from: %s", pid,
			     state->text);
		if (session->attached)
			session_leave(session);
		break;
	case TS_LIBRARY_GONE:
		session->unloadable = state->unloadable;
		snprintf(session->note, sizeof(session->note), "%s", state->text);
		break;
	}
}

static void on_gone(void *data, uint32_t pid)
{
	struct exact *exact = data;
	struct session *session = session_find(exact, pid);

	probe_drain(exact->parts.probe);
	core_collect_gone(exact->parts.core, pid, uv_hrtime());
	if (!session)
		return;
	session->connected = false;
	uv_timer_stop(&session->timer);
	probe_choose_stacks(exact->parts.probe, pid, PROBE_CHOICE_DEFAULT);
	if (session->stage == SESSION_LEAVING) {
		exact->stats.detaches++;
		if (session->attached && session->unloadable && !exact->closing) {
			session->stage = SESSION_STAYING;
			exact_next_job(exact);
			return;
		}
		session_answer_detach(session, false);
	}
	session_end(session);
}

static void on_lost(void *data, uint32_t pid, uint64_t no_room, uint64_t stuck)
{
	struct exact *exact = data;
	struct session *session = session_find(exact, pid);
	const struct core_process *process = core_process_by_pid(exact->parts.core, pid);
	struct core_loss loss = {
		.start_ns = uv_hrtime(),
		.end_ns = uv_hrtime(),
		.process = process ? process->id : 0,
	};

	if (session)
		session->lost += no_room + stuck;
	loss.reason = LOSS_EXACT_RING;
	loss.count = no_room;
	if (no_room)
		core_lose(exact->parts.core, &loss);
	loss.reason = LOSS_RING_STUCK;
	loss.count = stuck;
	if (stuck)
		core_lose(exact->parts.core, &loss);
}

static void session_on_timer(uv_timer_t *timer)
{
	struct session *session = timer->data;

	switch (session->stage) {
	case SESSION_WAITING:
		session_fail(session, -EIO,
			     "Our library was put into process %u, but does not answer: try "
			     "'tsctl detach %u', then attach again",
			     session->pid, session->pid);
		session_end(session);
		break;
	case SESSION_BEGINNING:
	case SESSION_COLLECTING:
		snprintf(session->note, sizeof(session->note),
			 "The process has loaded the driver but not initialized it: collection "
			 "begins when it does");
		session->records_now = session->settings.records;
		session_answer_attach(session);
		break;
	default:
		session_fail(session, -EIO,
			     "Process %u does not answer the request to detach: is it stopped?",
			     session->pid);
		break;
	}
}

static void job_run(uv_work_t *work)
{
	struct session *session = work->data;

	if (session->stage == SESSION_INJECTING)
		session->error = attach_run(&session->request, &session->result, session->why);
	else
		session->error = attach_unload((pid_t)session->pid, session->request.started_ticks,
					       session->result.handle, session->why);
}

static void session_unloaded(struct session *session)
{
	if (session->error < 0)
		snprintf(session->note, sizeof(session->note), "%s", session->why);
	session_answer_detach(session, session->error == 0);
	session_end(session);
}

static void session_injected(struct session *session)
{
	struct exact *exact = session->exact;
	int r = session->error;

	if (r < 0) {
		exact->stats.failed++;
		session_fail(session, r, "%s", session->why);
		session_end(session);
		return;
	}
	exact->stats.attaches++;
	if (session->result.stopped_ns > exact->stats.longest_stop_ns)
		exact->stats.longest_stop_ns = session->result.stopped_ns;
	session->attached = true;
	session->stage = SESSION_WAITING;
	if (exact->closing) {
		session_end(session);
		return;
	}
	uv_timer_start(&session->timer, session_on_timer, HELLO_MS, 0);
	r = inject_adopt(exact->inject, TAKE_FD(session->result.socket), session->pid);
	if (r < 0) {
		session_fail(session, r, "Process %u was attached to, but cannot be followed: %s",
			     session->pid, strerror(-r));
		session_end(session);
	}
}

static void job_done(uv_work_t *work, int status)
{
	struct session *session = work->data;
	struct exact *exact = session->exact;

	exact->jobs--;
	if (session->stage == SESSION_INJECTING)
		session_injected(session);
	else
		session_unloaded(session);
	if (!exact->closing)
		exact_next_job(exact);
}

/* The pool runs a few of our jobs at a time, in the order in which they came. */
static void exact_next_job(struct exact *exact)
{
	struct session *session;

	list_for_each(session, &exact->sessions, link) {
		if (exact->jobs >= JOBS_MAX)
			return;
		if (session->stage == SESSION_ASKED)
			session->stage = SESSION_INJECTING;
		else if (session->stage == SESSION_STAYING)
			session->stage = SESSION_UNLOADING;
		else
			continue;
		/* It fails only without a function to run. */
		if (uv_queue_work(exact->loop, &session->work, job_run, job_done) == 0)
			exact->jobs++;
	}
}

void exact_attach(struct exact *exact, struct api_ticket *ticket, const struct api_attach *request)
{
	struct session *session = session_find(exact, request->target.pid);
	char text[256];
	int library;

	if (session) {
		snprintf(text, sizeof(text),
			 "Process %u is collected from already: see 'tsctl ps'; 'tsctl detach %u' "
			 "ends it",
			 session->pid, session->pid);
		api_ticket_fail(ticket, -EALREADY, text);
		return;
	}
	library = open(exact->config.library, O_RDONLY | O_CLOEXEC);
	if (library < 0) {
		snprintf(text, sizeof(text), "Cannot open the library '%s': %s; is it installed?",
			 exact->config.library, strerror(errno));
		api_ticket_fail(ticket, -EIO, text);
		return;
	}
	session = session_new(exact, request->target.pid);
	if (!session) {
		close(library);
		api_ticket_fail(ticket, -ENOMEM, "The daemon has no memory for another process");
		return;
	}
	session->attach = ticket;
	session->request = (struct attach_request){
		.pid = (pid_t)request->target.pid,
		.started_ticks = request->target.started_ticks,
		.library = library,
		.wanted = request->wanted,
		.seccomp = request->seccomp,
	};
	exact_next_job(exact);
}

void exact_detach(struct exact *exact, struct api_ticket *ticket, const struct api_target *target)
{
	struct session *session = session_find(exact, target->pid);
	char text[256];

	if (!session || !session->connected || session->detach) {
		snprintf(text, sizeof(text), "Process %u is %s", target->pid,
			 session && session->detach ? "being detached from already"
						    : "not attached to: see 'tsctl ps'");
		api_ticket_fail(ticket, -ENOENT, text);
		return;
	}
	session->detach = ticket;
	session_leave(session);
}

void exact_drain(struct exact *exact, uint32_t pid)
{
	if (exact->inject && inject_has(exact->inject, pid))
		inject_drain(exact->inject);
}

void exact_drain_all(struct exact *exact)
{
	if (exact->inject)
		inject_drain(exact->inject);
}

int exact_new(uv_loop_t *loop, const struct exact_config *config, const struct exact_parts *parts,
	      struct exact **ret)
{
	const struct inject_config inject = {
		.fd = config->fd,
		.path = config->socket,
		.slots = config->slots,
	};
	const struct inject_callbacks callbacks = {
		.hello = on_hello,
		.record = on_record,
		.state = on_state,
		.gone = on_gone,
		.lost = on_lost,
	};
	struct exact *exact = calloc(1, sizeof(*exact));
	int r;

	if (!exact)
		return -ENOMEM;
	exact->loop = loop;
	exact->config = *config;
	exact->parts = *parts;
	exact->open = 1;
	list_init(&exact->sessions);
	r = inject_new(loop, &inject, &callbacks, exact, &exact->inject);
	if (r < 0) {
		free(exact);
		return r;
	}
	*ret = exact;
	return 0;
}

static void on_inject_closed(void *data)
{
	exact_part_closed(data);
}

/* A job of the pool that is under way ends its session when it is done. */
void exact_close(struct exact *exact, void (*closed)(void *data))
{
	struct session *session;

	exact->closing = true;
	exact->closed = closed;
	list_for_each(session, &exact->sessions, link)
		if (!session_is_busy(session))
			session_end(session);
	inject_close(TAKE(exact->inject), on_inject_closed);
}

void exact_stats(const struct exact *exact, struct exact_stats *ret)
{
	const struct session *session;

	*ret = exact->stats;
	inject_stats(exact->inject, &ret->inject);
	list_for_each(session, &exact->sessions, link) {
		ret->collecting += session->connected;
		ret->attached += session->connected && session->attached;
	}
}
