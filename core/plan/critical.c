/* Critical: walks back from what ended last. Each step follows the cause that delayed it longest;
 * of two, the later one. A changed plan only says how much room its engines have: there the cause
 * is the work that ended last before.
 *
 * The slack is computed in the other direction: the latest possible end of each item, from the
 * latest possible start of everything that waits for it. */
#include "core/plan/critical.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/huge.h"
#include "core/base/vector.h"
#include "core/plan/build.h"

/* How many works of other engines to look past. */
#define ROOM_STEPS 256

struct walk {
	const struct plan *plan;
	const struct plan_times *times;
	struct critical *critical;
	size_t room;				 /* pieces */
	struct plan_key *ended, *sorted, *spare; /* works by their end, if needed */
	size_t ended_count;
};

/* What something waited for: a work, a call's start or its end; with neither, the start of
 * everything. */
struct cause {
	uint32_t work, call;
	uint64_t time_ns;  /* when it was over */
	uint64_t until_ns; /* the waiting item could not continue before */
};

static void walk_release(struct walk *walk)
{
	critical_free(walk->critical);
	free(walk->ended);
	free(walk->spare);
}

struct critical *critical_free(struct critical *critical)
{
	if (!critical)
		return NULL;
	free(critical->piece);
	free(critical->call_slack_ns);
	free(critical->work_slack_ns);
	free(critical);
	return NULL;
}

static void cause_take(struct cause *best, uint32_t work, uint32_t call, uint64_t time_ns,
		       int64_t delay_ns)
{
	uint64_t until_ns = time_ns + (uint64_t)delay_ns;

	if (until_ns > best->until_ns || (until_ns == best->until_ns && time_ns >= best->time_ns))
		*best = (struct cause){ work, call, time_ns, until_ns };
}

static uint64_t before_ns(const struct walk *walk, const struct plan_work *work)
{
	uint64_t start_ns = walk->times->work_start_ns[work->before],
		 end_ns = walk->times->work_end_ns[work->before];

	return end_ns > work->early_ns && end_ns - work->early_ns > start_ns
		       ? end_ns - work->early_ns
		       : start_ns;
}

static bool takes_engine(const struct plan_work *work)
{
	return work->engine != PLAN_ENGINE_NONE &&
	       !(work->flags & (PLAN_UNTIMED | PLAN_MARK | PLAN_DROPPED));
}

static int walk_sort(struct walk *walk)
{
	const struct plan *plan = walk->plan;

	walk->ended = huge_malloc(plan->work_count + 1ul, sizeof(*walk->ended));
	walk->spare = huge_malloc(plan->work_count + 1ul, sizeof(*walk->spare));
	if (!walk->ended || !walk->spare)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->work_count; i++)
		if (takes_engine(&plan->work[i]))
			walk->ended[walk->ended_count++] = (struct plan_key){
				walk->times->work_end_ns[i] - walk->times->start_ns, i
			};
	walk->sorted = plan_sort(walk->ended, walk->spare, walk->ended_count);
	return 0;
}

/* How many ended by then. */
static size_t walk_ended(const struct walk *walk, uint64_t time_ns)
{
	size_t low = 0, high = walk->ended_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (walk->sorted[middle].key + walk->times->start_ns <= time_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* The work that made room on the engine. */
static void cause_room(const struct walk *walk, uint32_t index, struct cause *best)
{
	const struct plan *plan = walk->plan;
	const struct plan_work *work = &plan->work[index];
	uint64_t start_ns = walk->times->work_start_ns[index];

	size_t ended = walk_ended(walk, start_ns);

	for (size_t i = ended; i-- > 0 && ended - i <= ROOM_STEPS;) {
		uint32_t other = walk->sorted[i].number;
		uint64_t end_ns = walk->times->work_end_ns[other];

		if (end_ns <= best->time_ns)
			return;
		if (other == index || plan->work[other].engine != work->engine ||
		    plan->stream[plan->work[other].stream].device !=
			    plan->stream[work->stream].device)
			continue;
		*best = (struct cause){ other, PLAN_NONE, end_ns, start_ns };
		return;
	}
}

/* Whether only its engine can have delayed it. */
static bool waited_for_room(const struct walk *walk, uint32_t index, const struct cause *best)
{
	return best->until_ns < walk->times->work_start_ns[index] &&
	       takes_engine(&walk->plan->work[index]);
}

static struct cause work_cause(const struct walk *walk, uint32_t index)
{
	const struct plan *plan = walk->plan;
	const struct plan_times *times = walk->times;
	const struct plan_work *work = &plan->work[index];
	struct cause best = { PLAN_NONE, PLAN_NONE, times->start_ns, times->start_ns };

	if (work->call != PLAN_NONE)
		cause_take(&best, PLAN_NONE, work->call, times->call_start_ns[work->call],
			   work->launch_ns);
	if (work->before != PLAN_NONE)
		cause_take(&best, work->before, PLAN_NONE, before_ns(walk, work), work->gap_ns);
	for (uint32_t i = 0; i < work->edge_count; i++) {
		uint32_t other = plan->edge[work->edge + i].work;

		cause_take(&best, other, PLAN_NONE, times->work_end_ns[other], work->gap_ns);
	}
	if (work->behind != PLAN_NONE && !plan->changed)
		cause_take(&best, work->behind, PLAN_NONE, times->work_end_ns[work->behind],
			   work->behind_ns);
	if (waited_for_room(walk, index, &best))
		cause_room(walk, index, &best);
	return best;
}

/* For its end. */
static struct cause call_cause(const struct walk *walk, uint32_t index)
{
	const struct plan_call *call = &walk->plan->call[index];
	struct cause best = { PLAN_NONE, PLAN_NONE, 0, 0 };

	cause_take(&best, PLAN_NONE, index, walk->times->call_start_ns[index], call->own_ns);
	for (uint32_t i = 0; call->flags & PLAN_BLOCKS && i < call->edge_count; i++) {
		uint32_t other = walk->plan->edge[call->edge + i].work;

		cause_take(&best, other, PLAN_NONE, walk->times->work_end_ns[other], call->tail_ns);
	}
	return best;
}

static int walk_add(struct walk *walk, uint64_t start_ns, uint64_t end_ns, enum critical_why why,
		    uint32_t call, uint32_t work)
{
	struct critical *critical = walk->critical;

	if (start_ns >= end_ns)
		return 0;
	if (VECTOR_ROOM(critical->piece, walk->room, critical->count + 1) < 0)
		return -ENOMEM;
	critical->piece[critical->count++] = (struct critical_piece){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.why = why,
		.call = call,
		.work = work,
	};
	return 0;
}

/* A work ran up to `at_ns`. Continue with what it waited for. */
static int step_work(struct walk *walk, struct cause *at)
{
	uint32_t work = at->work;
	uint64_t start_ns = walk->times->work_start_ns[work];
	int r = walk_add(walk, start_ns, at->time_ns, CRITICAL_WORK, PLAN_NONE, work);

	if (at->time_ns < start_ns)
		start_ns = at->time_ns;
	*at = work_cause(walk, work);
	return r < 0 ? r : walk_add(walk, at->time_ns, start_ns, CRITICAL_DELAY, PLAN_NONE, work);
}

/* A call started. Continue with the end of the call before it on its thread, and what that waited
 * for. */
static int step_call(struct walk *walk, struct cause *at)
{
	uint32_t call = at->call, before = walk->plan->call[call].before;
	uint64_t start_ns = walk->times->call_start_ns[call], end_ns;
	int r;

	if (before == PLAN_NONE) {
		*at = (struct cause){ PLAN_NONE, PLAN_NONE, walk->times->start_ns, 0 };
		return walk_add(walk, at->time_ns, start_ns, CRITICAL_HOST, call, PLAN_NONE);
	}
	end_ns = walk->times->call_end_ns[before];
	r = walk_add(walk, end_ns, start_ns, CRITICAL_HOST, call, PLAN_NONE);
	*at = call_cause(walk, before);
	return r < 0 ? r
		     : walk_add(walk, at->time_ns, end_ns,
				at->work == PLAN_NONE ? CRITICAL_CALL : CRITICAL_DELAY, before,
				PLAN_NONE);
}

/* What ended last: a call rather than the work that it waited for. */
static int walk_begin(struct walk *walk, struct cause *at)
{
	const struct plan *plan = walk->plan;
	const struct plan_times *times = walk->times;
	uint32_t call = PLAN_NONE;
	uint64_t end_ns = 0;

	*at = (struct cause){ PLAN_NONE, PLAN_NONE, times->start_ns, 0 };
	for (uint32_t i = 0; i < plan->work_count; i++)
		if (times->work_end_ns[i] > at->time_ns)
			*at = (struct cause){ i, PLAN_NONE, times->work_end_ns[i], 0 };
	for (uint32_t i = 0; i < plan->call_count; i++) {
		if (times->call_end_ns[i] < at->time_ns || times->call_end_ns[i] <= end_ns)
			continue;
		call = i;
		end_ns = times->call_end_ns[i];
	}
	if (call == PLAN_NONE)
		return 0;
	*at = call_cause(walk, call);
	return walk_add(walk, at->time_ns, end_ns,
			at->work == PLAN_NONE ? CRITICAL_CALL : CRITICAL_DELAY, call, PLAN_NONE);
}

static void walk_reverse(struct critical *critical)
{
	for (size_t i = 0, k = critical->count; i + 1 < k; i++) {
		struct critical_piece piece = critical->piece[i];

		critical->piece[i] = critical->piece[--k];
		critical->piece[k] = piece;
	}
}

static int walk_back(struct walk *walk)
{
	struct cause at;
	uint64_t steps = (uint64_t)walk->plan->call_count + walk->plan->work_count + 1;
	int r = walk_begin(walk, &at);

	while (r == 0 && (at.work != PLAN_NONE || at.call != PLAN_NONE)) {
		if (steps-- == 0)
			return -ELOOP;
		r = at.work != PLAN_NONE ? step_work(walk, &at) : step_call(walk, &at);
	}
	walk_reverse(walk->critical);
	return r;
}

static int critical_new(const struct plan *plan, struct critical **ret)
{
	_cleanup_(critical_freep) struct critical *critical = calloc(1, sizeof(*critical));

	if (!critical)
		return -ENOMEM;
	critical->call_slack_ns = huge_malloc(plan->call_count + 1ul, sizeof(uint64_t));
	critical->work_slack_ns = huge_malloc(plan->work_count + 1ul, sizeof(uint64_t));
	if (!critical->call_slack_ns || !critical->work_slack_ns)
		return -ENOMEM;
	*ret = TAKE(critical);
	return 0;
}

/* The latest possible end of each node; a call's start, its end, and a work are nodes: twice the
 * number of the call, one more, and the works after them. */
struct latest {
	struct walk *walk;
	int64_t *ns;	/* of a call's start and end, and of the end of a work */
	uint32_t *left; /* of those that wait for it */
	uint32_t *ready, ready_count;
	uint64_t done;
};

static void latest_release(struct latest *latest)
{
	free(latest->ns);
	free(latest->left);
	free(latest->ready);
}

static uint32_t node_of_work(const struct latest *latest, uint32_t work)
{
	return 2 * latest->walk->plan->call_count + work;
}

/* `ns`: its upper bound. */
static void latest_relax(struct latest *latest, uint32_t node, int64_t ns)
{
	if (ns < latest->ns[node])
		latest->ns[node] = ns;
	if (--latest->left[node] == 0)
		latest->ready[latest->ready_count++] = node;
}

/* The work that had its place on the engine before, PLAN_NONE: it did not wait for one. */
static uint32_t latest_behind(const struct latest *latest, uint32_t index)
{
	const struct plan *plan = latest->walk->plan;
	struct cause cause;

	if (!plan->changed)
		return plan->work[index].behind;
	if (!takes_engine(&plan->work[index]))
		return PLAN_NONE;
	cause = work_cause(latest->walk, index);
	for (uint32_t i = 0; i < plan->work[index].edge_count; i++)
		if (cause.work == plan->edge[plan->work[index].edge + i].work)
			return PLAN_NONE;
	return cause.work == plan->work[index].before ? PLAN_NONE : cause.work;
}

/* Times from a forged file may wrap around. */
static int64_t minus(int64_t ns, uint64_t by_ns)
{
	return (int64_t)((uint64_t)ns - by_ns);
}

static void latest_pass_work(struct latest *latest, uint32_t index)
{
	const struct walk *walk = latest->walk;
	const struct plan *plan = walk->plan;
	const struct plan_work *work = &plan->work[index];
	uint64_t start_ns = walk->times->work_start_ns[index];
	int64_t begin = minus(latest->ns[node_of_work(latest, index)],
			      walk->times->work_end_ns[index] - start_ns);
	uint32_t behind = latest_behind(latest, index);

	if (work->call != PLAN_NONE)
		latest_relax(latest, 2 * work->call, minus(begin, (uint64_t)work->launch_ns));
	if (work->before != PLAN_NONE) {
		uint64_t beyond = walk->times->work_end_ns[work->before] - before_ns(walk, work);

		latest_relax(latest, node_of_work(latest, work->before),
			     minus(begin, (uint64_t)work->gap_ns - beyond));
	}
	for (uint32_t i = 0; i < work->edge_count; i++)
		latest_relax(latest, node_of_work(latest, plan->edge[work->edge + i].work),
			     minus(begin, (uint64_t)work->gap_ns));
	if (behind != PLAN_NONE)
		latest_relax(latest, node_of_work(latest, behind),
			     minus(begin, start_ns - walk->times->work_end_ns[behind]));
}

static void latest_pass_end(struct latest *latest, uint32_t index)
{
	const struct plan *plan = latest->walk->plan;
	const struct plan_call *call = &plan->call[index];
	int64_t end = latest->ns[2 * index + 1];

	latest_relax(latest, 2 * index, minus(end, (uint64_t)call->own_ns));
	for (uint32_t i = 0; call->flags & PLAN_BLOCKS && i < call->edge_count; i++)
		latest_relax(latest, node_of_work(latest, plan->edge[call->edge + i].work),
			     minus(end, (uint64_t)call->tail_ns));
}

static void latest_pass(struct latest *latest, uint32_t node)
{
	const struct plan *plan = latest->walk->plan;
	uint32_t call = node / 2;

	latest->done++;
	if (node >= 2 * plan->call_count)
		latest_pass_work(latest, node - 2 * plan->call_count);
	else if (node % 2)
		latest_pass_end(latest, call);
	else if (plan->call[call].before != PLAN_NONE)
		latest_relax(latest, 2 * plan->call[call].before + 1,
			     minus(latest->ns[node], (uint64_t)plan->call[call].delay_ns));
}

static void latest_count(struct latest *latest)
{
	const struct plan *plan = latest->walk->plan;

	for (uint32_t i = 0; i < plan->call_count; i++) {
		const struct plan_call *call = &plan->call[i];

		latest->left[2 * i]++;
		if (call->before != PLAN_NONE)
			latest->left[2 * call->before + 1]++;
		for (uint32_t k = 0; call->flags & PLAN_BLOCKS && k < call->edge_count; k++)
			latest->left[node_of_work(latest, plan->edge[call->edge + k].work)]++;
	}
	for (uint32_t i = 0; i < plan->work_count; i++) {
		const struct plan_work *work = &plan->work[i];
		uint32_t behind = latest_behind(latest, i);

		if (work->call != PLAN_NONE)
			latest->left[2 * work->call]++;
		if (work->before != PLAN_NONE)
			latest->left[node_of_work(latest, work->before)]++;
		for (uint32_t k = 0; k < work->edge_count; k++)
			latest->left[node_of_work(latest, plan->edge[work->edge + k].work)]++;
		if (behind != PLAN_NONE)
			latest->left[node_of_work(latest, behind)]++;
	}
}

static int find_slack(struct walk *walk)
{
	_cleanup_(latest_release) struct latest latest = { .walk = walk };
	const struct plan *plan = walk->plan;
	const struct plan_times *times = walk->times;
	size_t count = 2ul * plan->call_count + plan->work_count;

	latest.ns = huge_malloc(count + 1, sizeof(*latest.ns));
	latest.left = huge_calloc(count + 1, sizeof(*latest.left));
	latest.ready = huge_malloc(count + 1, sizeof(*latest.ready));
	if (!latest.ns || !latest.left || !latest.ready)
		return -ENOMEM;
	latest_count(&latest);
	for (size_t i = 0; i < count; i++) {
		latest.ns[i] = (int64_t)times->end_ns;
		if (!latest.left[i])
			latest.ready[latest.ready_count++] = (uint32_t)i;
	}
	while (latest.ready_count)
		latest_pass(&latest, latest.ready[--latest.ready_count]);
	if (latest.done < count)
		return -ELOOP;
	for (uint32_t i = 0; i < plan->call_count; i++)
		walk->critical->call_slack_ns[i] =
			(uint64_t)latest.ns[2 * i + 1] - times->call_end_ns[i];
	for (uint32_t i = 0; i < plan->work_count; i++)
		walk->critical->work_slack_ns[i] =
			(uint64_t)latest.ns[node_of_work(&latest, i)] - times->work_end_ns[i];
	return 0;
}

int critical_find(const struct plan *plan, const struct plan_times *times, struct critical **ret)
{
	_cleanup_(walk_release) struct walk walk = { .plan = plan, .times = times };
	int r = critical_new(plan, &walk.critical);

	if (r == 0 && plan->changed)
		r = walk_sort(&walk);
	if (r == 0)
		r = walk_back(&walk);
	if (r == 0)
		r = find_slack(&walk);
	if (r < 0)
		return r;
	*ret = TAKE(walk.critical);
	return 0;
}
