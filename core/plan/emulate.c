/* Emulate: time moves from event to event: a call starts, a work could start, an engine has room.
 *
 * For each call or work the remaining dependencies are counted down; until then its place in the
 * resulting times holds the latest time that it must not be before. When nothing is left, it starts
 * then: calls and marks at once, works that need an engine in order of time, one after another if
 * it is full: the first that waits keeps those behind it waiting, because it would take the room
 * that becomes free. Works that ran concurrently in the recording may do so again, whatever they
 * need.
 *
 * While nothing was changed, the work that had its engine before (`behind`) is waited for like a
 * work of its stream, so that the order is that of the recording. In a changed plan works are
 * served first come, first served.
 */
#include "core/plan/emulate.h"

#include <errno.h>
#include <string.h>

#include "core/base/heap.h"
#include "core/base/huge.h"
#include "core/base/vector.h"

/* What is reported about a work's end. */
enum tell { TELL_BEFORE, TELL_EDGE, TELL_BEHIND, TELL_CALL };
#define TELL_MAX (1u << 30) /* works or calls */

enum event_kind { EVENT_ROOM, EVENT_CALL, EVENT_WORK };

/* At the same time, room comes before calls and calls before works; then the recorded order
 * holds. */
struct event {
	uint64_t time_ns;
	uint64_t what; /* kind << 32 | index */
};

struct place {
	uint64_t end_ns;
	uint32_t work, share;
};

/* For a device. A work is in `place` from when it has room until it ends, or a little longer. */
struct engine {
	struct place *place;
	uint32_t count, size;
	uint32_t first, last; /* works that wait for room, or PLAN_NONE */
	uint64_t share;	      /* of all in `place` */
};

struct emulation {
	const struct plan *plan;
	struct plan_times *times;
	struct event *event; /* a heap */
	size_t event_count;
	uint32_t *call_waits, *work_waits;
	uint32_t *call_after; /* on the thread */
	uint32_t *tell_first; /* of each work, in `tell` */
	uint32_t *tell;	      /* enum tell << 30 | index of work or call */
	uint32_t *begun;      /* works whose end is still to be reported */
	uint32_t begun_count;
	uint32_t *wait_next; /* of works that wait for room */
	struct engine *engine;
	uint32_t engine_count;
	uint64_t left; /* calls and works that have not started */
};

static void emulation_release(struct emulation *e)
{
	for (uint32_t i = 0; e->engine && i < e->engine_count; i++)
		free(e->engine[i].place);
	free(e->engine);
	free(e->event);
	free(e->call_waits);
	free(e->work_waits);
	free(e->call_after);
	free(e->tell_first);
	free(e->tell);
	free(e->begun);
	free(e->wait_next);
	plan_times_free(e->times);
}

static bool event_before(const struct event *a, const struct event *b)
{
	return a->time_ns != b->time_ns ? a->time_ns < b->time_ns : a->what < b->what;
}

HEAP_DEFINE(heap, struct event, event_before);

static void event_push(struct emulation *e, uint64_t time_ns, enum event_kind kind, uint32_t index)
{
	struct event event = { time_ns, (uint64_t)kind << 32 | index };

	heap_put(e->event, e->event_count++, event);
}

static void later(uint64_t *time_ns, uint64_t than_ns)
{
	if (than_ns > *time_ns)
		*time_ns = than_ns;
}

/* A delay is less than 0 if a recording is incomplete. */
static uint64_t after(uint64_t time_ns, int64_t delay_ns)
{
	uint64_t ns = time_ns + (uint64_t)delay_ns;

	if (delay_ns < 0)
		return ns < time_ns ? ns : 0;
	return ns >= time_ns ? ns : UINT64_MAX;
}

static bool takes_engine(const struct plan_work *work)
{
	return work->engine != PLAN_ENGINE_NONE && work->duration_ns > 0 &&
	       !(work->flags & (PLAN_UNTIMED | PLAN_MARK | PLAN_DROPPED));
}

static struct engine *engine_of(const struct emulation *e, const struct plan_work *work)
{
	return &e->engine[e->plan->stream[work->stream].device * PLAN_ENGINE_COUNT + work->engine];
}

static bool ran_beside(const struct plan *plan, const struct plan_work *a, uint32_t other)
{
	const struct plan_work *b = &plan->work[other];

	return a->start_ns < b->end_ns && b->start_ns < a->end_ns;
}

static void engine_pass(struct engine *engine, uint64_t time_ns)
{
	for (uint32_t i = 0; i < engine->count;) {
		if (engine->place[i].end_ns > time_ns) {
			i++;
			continue;
		}
		engine->share -= engine->place[i].share;
		engine->place[i] = engine->place[--engine->count];
	}
}

/* It may run beside what it ran beside in the recording, even if the shares say that they do not
 * fit. */
static bool engine_fits(const struct emulation *e, const struct engine *engine,
			const struct plan_work *work)
{
	uint64_t share = work->share, beside = 0;

	if (engine->share + share <= PLAN_SHARE_ALL)
		return true;
	for (uint32_t i = 0; i < engine->count; i++)
		if (ran_beside(e->plan, work, engine->place[i].work))
			beside += engine->place[i].share;
	return beside + share > PLAN_SHARE_ALL && engine->share - beside + share <= PLAN_SHARE_ALL;
}

static int engine_take(struct engine *engine, uint32_t index, uint32_t share, uint64_t end_ns)
{
	if (VECTOR_ROOM(engine->place, engine->size, engine->count + 1) < 0)
		return -ENOMEM;
	engine->place[engine->count++] = (struct place){ end_ns, index, share };
	engine->share += share;
	return 0;
}

/* It tries again when the next one ends. */
static void engine_await(struct emulation *e, const struct engine *engine)
{
	uint64_t end_ns = UINT64_MAX;

	for (uint32_t i = 0; i < engine->count; i++)
		if (engine->place[i].end_ns < end_ns)
			end_ns = engine->place[i].end_ns;
	event_push(e, end_ns, EVENT_ROOM, (uint32_t)(engine - e->engine));
}

static void call_end(struct emulation *e, uint32_t index)
{
	uint32_t next = e->call_after[index];

	if (next != PLAN_NONE)
		event_push(e, after(e->times->call_end_ns[index], e->plan->call[next].delay_ns),
			   EVENT_CALL, next);
}

static int work_begin(struct emulation *e, uint32_t index)
{
	const struct plan_work *work = &e->plan->work[index];
	uint64_t duration_ns = takes_engine(work) ? work->duration_ns : 0;

	e->times->work_end_ns[index] = after(e->times->work_start_ns[index], (int64_t)duration_ns);
	e->begun[e->begun_count++] = index;
	e->left--;
	return duration_ns ? engine_take(engine_of(e, work), index, work->share,
					 e->times->work_end_ns[index])
			   : 0;
}

/* It waits for nothing but room. */
static int work_ready(struct emulation *e, uint32_t index)
{
	const struct plan_work *work = &e->plan->work[index];

	if (!takes_engine(work))
		return work_begin(e, index);
	event_push(e, e->times->work_start_ns[index], EVENT_WORK, index);
	return 0;
}

/* One dependency less. */
static int work_count_down(struct emulation *e, uint32_t index)
{
	return --e->work_waits[index] ? 0 : work_ready(e, index);
}

static void tell_call(struct emulation *e, uint32_t index, uint64_t end_ns)
{
	later(&e->times->call_end_ns[index], after(end_ns, e->plan->call[index].tail_ns));
	if (--e->call_waits[index] == 0)
		call_end(e, index);
}

static int tell_one(struct emulation *e, uint32_t from, uint32_t tell)
{
	uint32_t index = tell & (TELL_MAX - 1);
	const struct plan_work *to = &e->plan->work[index];
	uint64_t end_ns = e->times->work_end_ns[from];

	switch ((enum tell)(tell >> 30)) {
	case TELL_CALL:
		tell_call(e, index, end_ns);
		return 0;
	case TELL_BEHIND:
		later(&e->times->work_start_ns[index], end_ns + to->behind_ns);
		return work_count_down(e, index);
	case TELL_BEFORE:
		end_ns = after(end_ns, -(int64_t)to->early_ns);
		later(&end_ns, e->times->work_start_ns[from]);
		break;
	case TELL_EDGE:
		break;
	}
	later(&e->times->work_start_ns[index], after(end_ns, to->gap_ns));
	return work_count_down(e, index);
}

/* What starts because of it is handled iteratively: chains are long. */
static int tell_begun(struct emulation *e)
{
	while (e->begun_count) {
		uint32_t from = e->begun[--e->begun_count];

		for (uint32_t i = e->tell_first[from]; i < e->tell_first[from + 1]; i++) {
			int r = tell_one(e, from, e->tell[i]);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

static int pass_call(struct emulation *e, uint32_t index, uint64_t time_ns)
{
	const struct plan_call *call = &e->plan->call[index];
	int r = 0;

	e->left--;
	e->times->call_start_ns[index] = time_ns;
	for (uint32_t i = call->work; i != PLAN_NONE && r == 0; i = e->plan->work[i].next) {
		later(&e->times->work_start_ns[i], after(time_ns, e->plan->work[i].launch_ns));
		r = work_count_down(e, i);
	}
	later(&e->times->call_end_ns[index], after(time_ns, call->own_ns));
	if (--e->call_waits[index] == 0)
		call_end(e, index);
	return r;
}

static int pass_work(struct emulation *e, uint32_t index, uint64_t time_ns)
{
	const struct plan_work *work = &e->plan->work[index];
	struct engine *engine = engine_of(e, work);

	engine_pass(engine, time_ns);
	if (engine->first == PLAN_NONE && engine_fits(e, engine, work))
		return work_begin(e, index);
	e->wait_next[index] = PLAN_NONE;
	if (engine->first == PLAN_NONE) {
		engine->first = index;
		engine_await(e, engine);
	} else {
		e->wait_next[engine->last] = index;
	}
	engine->last = index;
	return 0;
}

/* Its engine needs as long from one work to the next as its stream does. */
static uint64_t room_gap_ns(const struct plan_work *work)
{
	if (work->bound == PLAN_BOUND_ENGINE)
		return work->behind_ns;
	return work->gap_ns > 0 ? (uint64_t)work->gap_ns : 0;
}

static int pass_room(struct emulation *e, uint32_t index, uint64_t time_ns)
{
	struct engine *engine = &e->engine[index];
	int r = 0;

	engine_pass(engine, time_ns);
	while (r == 0 && engine->first != PLAN_NONE) {
		uint32_t first = engine->first;
		const struct plan_work *work = &e->plan->work[first];

		if (!engine_fits(e, engine, work)) {
			engine_await(e, engine);
			break;
		}
		engine->first = e->wait_next[first];
		later(&e->times->work_start_ns[first], time_ns + room_gap_ns(work));
		r = work_begin(e, first);
	}
	return r;
}

static int run(struct emulation *e)
{
	int r = tell_begun(e);

	while (r == 0 && e->event_count) {
		struct event event = heap_take(e->event, e->event_count--);
		uint32_t index = (uint32_t)event.what;

		switch ((enum event_kind)(event.what >> 32)) {
		case EVENT_CALL:
			r = pass_call(e, index, event.time_ns);
			break;
		case EVENT_WORK:
			r = pass_work(e, index, event.time_ns);
			break;
		case EVENT_ROOM:
			r = pass_room(e, index, event.time_ns);
			break;
		}
		if (r == 0)
			r = tell_begun(e);
	}
	return r < 0 ? r : e->left ? -ELOOP : 0;
}

/* How many depend on each work, then where their lists start. */
static uint64_t count_tells(struct emulation *e)
{
	const struct plan *plan = e->plan;
	uint32_t *count = e->tell_first;
	uint64_t total = 0;

	for (uint32_t i = 0; i < plan->work_count; i++) {
		const struct plan_work *work = &plan->work[i];

		if (work->before != PLAN_NONE)
			count[work->before]++;
		if (work->behind != PLAN_NONE && !plan->changed)
			count[work->behind]++;
		for (uint32_t k = 0; k < work->edge_count; k++)
			count[plan->edge[work->edge + k].work]++;
	}
	for (uint32_t i = 0; i < plan->call_count; i++)
		for (uint32_t k = 0;
		     plan->call[i].flags & PLAN_BLOCKS && k < plan->call[i].edge_count; k++)
			count[plan->edge[plan->call[i].edge + k].work]++;
	for (uint32_t i = 0; i <= plan->work_count; i++) {
		total += count[i];
		count[i] = (uint32_t)total;
	}
	return total;
}

static void add_tell(struct emulation *e, uint32_t from, enum tell tell, uint32_t to)
{
	e->tell[--e->tell_first[from]] = (uint32_t)tell << 30 | to;
}

/* Backwards, so that each list ends up in order. */
static void add_tells(struct emulation *e)
{
	const struct plan *plan = e->plan;

	for (uint32_t i = plan->call_count; i-- > 0;) {
		const struct plan_call *call = &plan->call[i];

		e->call_waits[i] = 1;
		for (uint32_t k = 0; call->flags & PLAN_BLOCKS && k < call->edge_count; k++) {
			add_tell(e, plan->edge[call->edge + k].work, TELL_CALL, i);
			e->call_waits[i]++;
		}
		if (call->before != PLAN_NONE)
			e->call_after[call->before] = i;
	}
	for (uint32_t i = plan->work_count; i-- > 0;) {
		const struct plan_work *work = &plan->work[i];

		e->work_waits[i] =
			(work->call != PLAN_NONE) + (work->before != PLAN_NONE) + work->edge_count;
		if (work->behind != PLAN_NONE && !plan->changed) {
			add_tell(e, work->behind, TELL_BEHIND, i);
			e->work_waits[i]++;
		}
		if (work->before != PLAN_NONE)
			add_tell(e, work->before, TELL_BEFORE, i);
		for (uint32_t k = 0; k < work->edge_count; k++)
			add_tell(e, plan->edge[work->edge + k].work, TELL_EDGE, i);
	}
}

static int prepare(struct emulation *e)
{
	const struct plan *plan = e->plan;
	size_t calls = plan->call_count + 1ul, works = plan->work_count + 1ul;
	uint64_t tells;

	if (plan->work_count >= TELL_MAX || plan->call_count >= TELL_MAX)
		return -E2BIG;
	e->engine_count = plan->device_count * PLAN_ENGINE_COUNT;
	e->engine = calloc(e->engine_count + 1ul, sizeof(*e->engine));
	e->event = huge_malloc(calls + works + e->engine_count, sizeof(*e->event));
	e->call_waits = huge_calloc(calls, sizeof(uint32_t));
	e->work_waits = huge_calloc(works, sizeof(uint32_t));
	e->call_after = huge_malloc(calls, sizeof(uint32_t));
	e->tell_first = huge_calloc(works, sizeof(uint32_t));
	e->begun = huge_malloc(works, sizeof(uint32_t));
	e->wait_next = huge_malloc(works, sizeof(uint32_t));
	if (!e->engine || !e->event || !e->call_waits || !e->work_waits || !e->call_after ||
	    !e->tell_first || !e->begun || !e->wait_next)
		return -ENOMEM;
	tells = count_tells(e);
	if (tells > UINT32_MAX)
		return -E2BIG;
	e->tell = huge_malloc(tells + 1, sizeof(uint32_t));
	if (!e->tell)
		return -ENOMEM;
	for (uint32_t i = 0; i < e->engine_count; i++)
		e->engine[i].first = PLAN_NONE;
	for (uint32_t i = 0; i < plan->call_count; i++)
		e->call_after[i] = PLAN_NONE;
	add_tells(e);
	return 0;
}

static int prepare_times(struct emulation *e)
{
	const struct plan *plan = e->plan;
	int r = plan_times_new(plan, &e->times);

	if (r < 0)
		return r;
	memset(e->times->call_end_ns, 0, plan->call_count * sizeof(uint64_t));
	memset(e->times->work_end_ns, 0, plan->work_count * sizeof(uint64_t));
	for (uint32_t i = 0; i < plan->work_count; i++)
		e->times->work_start_ns[i] = plan->start_ns;
	return 0;
}

/* Items without dependencies. */
static int begin(struct emulation *e)
{
	const struct plan *plan = e->plan;
	int r = 0;

	e->left = (uint64_t)plan->call_count + plan->work_count;
	for (uint32_t i = 0; i < plan->call_count; i++)
		if (plan->call[i].before == PLAN_NONE)
			event_push(e, after(plan->start_ns, plan->call[i].delay_ns), EVENT_CALL, i);
	for (uint32_t i = 0; i < plan->work_count && r == 0; i++) {
		const struct plan_work *work = &plan->work[i];

		if (work->call == PLAN_NONE && work->before == PLAN_NONE && !work->edge_count)
			later(&e->times->work_start_ns[i], after(plan->start_ns, work->launch_ns));
		if (e->work_waits[i] == 0)
			r = work_ready(e, i);
	}
	return r;
}

static uint64_t last_of(const uint64_t *end_ns, uint32_t count, uint64_t last_ns)
{
	for (uint32_t i = 0; i < count; i++)
		later(&last_ns, end_ns[i]);
	return last_ns;
}

int emulate(const struct plan *plan, struct emulate_result *ret)
{
	_cleanup_(emulation_release) struct emulation e = { .plan = plan };
	int r = prepare(&e);

	if (r == 0)
		r = prepare_times(&e);
	if (r == 0)
		r = begin(&e);
	if (r == 0)
		r = run(&e);
	if (r < 0)
		return r;
	e.times->start_ns = plan->start_ns;
	e.times->end_ns = last_of(e.times->call_end_ns, plan->call_count, plan->start_ns);
	e.times->end_ns = last_of(e.times->work_end_ns, plan->work_count, e.times->end_ns);
	ret->makespan_ns = e.times->end_ns - plan->start_ns;
	ret->times = TAKE(e.times);
	return 0;
}
