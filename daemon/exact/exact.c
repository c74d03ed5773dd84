/* Exact: the sessions of the exact tier, one for each process that carries the library.
 *
 * A session starts with an attach request or with a library's hello, and ends when its connection
 * has ended and, if we loaded the library, it is unloaded again. The asker (a ticket) is answered
 * exactly once, when the session reaches what was asked for or cannot.
 */
#include "daemon/exact/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "daemon/proc/owner.h"

void exact_part_closed(struct exact *exact)
{
	if (--exact->open)
		return;
	if (exact->closed)
		exact->closed(exact->parts.data);
	map_clear(&exact->by_pid);
	free(exact);
}

/* The model knows a process from its first driver call on. A process without a call so far is
 * reported from /proc, or its records would be strays. */
static void session_announce(struct session *session)
{
	struct core *core = session->exact->parts.core;
	const struct core_origin kernel = { .pid = 0 };
	struct ts_event event;

	if (!core_process_by_pid(core, session->pid) &&
	    owner_announcement(session->pid, uv_hrtime(), &event) == 0)
		core_ingest(core, &kernel, &event, sizeof(event));
}

static int on_hello(void *data, uint32_t pid, uint32_t uid, const struct ts_hello *hello,
		    struct ts_settings *ret_settings, char *why)
{
	struct exact *exact = data;
	struct session *session = session_find(exact, pid);

	if (session && session->connected) {
		snprintf(why, TS_HELLO_TEXT, "process %u is already connected", pid);
		return -EALREADY;
	}
	if (!session)
		session = session_new(exact, pid);
	if (!session) {
		snprintf(why, TS_HELLO_TEXT, "the daemon has no memory for another process");
		return -ENOMEM;
	}
	if (!session->attach && uid) {
		session->request.limited = true;
		session->request.uid = uid;
	}
	session->connected = true;
	session->gone = session->failed = session->unloadable = session->answer_due = false;
	session->records_now = 0;
	session->recording = session->windows = session->rests = false;
	session->cycles = core_collect_cycles(exact->parts.core, pid);
	session->asked_ns = 0;
	session->note[0] = '\0';
	session->stage = SESSION_BEGINNING;
	/* A library that was already there may still have the settings of an earlier request. */
	session->settings = session->attach ? session->request.wanted : hello->wanted;
	session_choose_budget(session);
	if (!session->settings.records)
		session->settings.records = TS_RECORDS_DEFAULT;
	light_choose(session);
	if (session->settings.light == TS_LIGHT_ALONE) {
		session->settings.records = 0;
		session->attached |= hello->how == TS_HELLO_ATTACH;
	}
	if (session->settings.stacks > TS_STACKS_ALL || !session->settings.stacks)
		session->settings.stacks = TS_STACKS_SAMPLED;
	probe_choose_stacks(exact->parts.probe, pid, (enum probe_choice)session->settings.stacks);
	session_announce(session);
	joined_begin(session, hello->how == TS_HELLO_RUN);
	*ret_settings = session->settings;
	ret_settings->cycles = session->cycles;
	if (session->settings.light == TS_LIGHT_ALONE)
		uv_timer_stop(&session->timer);
	else if (session->attach && !session->running)
		session_wait(session, BEGIN_MS);
	return 0;
}

static void on_record(void *data, uint32_t pid, const void *record, size_t size)
{
	const struct ts_event *event = record;
	struct exact *exact = data;
	struct session *session = session_find(exact, pid);
	struct core_origin origin = { .pid = pid };
	enum light_verdict verdict = LIGHT_REFUSED;
	struct ts_event call;

	if (session && size >= sizeof(*event))
		verdict = light_admit(session, event, &call);
	if (verdict == LIGHT_REPEATED)
		return;
	if (verdict == LIGHT_ADMITTED) {
		origin.calls = true;
		record = event = &call;
		size = sizeof(call);
		if (event->kind == TS_EVENT_API)
			exact->parts.priced(exact->parts.data, event);
	} else if (session && size >= sizeof(*event) && event->kind == TS_EVENT_COST) {
		call = *event;
		call.tgid = pid;
		exact->parts.priced(exact->parts.data, &call);
	}
	core_ingest(exact->parts.core, &origin, record, size);
	exact->parts.stir(exact->parts.data);
	if (!session)
		return;
	session->records += !origin.calls || session->settings.light == TS_LIGHT_ALONE;
	if (event->kind != TS_EVENT_COLLECT || size < sizeof(*event))
		return;
	session->records_now = event->collect.records;
	session->cupti_version = event->collect.cupti_version;
	session_collects(session, event);
	if (event->collect.beside && event->collect.state == TS_COLLECT_STARTED)
		session_note(session, "Another profiler in the process keeps CUPTI's subscription, "
				      "though it is idle: recording calls costs more than usual");
	/* Only now is it certain that records arrive. */
	if (session->stage == SESSION_COLLECTING)
		session_answer_attach(session);
}

/* Then it is left as it was found, if we loaded the library. */
void session_failed(struct session *session, const char *text)
{
	static struct log_limit limit;

	if (log_allowed(&limit, 1))
		log_info("Cannot record process %u: %s", session->pid, text);
	session->failed = true;
	session_note(session, "%s", text);
	session_fail(session, REASON(CANNOT_RECORD), REMARK_NUMBER(session->pid), text, NULL);
	if (session->attached)
		session_leave(session);
	else
		light_rechoose(session);
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
		if (session->records_now)
			session_answer_attach(session);
		break;
	case TS_LIBRARY_PAUSED:
		if (!session->attach)
			break;
		session_note(session, "Paused: %s", state->text);
		session_answer_attach(session);
		break;
	case TS_LIBRARY_FAILED:
		session_failed(session, state->text);
		break;
	case TS_LIBRARY_GONE:
		session->gone = true;
		session->unloadable = state->unloadable;
		session_note(session, "%s", state->text);
		break;
	}
}

/* It was told to go, and has gone; or its process has. */
static void session_left(struct session *session)
{
	struct exact *exact = session->exact;

	exact->stats.detaches++;
	if (session->attached && session->unloadable && !exact->closing) {
		exact_job(session, JOB_UNLOAD);
		return;
	}
	if (session->gone)
		session_answer_detach(session, false);
	session_end(session);
}

static void on_gone(void *data, uint32_t pid)
{
	struct exact *exact = data;
	struct session *session = session_find(exact, pid);

	/* It continues with the next daemon. */
	if (!exact->closing)
		core_collect_gone(exact->parts.core, pid, uv_hrtime());
	if (!session)
		return;
	session->connected = session->recording = session->windows = false;
	light_over(session);
	joined_end(session);
	uv_timer_stop(&session->timer);
	probe_choose_stacks(exact->parts.probe, pid, PROBE_CHOICE_DEFAULT);
	if (session->job != JOB_NONE)
		session->stage = SESSION_WAITING;
	else if (session->stage == SESSION_LEAVING)
		session_left(session);
	else
		session_end(session);
}

/* The library that we loaded has ended on its own: with its process, or by its exec(). */
static void on_unheard(void *data, uint32_t pid)
{
	struct session *session = session_find(data, pid);

	if (session && !session->connected && session->stage == SESSION_WAITING &&
	    session->job == JOB_NONE)
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
	/* Of light mode, calls are missing, as if the probes had lost them. */
	if (session && session->settings.light == TS_LIGHT_ALONE) {
		loss.reason = LOSS_RING_FULL;
		loss.count = no_room + stuck;
		if (loss.count)
			core_lose(exact->parts.core, &loss);
		return;
	}
	loss.reason = LOSS_EXACT_RING;
	loss.count = no_room;
	if (no_room)
		core_lose(exact->parts.core, &loss);
	loss.reason = LOSS_RING_STUCK;
	loss.count = stuck;
	if (stuck)
		core_lose(exact->parts.core, &loss);
}

/* A second request to attach. */
static void session_refuse(const struct session *session, struct api_ticket *ticket)
{
	const char *pid = REMARK_NUMBER(session->pid);

	if (session->stage == SESSION_LEAVING || session->job == JOB_UNLOAD || session->detach)
		api_ticket_fail(ticket, REASON(BEING_DETACHED), pid, NULL);
	else if (session->attach || session->job == JOB_ATTACH)
		api_ticket_fail(ticket, REASON(BEING_ATTACHED), pid, NULL);
	else if (session->failed)
		api_ticket_fail(ticket, REASON(CANNOT_RECORD), pid, session->note, NULL);
	else if (session->settings.light == TS_LIGHT_ALONE)
		api_ticket_fail(ticket, REASON(IN_LIGHT_MODE), pid, NULL);
	else
		api_ticket_fail(ticket, REASON(BEING_RECORDED), pid, NULL);
}

void exact_attach(struct exact *exact, struct api_ticket *ticket, const struct api_attach *request)
{
	struct session *session = session_find(exact, request->target.pid);
	bool waits = session && session->job == JOB_TIDY && !session->connected && !session->attach;

	if (session && !waits) {
		session_refuse(session, ticket);
		return;
	}
	session = session ?: session_new(exact, request->target.pid);
	if (!session) {
		api_ticket_fail(ticket, REASON(NO_MEMORY), NULL);
		return;
	}
	session->attach = ticket;
	session->request = (struct attach_request){
		.pid = (pid_t)request->target.pid,
		.started_ticks = request->target.started_ticks,
		.library = -1,
		.wanted = request->wanted,
		.seccomp = request->seccomp,
		.limited = request->target.uid != 0,
		.uid = request->target.uid,
	};
	if (!waits)
		exact_job(session, JOB_ATTACH);
}

void exact_lighten(struct exact *exact, uint32_t pid, uint64_t started_ticks, uint32_t uid)
{
	struct session *session = session_find(exact, pid) ? NULL : session_new(exact, pid);

	if (!session)
		return;
	session->unasked = true;
	session->request = (struct attach_request){
		.pid = (pid_t)pid,
		.started_ticks = started_ticks,
		.library = -1,
		.wanted = { .light = TS_LIGHT_ALONE },
		.limited = uid != 0,
		.uid = uid,
	};
	exact_job(session, JOB_ATTACH);
}

void exact_tidy(struct exact *exact, uint32_t pid)
{
	struct session *session = session_find(exact, pid) ? NULL : session_new(exact, pid);

	if (session)
		exact_job(session, JOB_TIDY);
}

void exact_detach(struct exact *exact, struct api_ticket *ticket, const struct api_target *target)
{
	struct session *session = session_find(exact, target->pid);
	bool attaching = session && !session->connected && session->job != JOB_UNLOAD;
	const char *pid = REMARK_NUMBER(target->pid);

	if (!session || attaching || session->detach) {
		api_ticket_fail(ticket,
				!session	  ? REASON(NOT_ATTACHED)
				: session->detach ? REASON(BEING_DETACHED)
						  : REASON(NOT_YET_ATTACHED),
				pid, NULL);
		return;
	}
	session_fail(session, REASON(BEING_DETACHED), pid, NULL);
	session->detach = ticket;
	if (session->job == JOB_NONE)
		session_leave(session);
}

void exact_over(struct exact *exact, uint32_t pid)
{
	struct session *session = session_find(exact, pid);

	if (session)
		light_over(session);
	if (session && session->stage == SESSION_WAITING && session->job == JOB_NONE) {
		session_fail(session, REASON(LIBRARY_GONE), REMARK_NUMBER(pid), NULL);
		session_end(session);
	}
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
		.light = light_on_told,
		.stacks = light_on_stacks,
		.walks = light_on_walks,
		.gone = on_gone,
		.unheard = on_unheard,
		.lost = on_lost,
	};
	struct exact *exact = calloc(1, sizeof(*exact));
	int r;

	if (!exact)
		return -ENOMEM;
	exact->loop = loop;
	exact->config = *config;
	exact->parts = *parts;
	exact->open = 2;
	list_init(&exact->sessions);
	r = inject_new(loop, parts->intake, &inject, &callbacks, exact, &exact->inject);
	if (r < 0) {
		free(exact);
		return r;
	}
	uv_timer_init(loop, &exact->joining);
	exact->joining.data = exact;
	*ret = exact;
	return 0;
}

static void on_inject_closed(void *data)
{
	exact_part_closed(data);
}

static void on_joining_closed(uv_handle_t *joining)
{
	exact_part_closed(joining->data);
}

/* A session with a running job ends with the job. */
void exact_close(struct exact *exact, void (*closed)(void *data))
{
	struct session *session;

	exact->closing = true;
	exact->closed = closed;
	list_for_each(session, &exact->sessions, link)
		session_end(session);
	uv_close((uv_handle_t *)&exact->joining, on_joining_closed);
	inject_close(TAKE(exact->inject), on_inject_closed);
}

bool exact_has(const struct exact *exact, uint32_t pid)
{
	return session_find(exact, pid);
}

void exact_stats(const struct exact *exact, struct exact_stats *ret)
{
	const struct session *session;

	*ret = exact->stats;
	if (exact->inject)
		inject_stats(exact->inject, &ret->inject);
	list_for_each(session, &exact->sessions, link) {
		ret->collecting += session->connected;
		ret->attached += session->connected && session->attached;
		ret->light += session->connected && session->settings.light == TS_LIGHT_ALONE;
	}
}

void exact_failed(const struct exact *exact,
		  void (*each)(void *data, uint32_t pid, const char *why), void *data)
{
	const struct session *session;
	uint32_t left = FAILED_TOLD;

	list_for_each(session, &exact->sessions, link) {
		if (!session->connected || !session->failed)
			continue;
		if (!left--)
			break;
		each(data, session->pid, session->note);
	}
}
