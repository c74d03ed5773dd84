/* Walk: what the library of a session gets to know of stacks, so that it need not go through the
 * stub for each; and whether what it says of them can be so. */
#include "core/base/cleanup.h"
#include "core/base/log.h"
#include "core/base/time.h"
#include "daemon/exact/internal.h"

#define AGE_MAX_NS (10ull * NS_PER_S)

/* Also where the settings have changed. All stacks are sent once more, and tell which rules the
 * library needs. */
static bool walk_begin(struct session *session)
{
	struct probe *probe = session->exact->parts.probe;
	struct light_session *light = &session->light;
	struct known *known = light->known;

	known_set_depth(known, light->walks.depth, light->walks.python_depth, light->walks.check);
	if (!light->walks.autograd)
		known_end_autograd(known);
	known_forget(known, uv_hrtime());
	exact_python_placed(session->exact, session->pid);
	return probe_renew_stacks(probe, session->pid) &&
	       inject_walk(session->exact->inject, session->pid, known_fd(known)) == 0;
}

static bool walks_same(const struct probe_walks *a, const struct probe_walks *b)
{
	return a->by_rules == b->by_rules && a->autograd == b->autograd && a->check == b->check &&
	       a->depth == b->depth && a->python_depth == b->python_depth;
}

void light_share(struct session *session)
{
	struct light_session *light = &session->light;
	struct probe_walks walks;
	int r = 0;

	probe_walks(session->exact->parts.probe, &walks);
	if (light->known && walks_same(&walks, &light->walks))
		return;
	light->walks = walks;
	/* What is not shared is not changed into what is. */
	if (walks.by_rules && known_fd(light->known) < 0)
		light->known = known_free(light->known);
	if (!light->known)
		r = known_new(walks.by_rules, &light->known);
	/* Then each goes through the stub. */
	if (r < 0)
		log_warning_errno(r, "Stacks cost process %u more than they need to", session->pid);
	else if (known_fd(light->known) >= 0 && !walk_begin(session))
		log_warning("Stacks cost process %u more than they need to, as it could not be "
			    "told how to walk them",
			    session->pid);
}

void light_on_walks(void *data, uint32_t pid, const struct ts_light_walks *walks)
{
	struct session *session = session_find(data, pid);

	if (session)
		walk_time_add(&session->light.walk, walks->count, walks->ns, TS_LIGHT_WALK_MAX_NS);
}

uint64_t light_walk_ns(const struct session *session)
{
	const struct light_session *light = &session->light;

	if (light->stage != LIGHT_ON || light->stacks != TS_STACKS_ALL ||
	    known_fd(light->known) < 0)
		return 0;
	return walk_time_ns(&light->walk);
}

static struct known *known_of(const struct exact *exact, uint32_t pid)
{
	const struct session *session = exact && exact->lights ? session_find(exact, pid) : NULL;

	return session ? session->light.known : NULL;
}

/* With too many, the same stacks begin anew under other ids. */
static void walk_add_id(struct exact *exact, uint32_t pid, uint64_t id)
{
	struct known *known = known_of(exact, pid);

	if (known_add_id(known, id))
		return;
	known_forget(known, uv_hrtime());
	probe_renew_stacks(exact->parts.probe, pid);
}

static void python_add(struct exact *exact, uint32_t pid, bool frames)
{
	struct known *known = known_of(exact, pid);
	struct probe_walks walks;
	struct ts_python python;

	if (!known || !probe_python(exact->parts.probe, pid, &python))
		return;
	probe_walks(exact->parts.probe, &walks);
	if (!walks.autograd)
		python.autograd.module = 0;
	known_add_python(known, &python, frames);
}

void exact_python_placed(struct exact *exact, uint32_t pid)
{
	python_add(exact, pid, false);
}

/* Whether it is of now, and not of before the rules or ids have become void. */
static bool has_seed(const struct ts_stack *stack, uint64_t seed)
{
	uint64_t id = stack_id_of(seed, stack->frame, stack->frame_count, stack->end);

	return stack->id ==
	       stack_id_with_python(id, &stack->frame[TS_STACK_FRAMES_MAX], stack->python_count);
}

static void rules_add(struct exact *exact, uint32_t pid, struct known *known,
		      const struct ts_stack *stack)
{
	struct probe_walks walks;
	struct probe_seeds seeds;
	struct rule rule;

	probe_walks(exact->parts.probe, &walks);
	if (!walks.by_rules || known_fd(known) < 0 ||
	    !probe_seeds(exact->parts.probe, pid, &seeds) || !has_seed(stack, seeds.stacks))
		return;
	known_set_seed(known, seeds.stacks);
	/* The first one is the function itself. */
	for (uint32_t i = 1; i < stack->frame_count; i++)
		if (probe_rule(exact->parts.probe, &seeds, stack->frame[i], &rule))
			known_add_rule(known, stack->frame[i], rule);
}

/* Frames that the kernel could read to their end, the thread itself can. */
void exact_stack_walked(struct exact *exact, uint32_t pid, const struct ts_stack *stack)
{
	const struct ts_python_frame *frame =
		(const struct ts_python_frame *)&stack->frame[TS_STACK_FRAMES_MAX];
	struct known *known = known_of(exact, pid);

	if (!known)
		return;
	/* Nobody comes to one of before any more. */
	if (!known_is_void(known, stack->time_ns))
		walk_add_id(exact, pid, stack->id);
	rules_add(exact, pid, known, stack);
	if (stack->python_count && !(frame[stack->python_count - 1].position & TS_PYTHON_CUT))
		python_add(exact, pid, true);
}

void exact_rules_void(struct exact *exact, uint32_t pid, uint64_t time_ns)
{
	known_forget(known_of(exact, pid), time_ns);
}

bool exact_stack_told(struct exact *exact, const struct ts_event *event)
{
	struct known *known = known_of(exact, event->tgid);

	if (!known)
		return true;
	if (event->kind == TS_EVENT_API && event->stack_id)
		known_see_id(known, event->stack_id);
	if (event->kind != TS_EVENT_BACKWARD)
		return true;
	if (!known_has(known, event->backward.forward, event->start_ns))
		return false;
	walk_add_id(exact, event->tgid, event->stack_id);
	return true;
}

static bool time_is_ok(uint64_t time_ns)
{
	uint64_t now_ns = uv_hrtime();

	return time_ns <= now_ns && now_ns - time_ns <= AGE_MAX_NS;
}

static enum light_verdict admit_backward(struct session *session, const struct ts_event *event,
					 struct ts_event *ret)
{
	const struct ts_backward *backward = &event->backward;
	struct known *known = session->light.known;
	uint64_t id = stack_id_backward(backward->stack, backward->forward, backward->passed);

	if (!known_has(known, backward->stack, event->start_ns) || event->stack_id != id ||
	    !known_has(known, backward->forward, event->start_ns) || backward->passed > 1)
		return LIGHT_REFUSED;
	if (known_has(known, id, event->start_ns))
		return LIGHT_REPEATED;
	walk_add_id(session->exact, session->pid, id);
	*ret = *event;
	return LIGHT_ADMITTED;
}

enum light_verdict light_admit(struct session *session, const struct ts_event *event,
			       struct ts_event *ret)
{
	struct light_session *light = &session->light;

	if (!session->settings.light || !event->ns_tid || !time_is_ok(event->start_ns) ||
	    event->flags & TS_EVENT_STACK_LOST)
		return LIGHT_REFUSED;
	if (event->kind == TS_EVENT_BACKWARD)
		return admit_backward(session, event, ret);
	if (event->kind != TS_EVENT_API)
		return LIGHT_REFUSED;
	*ret = *event;
	ret->tid = event->ns_tid;
	if (light->foreign)
		ret->tid = threads_find(&light->threads, session->pid, event->ns_tid, uv_hrtime());
	if (!event->stack_id)
		return LIGHT_ADMITTED;
	if (known_has(light->known, event->stack_id, event->start_ns)) {
		session->exact->stats.walked++;
	} else {
		ret->stack_id = 0;
		ret->flags |= TS_EVENT_STACK_LOST;
	}
	return LIGHT_ADMITTED;
}
