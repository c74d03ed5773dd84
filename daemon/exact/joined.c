/* Joined: whether the probes see the calls of a session, which its records belong to. Who was
 * started with the library waits for that in cuInit (inject/settle.h), and who asked to attach is
 * answered then. */
#include "core/base/time.h"
#include "daemon/exact/internal.h"

/* A program that starts is looked at often; one that cannot be watched for long seldom. */
#define SOON_NS	   (2 * NS_PER_S)
#define SOON_MS	   5
#define LATER_NS   (20 * NS_PER_S)
#define LATER_MS   100
#define AT_LAST_MS 1000
/* The program waits no longer (inject/entry.c), and the asker. */
#define HOLD_NS	 NS_PER_S
#define PATIENCE (10 * NS_PER_S)

static void session_unseen(struct session *session, bool unseen, uint64_t time_ns)
{
	const struct exact_parts *parts = &session->exact->parts;

	session->unseen = unseen;
	parts->unseen(parts->data, session->pid, unseen, time_ns);
}

static void session_join(struct session *session, uint64_t now_ns)
{
	session->joined = true;
	/* See session_leave(). */
	if (session->held && session->stage != SESSION_LEAVING)
		inject_watched(session->exact->inject, session->pid);
	if (session->unseen)
		session_unseen(session, false, now_ns);
	if (session->attach && session->answer_due)
		session_answer_attach(session);
}

/* In how long it is to be looked at again. */
static uint64_t session_look(struct session *session, uint64_t now_ns)
{
	const struct exact_parts *parts = &session->exact->parts;
	uint64_t passed_ns = now_ns - session->hello_ns;

	if (parts->watched(parts->data, session->pid)) {
		session_join(session, now_ns);
		return UINT64_MAX;
	}
	if (passed_ns >= (uint64_t)HOLD_NS && session->held && !session->unseen)
		session_unseen(session, true, session->hello_ns);
	if (session->attach && session->answer_due)
		session_answer_attach(session);
	return passed_ns < (uint64_t)SOON_NS ? SOON_MS
	       : passed_ns < LATER_NS	     ? LATER_MS
					     : AT_LAST_MS;
}

static void on_joining(uv_timer_t *timer)
{
	uint64_t now_ns = uv_hrtime(), wait_ms = UINT64_MAX, ms;
	struct exact *exact = timer->data;
	struct session *session;

	list_for_each(session, &exact->sessions, link) {
		if (!session->connected || session->joined || session->ended)
			continue;
		ms = session_look(session, now_ns);
		wait_ms = ms < wait_ms ? ms : wait_ms;
	}
	if (wait_ms < UINT64_MAX)
		uv_timer_start(timer, on_joining, wait_ms, 0);
}

void joined_begin(struct session *session, bool held)
{
	session->joined = session->unseen = false;
	session->held = held;
	session->hello_ns = uv_hrtime();
	/* Not at once: the welcome goes first. */
	uv_timer_start(&session->exact->joining, on_joining, 0, 0);
}

void joined_end(struct session *session)
{
	uint64_t now_ns = uv_hrtime();

	if (session->held && !session->joined && !session->unseen)
		session_unseen(session, true, session->hello_ns);
	if (session->unseen)
		session_unseen(session, false, now_ns);
}

bool joined_is_awaited(struct session *session)
{
	if (session->joined || !session->recording)
		return false;
	if (uv_hrtime() - session->hello_ns < (uint64_t)PATIENCE)
		return true;
	session_note(session, "Its calls are not watched yet: its records have none for now");
	return false;
}
