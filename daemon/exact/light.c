/* Light: sessions whose library reports calls of hot functions from inside, so that the probes of
 * those stay out of the process: in light mode, which is nothing else, and in the exact tier.
 *
 * For a moment at the start, and at the end, both report; no call is missed or counted twice, for
 * both changes happen while the process is stopped: exact_covers() drops what the probes saw
 * between them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/attach/internal.h"
#include "daemon/exact/internal.h"

#define ENDING_STEP_MS 5
/* Probes that come back are waited for: on a busy host the kernel takes its time to let go of the
 * last ones. Those of a process that is left out, or that fail, may not come. */
#define ENDING_MS     60000
#define ENDING_OFF_MS 3000

static void light_tell(struct session *session, bool light)
{
	struct exact *exact = session->exact;

	exact->parts.light(exact->parts.data, session->pid, light);
}

void light_over(struct session *session)
{
	struct light_session *light = &session->light;

	if (light->stage == LIGHT_NONE)
		return;
	if (light->stage == LIGHT_ON)
		light_tell(session, false);
	light->stage = LIGHT_NONE;
	light->known = known_free(light->known);
	session->exact->lights--;
}

static void light_start_job(struct session *session, enum session_job job)
{
	struct light_session *light = &session->light;

	light->request.pid = (pid_t)session->pid;
	light->request.started_ticks = session->request.started_ticks;
	light->request.limited = session->request.limited;
	light->request.uid = session->request.uid;
	light->unsure = false;
	span_open(&light->span, job == JOB_TAKE);
	exact_job(session, job);
}

void light_withdraw(struct session *session)
{
	struct light_session *light = &session->light;

	light->unsure = !span_withdraw(&light->span, session->job == JOB_TAKE);
}

void light_unlink(struct session *session)
{
	struct light_session *light = &session->light;

	light->stub = probe_stub_end(light->stub, session->exact->parts.remover);
}

void light_go(struct session *session)
{
	light_unlink(session);
	session->light.stub_told = false;
	session->light.stub_error = 0;
	light_start_job(session, JOB_PUT);
}

void light_link(struct session *session)
{
	struct light_session *light = &session->light;

	light->stub_error = probe_stub_new(session->exact->parts.probe, light->stub_fd,
					   light->stub_offset, session->pid, &light->stub);
	closep(&light->stub_fd);
	light->stub_fd = -1;
}

static void light_tell_stacks(struct session *session, uint32_t stacks)
{
	struct exact *exact = session->exact;

	if (inject_stacks(exact->inject, session->pid, stacks,
			  probe_sample_ns(exact->parts.probe)) < 0)
		log_warning("Process %u could not be told which stacks to take", session->pid);
}

/* The library takes them as long as its connection lasts, or until it is told otherwise. */
static void light_take_stacks(struct session *session, enum ts_stacks stacks)
{
	uint64_t sample_ns = probe_sample_ns(session->exact->parts.probe);
	enum ts_stacks told =
		stacks == TS_STACKS_SAMPLED && sample_ns == ~0ull ? TS_STACKS_NONE : stacks;

	if (session->light.stage != LIGHT_ON)
		return;
	if (!session->light.stub)
		stacks = told = TS_STACKS_NONE;
	session->light.stacks = stacks;
	if (told == TS_STACKS_ALL)
		light_share(session);
	light_tell_stacks(session, told);
}

void exact_sample(struct exact *exact)
{
	struct session *session;

	list_for_each(session, &exact->sessions, link)
		light_take_stacks(session, session->light.stacks);
}

/* The probe stays on until the library takes no stacks: a call that went to the stub without it
 * would be lost. */
static void light_quiet(struct session *session)
{
	struct light_session *light = &session->light;

	if (!light->quiet_ns)
		light->quiet_ns = uv_hrtime();
	light->stacks = TS_STACKS_NONE;
	light_tell_stacks(session, TS_STACKS_NONE | TS_STACKS_ANSWER);
}

void light_on_stacks(void *data, uint32_t pid, uint32_t stacks)
{
	struct exact *exact = data;
	struct session *session = session_find(exact, pid);

	if (session && session->light.quiet_ns && stacks == TS_STACKS_NONE)
		light_unlink(session);
}

/* Stacks of a sample cost little. A process that still hits the probe too often loses it, once it
 * takes none; or at once if it ignores what it was told, and then its calls may be missing. */
bool exact_flooded(struct exact *exact, uint32_t pid, bool first)
{
	struct session *session = session_find(exact, pid);
	struct light_session *light;

	if (!session || session->light.stage != LIGHT_ON)
		return false;
	light = &session->light;
	if (!light->stub)
		return true;
	if (light->quiet_ns && uv_hrtime() - light->quiet_ns >= (uint64_t)QUIET_NS) {
		light_unlink(session);
		return false;
	}
	if (first && light->stacks == TS_STACKS_ALL)
		light_take_stacks(session, TS_STACKS_SAMPLED);
	else if (first)
		light_quiet(session);
	return true;
}

/* In the exact tier, where the probes would see them, stacks are worth more than speed. */
static void light_note_stub(struct session *session)
{
	struct light_session *light = &session->light;
	const char *why = strerror(-light->stub_error);

	if (light->stub_error == 0)
		return;
	light->refused = session->settings.light == TS_LIGHT_BESIDE;
	if (light->refused)
		session_note(session,
			     "Frequent calls stay with the kernel's probes, which cost more: the "
			     "probe that takes their stacks cannot be put on (%s)",
			     why);
	else if (light->stub_error == -EOPNOTSUPP)
		session_note(session, "Frequent calls get no stacks: this kernel has no probes for "
				      "single processes");
	else
		session_note(session,
			     "Frequent calls get no stacks: the probe that takes them "
			     "cannot be attached (%s)",
			     why);
}

/* Windows of a budget open and close the probes. */
static bool light_is_wanted(const struct session *session)
{
	const struct exact_config *config = &session->exact->config;
	const struct light_session *light = &session->light;

	return (config->inside || (light->relieved && !config->never)) &&
	       !session->settings.budget_ppm && !session->windows && !session->failed &&
	       !light->refused;
}

void light_choose(struct session *session)
{
	struct ts_settings *settings = &session->settings;

	session->light.asked = session->light.refused = false;
	if (settings->light != TS_LIGHT_ALONE)
		settings->light = light_is_wanted(session) ? TS_LIGHT_BESIDE : TS_LIGHT_NEVER;
}

void exact_set_inside(struct exact *exact, bool inside, bool never)
{
	struct session *session;

	if (exact->config.inside == inside && exact->config.never == never)
		return;
	exact->config.inside = inside;
	exact->config.never = never;
	list_for_each(session, &exact->sessions, link)
		light_rechoose(session);
}

/* In the exact tier it is recorded all the same. */
static void light_failed(struct session *session, const char *why)
{
	if (session->settings.light == TS_LIGHT_ALONE) {
		session_failed(session, why);
		return;
	}
	session->light.refused = true;
	inject_stacks(session->exact->inject, session->pid, TS_STACKS_NONE, 0);
	session_note(session, "Frequent calls stay with the kernel's probes, which cost more: %s",
		     why);
	log_info("Process %u keeps the probes of frequent calls: %s", session->pid, why);
	if (session->answer_due)
		session_answer_attach(session);
}

static int light_new_span(struct light_session *light)
{
	struct span span;
	int r = span_new(&span);

	if (r < 0)
		return r;
	span_release(&light->before);
	light->before = light->span;
	light->span = span;
	return 0;
}

/* An earlier daemon led them there, and the settings have changed since. */
static void light_clear(struct session *session, const struct ts_light *told)
{
	struct light_session *light = &session->light;

	if (!told->in_place || light->stage != LIGHT_NONE || session->job != JOB_NONE)
		return;
	if (light_new_span(light) < 0)
		return;
	light->request.told = *told;
	light->stage = LIGHT_ENDED;
	light->stays = true;
	session->exact->lights++;
	light_start_job(session, JOB_TAKE);
}

/* Once more, after it has ended for a time. */
static bool light_may_begin(const struct session *session)
{
	const struct light_session *light = &session->light;

	return light->stage == LIGHT_NONE ||
	       (light->stage == LIGHT_ENDED && light->stays && session->job == JOB_NONE);
}

void light_on_told(void *data, uint32_t pid, const struct ts_light *told)
{
	struct exact *exact = data;
	struct session *session = session_find(exact, pid);
	struct light_session *light;
	struct attach_status status;

	if (!session || !light_may_begin(session))
		return;
	/* What it offers goes with it. */
	if (session->stage == SESSION_LEAVING && !told->in_place)
		return;
	session->light.asked = false;
	if (!session->settings.light) {
		light_clear(session, told);
		return;
	}
	if (session->exact->config.never && !told->in_place) {
		light_failed(session, "the settings allow no light mode ('light = never' in "
				      "[probe])");
		return;
	}
	if (!told->region) {
		light_failed(session, told->text);
		return;
	}
	light = &session->light;
	if (light_new_span(light) < 0) {
		light_failed(session, "tracesmithd has no memory or descriptor for it");
		return;
	}
	light->foreign =
		attach_status_read((pid_t)pid, 0, &status) < 0 || (uint32_t)status.ns_tid != pid;
	exact->lights += light->stage == LIGHT_NONE;
	light->stage = LIGHT_WANTED;
	light->request.told = *told;
	light->quiet_ns = 0;
	if (session->job == JOB_NONE)
		light_go(session);
}

/* What was asked for, or happened, meanwhile. */
static void light_decide(struct session *session)
{
	if (session->detach || (session->failed && session->attached))
		session_leave(session);
	else
		light_rechoose(session);
}

/* Its process has not ended meanwhile. */
static void light_put_done(struct session *session)
{
	struct light_session *light = &session->light;

	if (session->error < 0 && light->unsure) {
		light->stage = LIGHT_ENDING;
		light->stays = true;
		light_start_job(session, JOB_TAKE);
		light_failed(session, remarks_text(&session->why) ?: "");
		return;
	}
	if (session->error < 0) {
		light_over(session);
		light_unlink(session);
		light_failed(session, remarks_text(&session->why) ?: "");
		light_decide(session);
		return;
	}
	light->stage = LIGHT_ON;
	light_tell(session, true);
	light_take_stacks(session, session->settings.stacks);
	light_note_stub(session);
	log_info("Process %u reports the calls of %u functions itself", session->pid,
		 light->result.functions);
	if (session->settings.light == TS_LIGHT_ALONE)
		session->stage = SESSION_COLLECTING;
	if (session->settings.light == TS_LIGHT_ALONE || session->answer_due)
		session_answer_attach(session);
	light_decide(session);
}

static void light_take_done(struct session *session)
{
	struct light_session *light = &session->light;

	if (light->unsure)
		span_end(&light->span, uv_hrtime());
	/* As it was: nothing was changed. */
	if (session->error < 0 && session->error != -ESRCH && !span_is_over(&light->span)) {
		if (light->stage == LIGHT_ENDING) {
			light->stage = LIGHT_ON;
			light_tell(session, true);
		}
		session_fail_for(session, &session->why);
		return;
	}
	if (light->stage == LIGHT_ENDING)
		light->stage = LIGHT_ENDED;
	light_unlink(session);
	if (!light->stays || session->detach)
		session_leave(session);
	else
		light_rechoose(session);
}

void light_job_done(struct session *session, enum session_job job)
{
	if (job == JOB_TAKE)
		light_take_done(session);
	else if (session->light.stage == LIGHT_WANTED)
		light_put_done(session);
	if (!session->connected && session->job == JOB_NONE && !session->ended)
		session_end(session);
}

static void light_on_ending(uv_timer_t *timer)
{
	struct session *session = timer->data;
	const struct exact_parts *parts = &session->exact->parts;
	uint64_t passed_ns = uv_hrtime() - session->light.ending_ns;
	enum hot_state hot;

	if (session->light.stage != LIGHT_ENDING)
		return;
	hot = parts->hot(parts->data, session->pid);
	if (hot != HOT_IS_OPEN &&
	    passed_ns / (uint64_t)NS_PER_MS < (hot == HOT_IS_CHANGING ? ENDING_MS : ENDING_OFF_MS))
		return;
	if (hot != HOT_IS_OPEN)
		log_warning("Frequent calls of process %u are missed until its probes are back, "
			    "which were waited for for %u s",
			    session->pid, (unsigned int)(passed_ns / (uint64_t)NS_PER_S));
	uv_timer_stop(timer);
	light_start_job(session, JOB_TAKE);
}

static void light_end(struct session *session)
{
	struct light_session *light = &session->light;

	light->stage = LIGHT_ENDING;
	light->ending_ns = uv_hrtime();
	light_tell(session, false);
	uv_timer_start(&session->timer, light_on_ending, 0, ENDING_STEP_MS);
}

bool light_may_leave(struct session *session)
{
	struct light_session *light = &session->light;

	light->stays = false;
	if (light->stage == LIGHT_ON)
		light_end(session);
	return light->stage == LIGHT_NONE || light->stage == LIGHT_ENDED;
}

/* The library offers what it did at first: it may not have been wanted then. */
static void light_ask(struct session *session)
{
	struct ts_settings settings = session->settings;

	settings.light = TS_LIGHT_BESIDE;
	if (inject_settings(session->exact->inject, session->pid, &settings) < 0)
		return;
	session->settings.light = TS_LIGHT_BESIDE;
	session->light.asked = true;
}

void light_rechoose(struct session *session)
{
	struct light_session *light = &session->light;
	bool wanted = light_is_wanted(session);

	if (session->settings.light == TS_LIGHT_ALONE || session->job != JOB_NONE ||
	    !session->connected || session->stage == SESSION_LEAVING)
		return;
	if (light->stage == LIGHT_ON && !wanted) {
		light->stays = true;
		light_end(session);
	} else if (wanted && !light->asked && session->recording && light_may_begin(session)) {
		light_ask(session);
	}
}

bool exact_relieve(struct exact *exact, uint32_t pid)
{
	struct session *session = session_find(exact, pid);

	if (!session || !session->connected || session->stage == SESSION_LEAVING ||
	    session->settings.light == TS_LIGHT_ALONE)
		return false;
	session->light.relieved = true;
	light_rechoose(session);
	return light_is_wanted(session) && session->light.stage != LIGHT_ON;
}

/* What a probe saw of a thread has both of its numbers, also when it has ended before the calls
 * that it has reported itself are read. */
static void light_learn(struct session *session, const struct ts_event *event)
{
	if (session->light.foreign)
		threads_learn(&session->light.threads, event->ns_tid, event->tid);
}

bool exact_covers(struct exact *exact, const struct ts_event *event)
{
	const struct function_table *functions;
	struct session *session;

	if (!exact || !exact->lights)
		return false;
	session = session_find(exact, event->tgid);
	if (session && event->kind == TS_EVENT_API)
		light_learn(session, event);
	/* What the stub's probe saw, the library reports nowhere else. */
	if (event->flags & TS_EVENT_INSIDE)
		return false;
	functions = &exact->parts.functions;
	if (event->kind != TS_EVENT_API || event->fn >= functions->count ||
	    !functions->row[event->fn].hot)
		return false;
	if (!session || session->light.stage == LIGHT_NONE)
		return false;
	return span_has(&session->light.span, event->start_ns) ||
	       span_has(&session->light.before, event->start_ns);
}

uint64_t exact_inside_from(const struct exact *exact, uint32_t pid)
{
	const struct session *session = session_find(exact, pid);

	if (!session || (session->light.stage != LIGHT_ON && session->light.stage != LIGHT_ENDING))
		return 0;
	return span_begin(&session->light.span);
}

bool exact_inside_since(const struct exact *exact, uint32_t pid, uint64_t since_ns)
{
	uint64_t from_ns = exact_inside_from(exact, pid);

	return from_ns && from_ns <= since_ns;
}
