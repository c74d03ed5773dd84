/* Job: what looks into the process is done by helpers (task.c), what asks the broker for a
 * probe on threads of the linker. A job has its session until it is done, so the session outlives
 * it; what the connection did in the meantime is looked at then. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "daemon/exact/internal.h"

#define UNLOADS_MAX 3

static void link_run(struct linking *linking)
{
	light_link(list_item(linking, struct session, linking));
}

static void session_unloaded(struct session *session)
{
	bool ended = session->error == -ESRCH;

	/* No thread of the process was free just then. */
	if (session->error == -EAGAIN && !session->connected && session->unloads++ < UNLOADS_MAX) {
		exact_job(session, JOB_UNLOAD);
		return;
	}
	if (session->error < 0)
		session_note(session, "%s", remarks_text(&session->why) ?: "");
	/* Who asked has been told that it takes longer. */
	if (session->error < 0 && !ended && !session->detach)
		log_warning("Detached from process %u, but: %s", session->pid, session->note);
	session_answer_detach(session, ended || session->error == 0);
	/* A library may have connected in the meantime, on its own. */
	if (!session->connected)
		session_end(session);
}

/* The library connected on its own, before or instead of the one that we loaded. */
static void session_met(struct session *session)
{
	bool alone = session->settings.light == TS_LIGHT_ALONE;

	if (session->error < 0 && session->error != -EALREADY)
		session_fail_for(session, &session->why);
	if (session->light.stage == LIGHT_WANTED)
		light_go(session);
	if (session->failed && session->attached)
		session_leave(session);
	else if (session->stage == SESSION_COLLECTING || session->note[0])
		session_answer_attach(session);
	else if (session->attach && !alone)
		session_wait(session, BEGIN_MS);
}

static void session_adopt(struct session *session)
{
	char text[128];
	int r;

	session_wait(session, HELLO_MS);
	r = inject_adopt(session->exact->inject, session->result.socket, session->pid);
	if (r == 0) {
		TAKE_FD(session->result.socket);
		return;
	}
	if (r != -ESRCH) {
		snprintf(text, sizeof(text), "Attached to process %u, but cannot follow it: %s",
			 session->pid, strerror(-r));
		session_fail(session, REASON(ATTACH_FAILED), text, NULL);
	}
	session_end(session);
}

static void session_injected(struct session *session)
{
	struct exact *exact = session->exact;

	if (session->error == 0) {
		exact->stats.attaches++;
		if (session->result.stopped_ns > exact->stats.longest_stop_ns)
			exact->stats.longest_stop_ns = session->result.stopped_ns;
		session->attached = true;
	} else {
		exact->stats.failed++;
		if (session->unasked)
			log_info("Process %u stays in windows: %s", session->pid,
				 remarks_text(&session->why) ?: "");
	}
	if (session->connected) {
		session_met(session);
	} else if (session->error < 0) {
		session_fail_for(session, &session->why);
		session_end(session);
	} else {
		session_adopt(session);
	}
}

/* Its library may have connected meanwhile. */
static void session_tidied(struct session *session)
{
	if (session->error > 0)
		log_info("Process %u is as it was: an earlier tracesmithd was killed while it "
			 "attached to it",
			 session->pid);
	else if (session->error < 0 && session->error != -ESRCH)
		log_warning("What an earlier tracesmithd left in process %u stays there: %s",
			    session->pid, remarks_text(&session->why) ?: "");
	remarks_clear(&session->why);
	session->error = 0;
	if (session->attach && !session->connected)
		exact_job(session, JOB_ATTACH);
	else if (!session->connected)
		session_end(session);
	else if (session->detach)
		session_leave(session);
	else
		session_met(session);
}

static void exact_next_job(struct exact *exact);

static void exact_job_done(struct session *session)
{
	struct exact *exact = session->exact;
	enum session_job job = session->job;

	session->running = false;
	session->job = JOB_NONE;
	if (exact->closing || session->ended)
		session_end(session);
	else if (job == JOB_ATTACH)
		session_injected(session);
	else if (job == JOB_UNLOAD)
		session_unloaded(session);
	else if (job == JOB_TIDY)
		session_tidied(session);
	else
		light_job_done(session, job);
	if (!exact->closing)
		exact_next_job(exact);
}

void exact_job_part_done(struct session *session)
{
	if (--session->undone == 0)
		exact_job_done(session);
}

static void link_done(struct linking *linking)
{
	exact_job_part_done(list_item(linking, struct session, linking));
}

void exact_job_link(struct session *session)
{
	struct linker *linker = session->exact->parts.linker;

	session->undone++;
	session->light.stub_error = linker_add(linker, &session->linking, link_run, link_done);
	if (session->light.stub_error < 0)
		exact_job_part_done(session);
}

static void exact_next_job(struct exact *exact)
{
	struct session *session;

	list_for_each(session, &exact->sessions, link) {
		if (session->job == JOB_NONE || session->running)
			continue;
		session->running = true;
		session->undone = 1;
		if (exact_task(session) < 0)
			exact_job_part_done(session);
	}
}

bool exact_job_cancel(struct session *session)
{
	struct helper_task *task = &session->task;

	if (!session->running)
		return false;
	if (task->share)
		session->undone--;
	helpers_cancel(session->exact->parts.helpers, task);
	session->running = session->undone;
	return !session->running;
}

void exact_job(struct session *session, enum session_job job)
{
	session->job = job;
	exact_next_job(session->exact);
}
