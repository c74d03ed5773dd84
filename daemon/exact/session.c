/* Session: the life of a session. Its asker (a ticket) is answered exactly once, when the session
 * reaches what was asked for or cannot. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "daemon/exact/internal.h"
#include "daemon/proc/procfs.h"

static struct map_key session_key(uint32_t pid)
{
	return (struct map_key){ .a = pid };
}

struct session *session_find(const struct exact *exact, uint32_t pid)
{
	return map_get(&exact->by_pid, session_key(pid));
}

struct session *session_new(struct exact *exact, uint32_t pid)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session || map_put(&exact->by_pid, session_key(pid), session) < 0) {
		free(session);
		return NULL;
	}
	session->exact = exact;
	session->pid = pid;
	session->result.socket = session->light.stub_fd = -1;
	procfs_started_ticks(pid, &session->request.started_ticks);
	uv_timer_init(exact->loop, &session->timer);
	session->timer.data = session;
	list_append(&exact->sessions, &session->link);
	exact->open++;
	return session;
}

bool session_process_ended(const struct session *session)
{
	uint64_t ticks;

	return procfs_started_ticks(session->pid, &ticks) < 0 ||
	       (session->request.started_ticks && ticks != session->request.started_ticks);
}

static void session_closed(uv_handle_t *timer)
{
	struct session *session = timer->data;
	struct exact *exact = session->exact;

	remarks_clear(&session->why);
	threads_clear(&session->light.threads);
	free(session);
	exact_part_closed(exact);
}

void session_end(struct session *session)
{
	if (session->exact->closing)
		session_fail(session, REASON(STOPPING), NULL);
	else
		session_fail(session, REASON(LIBRARY_GONE), REMARK_NUMBER(session->pid), NULL);
	light_over(session);
	if (!session->ended)
		map_remove(&session->exact->by_pid, session_key(session->pid));
	session->ended = true;
	uv_timer_stop(&session->timer);
	if (session->running && !(session->exact->closing && exact_job_cancel(session)))
		return;
	light_unlink(session);
	span_release(&session->light.span);
	span_release(&session->light.before);
	closep(&session->light.stub_fd);
	closep(&session->result.socket);
	list_remove(&session->link);
	uv_close((uv_handle_t *)&session->timer, session_closed);
}

void session_fail_for(struct session *session, const struct remarks *why)
{
	if (session->attach)
		api_ticket_fail_for(TAKE(session->attach), why);
	if (session->detach)
		api_ticket_fail_for(TAKE(session->detach), why);
}

void session_fail(struct session *session, Tracesmith__V1__Remark__Reason reason, ...)
{
	_cleanup_(remarks_clear) struct remarks why = { 0 };
	va_list arguments;

	va_start(arguments, reason);
	remarks_add_list(&why, reason, arguments);
	va_end(arguments);
	session_fail_for(session, &why);
}

void session_note(struct session *session, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(session->note, sizeof(session->note), format, ap);
	va_end(ap);
}

void session_answer_attach(struct session *session)
{
	const char *note[] = { session->note };
	struct api_attach_result result = {
		.library = session->library,
		.cupti_version = session->cupti_version,
		.records = session->records_now ? session->records_now : session->settings.records,
		.stacks = session->settings.stacks,
		.budget_ppm = session->settings.budget_ppm,
		.note = note,
		.note_count = session->note[0] != '\0',
		.functions = session->light.stage == LIGHT_ON ? session->light.result.functions : 0,
	};

	session->answer_due = true;
	if (session->running || session->light.stage == LIGHT_WANTED || joined_is_awaited(session))
		return;
	session->answer_due = false;
	/* Then it has another task. */
	if (session->light.stage != LIGHT_ENDING)
		uv_timer_stop(&session->timer);
	result.stopped_ns = session->result.stopped_ns;
	if (session->light.result.stopped_ns > result.stopped_ns)
		result.stopped_ns = session->light.result.stopped_ns;
	result.stops = session->result.stops + session->light.result.stops;
	if (session->attach)
		api_attach_done(TAKE(session->attach), &result);
}

void session_answer_detach(struct session *session, bool unloaded)
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

void session_leave(struct session *session)
{
	if (!light_may_leave(session))
		return;
	/* Sent once: a message that it has not read when it closes would lose us its last
	 * messages. */
	if (session->stage != SESSION_LEAVING)
		inject_detach(session->exact->inject, session->pid);
	session->stage = SESSION_LEAVING;
	/* If it accepts no message now, the user is told so. */
	session_wait(session, DETACH_MS);
}

void session_choose_budget(struct session *session)
{
	struct ts_settings *settings = &session->settings;

	session->by_default = !settings->light && !settings->budget_ppm;
	if (session->by_default)
		settings->budget_ppm = session->exact->config.budget_ppm;
	else if (settings->light || settings->budget_ppm == TS_BUDGET_NONE)
		settings->budget_ppm = 0;
}

void exact_set_budget(struct exact *exact, uint32_t budget_ppm)
{
	struct session *session;

	if (exact->config.budget_ppm == budget_ppm)
		return;
	exact->config.budget_ppm = budget_ppm;
	list_for_each(session, &exact->sessions, link) {
		struct ts_settings settings = session->settings;

		if (!session->connected || !session->by_default)
			continue;
		settings.budget_ppm = budget_ppm;
		if (inject_settings(exact->inject, session->pid, &settings) == 0) {
			session->settings = settings;
			light_rechoose(session);
		} else {
			log_warning("Process %u does not accept another budget now, and keeps its "
				    "old one",
				    session->pid);
		}
	}
}

/* What a detach does to the process, and windows where CUPTI does not rest between them. */
static void session_note_cycles(struct session *session)
{
	if (session->cycles >= TS_CYCLES_MAX)
		session_note(
			session,
			"CUPTI was taken out of the process %u times, as often as it may be: it "
			"stays there after a detach, switched off, and costs some 1 us a launch",
			session->cycles);
	else if (session->cycles)
		session_note(
			session,
			"CUPTI was taken out of the process before (%u of at most %d times): "
			"each time, as with a detach, some 0.6 MiB of device memory stay there "
			"until the process ends",
			session->cycles, TS_CYCLES_MAX);
}

void session_collects(struct session *session, const struct ts_event *event)
{
	static const bool on[] = {
		[TS_COLLECT_STARTED] = true,
		[TS_COLLECT_RESUMED] = true,
		[TS_COLLECT_CHANGED] = true,
	};
	struct exact *exact = session->exact;
	uint32_t state = event->collect.state;
	bool before = session->recording, windows = session->windows;

	session->recording = state < ARRAY_SIZE(on) && on[state];
	session->cycles = event->collect.cycles;
	if (state == TS_COLLECT_CLOSED)
		session->rests = event->collect.windows == TS_WINDOWS_REST;
	/* If the budget was lifted between two windows, the next one is still to come. */
	session->windows = exact->config.windows && event->collect.windows &&
			   (session->settings.budget_ppm || !session->recording);
	if (session->recording && session->settings.budget_ppm && !session->windows)
		session_note(session, "To keep the budget, kinds of records are left out: CUPTI "
				      "cannot be taken out of the process between windows");
	if (state == TS_COLLECT_STARTED && !session->note[0])
		session_note_cycles(session);
	/* The library knows that it need not leave records out. */
	if (session->windows && !windows && session->stage != SESSION_LEAVING)
		inject_window(exact->inject, session->pid,
			      session->recording ? TS_WINDOW_OPEN : TS_WINDOW_OUT, 0);
	if (session->recording != before)
		exact->parts.recording(exact->parts.data, session->pid, session->recording,
				       event->start_ns);
	light_rechoose(session);
}

void exact_tier(const struct exact *exact, uint32_t pid, struct exact_tier *ret)
{
	const struct session *session = session_find(exact, pid);

	*ret = (struct exact_tier){ .carries = session };
	if (!session)
		return;
	ret->recording = session->recording;
	ret->windows = session->windows;
	ret->rests = session->rests;
	ret->cycles = session->cycles;
	ret->inside = session->light.stage == LIGHT_ON;
	ret->walk_ns = light_walk_ns(session);
	ret->budget_ppm = session->settings.budget_ppm;
}

void exact_window(struct exact *exact, uint32_t pid, enum ts_window_how how, uint64_t at_ns)
{
	bool open = how == TS_WINDOW_OPEN;
	struct session *session = session_find(exact, pid);
	uint64_t now_ns = uv_hrtime();

	if (!session || !session->windows || session->recording == open)
		return;
	/* See session_leave(). */
	if (session->stage == SESSION_LEAVING)
		return;
	if (session->asked_ns && session->asked_open == open &&
	    now_ns < session->asked_ns + (uint64_t)WINDOW_NS)
		return;
	if (inject_window(exact->inject, pid, how, at_ns) < 0)
		return;
	session->asked_open = open;
	session->asked_ns = now_ns;
}

/* Mappings are heard of in batches, and the library looks at all modules: once a batch will do. */
void exact_mapped(struct exact *exact, uint32_t pid)
{
	struct session *session = session_find(exact, pid);

	if (!session || !session->recording || session->stage != SESSION_COLLECTING ||
	    session->mapped_ms == uv_now(exact->loop))
		return;
	session->mapped_ms = uv_now(exact->loop);
	inject_modules(exact->inject, pid);
}

static void session_on_timer(uv_timer_t *timer)
{
	struct session *session = timer->data;
	const char *pid = REMARK_NUMBER(session->pid);

	switch (session->stage) {
	case SESSION_WAITING:
		if (session_process_ended(session))
			session_fail(session, REASON(PROCESS_ENDED), pid, NULL);
		session_fail(session, REASON(NO_ANSWER), pid, NULL);
		session_end(session);
		break;
	case SESSION_BEGINNING:
		session_note(session, "The process has loaded the driver but not initialized it: "
				      "recording starts when it does");
		session_answer_attach(session);
		session->note[0] = '\0';
		break;
	case SESSION_COLLECTING:
		session_answer_attach(session);
		break;
	case SESSION_LEAVING:
		session_fail(session, REASON(NOT_DETACHING), pid, NULL);
		break;
	}
}

void session_wait(struct session *session, uint64_t ms)
{
	uv_timer_start(&session->timer, session_on_timer, ms, 0);
}
