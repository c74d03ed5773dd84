/* Plan, times: puts the works of a stream in the order in which they ran, gives untimed works a
 * time, and removes dependencies that the recorded times contradict. What remains is a delay: see
 * attribution.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/huge.h"
#include "core/plan/build.h"

/* The works of a stream by their start; an untimed one stays behind the works before it. One
 * without a known call is where it ran: it says nothing about what was submitted before it. */
static uint32_t order_keys(struct plan_builder *builder, uint32_t stream)
{
	const struct plan *plan = builder->plan;
	uint32_t count = 0;
	uint64_t latest_ns = 0;

	for (uint32_t i = builder->stream[stream].tail; i != PLAN_NONE; i = plan->work[i].before)
		builder->spare_key[count++].number = i;
	for (uint32_t i = 0; i < count; i++) {
		const struct plan_work *work;
		struct plan_key *key = &builder->key[i];

		key->number = builder->spare_key[count - 1 - i].number;
		work = &plan->work[key->number];
		key->key = work->flags & BUILD_TIMED ? work->start_ns - plan->start_ns : latest_ns;
		if (key->key > latest_ns && work->call != PLAN_NONE)
			latest_ns = key->key;
	}
	return count;
}

static void order_stream(struct plan_builder *builder, uint32_t stream)
{
	struct plan *plan = builder->plan;
	uint32_t count = order_keys(builder, stream), before = PLAN_NONE;
	struct plan_key *sorted = plan_sort(builder->key, builder->spare_key, count);

	for (uint32_t i = 0; i < count; i++) {
		plan->work[sorted[i].number].before = before;
		before = sorted[i].number;
	}
	plan->stream[stream].first = sorted[0].number;
	plan->stream[stream].last = before;
}

int build_order(struct plan_builder *builder)
{
	struct plan *plan = builder->plan;
	bool disorder = false;

	for (uint32_t i = 0; i < plan->stream_count; i++)
		disorder |= builder->stream[i].disorder;
	if (!disorder)
		return 0;
	builder->key = huge_malloc(plan->work_count, sizeof(*builder->key));
	builder->spare_key = huge_malloc(plan->work_count, sizeof(*builder->spare_key));
	if (!builder->key || !builder->spare_key)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->stream_count; i++)
		if (builder->stream[i].disorder)
			order_stream(builder, i);
	return 0;
}

static bool edge_is_of_graph(const struct plan *plan, const struct plan_edge *edge)
{
	const uint16_t flags = PLAN_GRAPH | PLAN_MARK;

	return edge->kind == PLAN_EDGE_NODE && (plan->work[edge->work].flags & flags) == flags;
}

static void limit_to(uint64_t *limit_ns, uint64_t ns)
{
	if (ns < *limit_ns)
		*limit_ns = ns;
}

/* When the work has started at the latest: replaces the duration while the plan is built. */
static uint64_t limit_of(const struct plan_work *work)
{
	return work->flags & BUILD_TIMED ? work->start_ns : work->duration_ns;
}

static void limit_work(struct plan *plan, const struct plan_work *work)
{
	if (work->before != PLAN_NONE)
		limit_to(&plan->work[work->before].duration_ns, limit_of(work));
	for (uint32_t i = 0; work->flags & BUILD_TIMED && i < work->edge_count; i++)
		if (edge_is_of_graph(plan, &plan->edge[work->edge + i]))
			limit_to(&plan->work[plan->edge[work->edge + i].work].duration_ns,
				 work->start_ns);
}

/* An untimed work is over before the next on its stream starts, and a graph's start before its
 * nodes. Backwards, so that each is known before it is used. */
static void find_limits(struct plan_builder *builder)
{
	struct plan *plan = builder->plan;

	if (!builder->timeless)
		return;
	for (uint32_t i = plan->work_count; i-- > 0;)
		limit_work(plan, &plan->work[i]);
	for (uint32_t i = 0; i < plan->stream_count; i++)
		for (uint32_t k = plan->stream[i].last;
		     builder->stream[i].disorder && k != PLAN_NONE; k = plan->work[k].before)
			limit_work(plan, &plan->work[k]);
}

/* Keeps the edges to works that ended by then, in order. Returns how many. */
static uint32_t keep_edges(struct plan *plan, uint32_t first, uint32_t count, uint64_t limit_ns)
{
	struct plan_edge *edge = &plan->edge[first];
	uint32_t kept = 0;

	for (uint32_t i = 0; i < count; i++)
		if (plan->work[edge[i].work].end_ns <= limit_ns)
			edge[kept++] = edge[i];
	plan->contradicted += count - kept;
	return kept;
}

/* Removes what does not allow the work to start by then. */
static void work_keep(struct plan *plan, struct plan_work *work, uint64_t limit_ns)
{
	work->edge_count = keep_edges(plan, work->edge, work->edge_count, limit_ns);
	if (work->call != PLAN_NONE && plan->call[work->call].start_ns > limit_ns) {
		work->flags |= PLAN_NO_CALL;
		plan->contradicted++;
	}
	if (work->before != PLAN_NONE && plan->work[work->before].start_ns > limit_ns) {
		work->before = PLAN_NONE;
		plan->stream[work->stream].first = (uint32_t)(work - plan->work);
		plan->contradicted++;
	}
	if (work->before != PLAN_NONE && plan->work[work->before].end_ns > limit_ns)
		work->early_ns = plan->work[work->before].end_ns - limit_ns;
}

/* When everything that it waits for lets it start, and which one is last. */
static uint64_t work_ready(const struct plan *plan, struct plan_work *work)
{
	uint64_t ready_ns = plan->start_ns;

	work->bound = PLAN_BOUND_NOTHING;
	if (work->call != PLAN_NONE && !(work->flags & PLAN_NO_CALL)) {
		ready_ns = plan->call[work->call].start_ns;
		work->bound = PLAN_BOUND_CALL;
	}
	if (work->before != PLAN_NONE) {
		uint64_t ns = plan_stream_ready(&plan->work[work->before], work->early_ns);

		if (ns > ready_ns || work->bound == PLAN_BOUND_NOTHING) {
			ready_ns = ns;
			work->bound = PLAN_BOUND_STREAM;
		}
	}
	for (uint32_t i = 0; i < work->edge_count; i++) {
		uint64_t ns = plan->work[plan->edge[work->edge + i].work].end_ns;

		if (ns > ready_ns) {
			ready_ns = ns;
			work->bound = PLAN_BOUND_EDGE;
		}
	}
	return ready_ns;
}

static void forget_calls(struct plan *plan)
{
	for (uint32_t i = 0; i < plan->call_count; i++) {
		uint32_t *next = &plan->call[i].work;

		while (*next != PLAN_NONE) {
			struct plan_work *work = &plan->work[*next];
			uint32_t after = work->next;

			if (!(work->flags & PLAN_NO_CALL)) {
				next = &work->next;
				continue;
			}
			work->call = work->next = PLAN_NONE;
			*next = after;
		}
	}
}

/* A work only waits for works with smaller numbers, or with times. */
static void time_works(struct plan *plan)
{
	bool forget = false;

	for (uint32_t i = 0; i < plan->work_count; i++) {
		struct plan_work *work = &plan->work[i];
		uint64_t ready_ns, limit_ns = limit_of(work), contradicted = plan->contradicted;

		work_keep(plan, work, limit_ns);
		forget |= plan->contradicted > contradicted;
		ready_ns = work_ready(plan, work);
		if (!(work->flags & BUILD_TIMED)) {
			if (work->bound == PLAN_BOUND_NOTHING)
				ready_ns = plan->op[work->op].start_ns;
			limit_to(&ready_ns, limit_ns);
			work->start_ns = work->end_ns = ready_ns;
		}
		work->flags &= (uint16_t) ~(BUILD_TIMED | BUILD_WAITED);
		if (work->end_ns > plan->end_ns)
			plan->end_ns = work->end_ns;
	}
	if (forget)
		forget_calls(plan);
}

static void time_calls(struct plan *plan)
{
	for (uint32_t i = 0; i < plan->call_count; i++) {
		struct plan_call *call = &plan->call[i];
		uint64_t before_ns = call->before == PLAN_NONE ? plan->start_ns
							       : plan->call[call->before].end_ns;

		call->delay_ns = (int64_t)(call->start_ns - before_ns);
		call->edge_count = keep_edges(plan, call->edge, call->edge_count, call->end_ns);
		if (!call->edge_count)
			call->flags &= (uint16_t)~PLAN_BLOCKS;
		if (call->end_ns > plan->end_ns)
			plan->end_ns = call->end_ns;
	}
}

/* The depth of a queue is not documented; shorter ones have not been seen full. */
#define QUEUE_WORKS_MIN 256
/* A launch that has room takes less. */
#define QUEUE_LONG_NS 20000

/* Works of a stream during a walk along it, in `after`. */
struct front {
	uint32_t work;	  /* the first that has not ended */
	uint32_t skipped; /* works before it */
};

static void front_advance(const struct plan *plan, const uint32_t *after, struct front *front,
			  uint64_t time_ns)
{
	while (front->work != PLAN_NONE && plan->work[front->work].end_ns <= time_ns) {
		front->work = after[front->work];
		front->skipped++;
	}
}

/* A launch that took long while much was waiting on its stream waited for room: until the last that
 * ended before it returned. */
static void queue_call(struct plan_builder *builder, const uint32_t *after,
		       const uint32_t *position, struct front *front, uint32_t index)
{
	struct plan *plan = builder->plan;
	const struct plan_call *call = &plan->call[index];
	struct front then;
	uint32_t last = PLAN_NONE;

	front_advance(plan, after, front, call->start_ns);
	if (position[call->work] < front->skipped + QUEUE_WORKS_MIN)
		return;
	for (then = *front; then.work != PLAN_NONE && then.work != call->work;
	     then.work = after[then.work]) {
		if (plan->work[then.work].end_ns > call->end_ns)
			break;
		last = then.work;
	}
	build_call_edge(builder, index, last, PLAN_EDGE_QUEUE);
}

/* Whether the call may have waited for room. */
static bool queue_wants(const struct plan *plan, const struct plan_call *call)
{
	return call->end_ns >= call->start_ns + QUEUE_LONG_NS && !call->edge_count &&
	       call->work != PLAN_NONE && plan->op[call->op].kind == OP_LAUNCH &&
	       plan->stream[plan->work[call->work].stream].stream;
}

static int queue_calls(struct plan_builder *builder)
{
	struct plan *plan = builder->plan;
	_cleanup_(freep) uint32_t *after = NULL, *position = NULL;
	_cleanup_(freep) struct front *front = NULL;
	uint32_t first = 0;

	while (first < plan->call_count && !queue_wants(plan, &plan->call[first]))
		first++;
	if (first == plan->call_count)
		return 0;
	after = huge_malloc(plan->work_count, sizeof(*after));
	position = huge_calloc(plan->work_count, sizeof(*position));
	front = calloc(plan->stream_count, sizeof(*front));
	if (!after || !position || !front)
		return -ENOMEM;
	memset(after, 0xff, plan->work_count * sizeof(*after));
	for (uint32_t i = 0; i < plan->work_count; i++) {
		uint32_t before = plan->work[i].before;

		if (before == PLAN_NONE)
			continue;
		after[before] = i;
		position[i] = position[before] + 1;
	}
	for (uint32_t i = 0; i < plan->stream_count; i++)
		front[i].work = plan->stream[i].first;
	for (uint32_t i = first; i < plan->call_count; i++)
		if (queue_wants(plan, &plan->call[i]))
			queue_call(builder, after, position,
				   &front[plan->work[plan->call[i].work].stream], i);
	return builder->error;
}

int build_times(struct plan_builder *builder)
{
	struct plan *plan = builder->plan;
	int r;

	find_limits(builder);
	time_works(plan);
	r = queue_calls(builder);
	if (r < 0)
		return r;
	time_calls(plan);
	return plan_attribute(plan);
}
