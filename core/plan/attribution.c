/* Attribution: splits the delays of a recording by their causes, so that a changed plan gives
 * sensible times too.
 *
 * A work has one recorded time, which only the last thing that it waited for explains: how soon it
 * could have started after the others is unknown. For those it gets the median delay of similar
 * works, or the whole recorded delay if that is less. So an unchanged plan gives the recorded times
 * to the nanosecond, and a kernel that a what-if makes wait for its launch instead of its stream
 * still starts no sooner than launches of this program reach the device. The same holds for calls
 * that wait: their own time, and the time to wake up.
 *
 * How soon a stream or an engine continues is only visible if the next work was launched long
 * before. A kernel still on its way when its stream became free waited for its launch, although the
 * call was made before.
 *
 * The share of its device that a kernel takes is the share of its blocks in what all
 * multiprocessors can hold at once. If that is unknown, and on the copy engines, a work takes one
 * part of as many as ever ran at once.
 *
 * A work that started after another one of its engine ended, and would not have fitted next to it,
 * was behind it. */
#include <errno.h>
#include <string.h>

#include "core/base/huge.h"
#include "core/model/core.h"
#include "core/plan/plan.h"
#include "core/plan/sort.h"

/* Limits of a multiprocessor. These are of compute capability 9.0; others have the same, or fewer
 * threads and less shared memory. Source: CUDA C++ Programming Guide, "Compute Capabilities". */
#define SM_THREADS	   2048
#define SM_BLOCKS	   32
#define SM_REGISTERS	   65536
#define SM_SHARED	   233472
#define WARP_THREADS	   32
#define REGISTERS_OF_WARPS 256 /* allocation units */

#define RECENT		   16 /* works of an engine to look at */
/* Defaults for what a recording does not show: the own time of a waiting call, if all had to wait;
 * how soon kernels reach an H200, and follow each other (docs/measurements.md). */
#define CALL_OWN_NS 2000
#define LAUNCH_NS   5000
#define GAP_NS	    1000

#define BUCKETS	    976 /* work_bucket() of 2^64 - 1, and one */

/* Histogram of delays. */
struct histogram {
	uint32_t count[BUCKETS];
	uint64_t total;
};

/* The latest works of an engine of a device, in order of start. Their frequently used fields are
 * copied here. */
struct recent {
	uint64_t start_ns[RECENT], end_ns[RECENT];
	uint64_t behind_ns[RECENT]; /* when the one ended that it was behind; 0: none */
	uint32_t share[RECENT];
	uint32_t work[RECENT], behind[RECENT];
	uint32_t next;	  /* the newest is before it */
	uint64_t last_ns; /* the latest end so far */
};

struct attribution {
	struct plan *plan;
	struct plan_key *key, *spare; /* works that need an engine, by their start */
	const struct plan_key *begin; /* one of both, in order */
	size_t begin_count;
	struct recent *recent; /* of device and engine */
	struct histogram launch[PLAN_ENGINE_COUNT], gap[PLAN_ENGINE_COUNT];
	struct histogram any_launch, any_gap;
	struct histogram own[OP_KIND_MAX + 1], tail;
};

static struct attribution *attribution_free(struct attribution *attribution)
{
	if (!attribution)
		return NULL;
	free(attribution->key);
	free(attribution->spare);
	free(attribution->recent);
	free(attribution);
	return NULL;
}

CLEANUP_DEFINE(struct attribution, attribution_free)

static void histogram_add(struct histogram *histogram, int64_t ns)
{
	if (ns < 0)
		return;
	histogram->count[work_bucket((uint64_t)ns)]++;
	histogram->total++;
}

/* The median, or this default if it is empty. */
static int64_t histogram_median(const struct histogram *histogram, int64_t else_ns)
{
	uint64_t below = 0;

	for (uint16_t i = 0; histogram->total && i < BUCKETS; i++) {
		below += histogram->count[i];
		if (below * 2 >= histogram->total)
			return (int64_t)work_bucket_ns(i);
	}
	return else_ns;
}

static bool needs_engine(const struct plan_work *work)
{
	return work->engine != PLAN_ENGINE_NONE && !(work->flags & (PLAN_UNTIMED | PLAN_MARK));
}

static struct plan_device *device_of(const struct plan *plan, const struct plan_work *work)
{
	return &plan->device[plan->stream[work->stream].device];
}

static struct recent *recent_of(struct attribution *attribution, const struct plan_work *work)
{
	uint32_t device = attribution->plan->stream[work->stream].device;

	return &attribution->recent[device * PLAN_ENGINE_COUNT + work->engine];
}

static int sort_begins(struct attribution *attribution)
{
	const struct plan *plan = attribution->plan;
	uint64_t least_ns = UINT64_MAX;
	size_t n = 0;

	attribution->key = huge_malloc(plan->work_count + 1ul, sizeof(*attribution->key));
	attribution->spare = huge_malloc(plan->work_count + 1ul, sizeof(*attribution->spare));
	attribution->recent =
		calloc(plan->device_count * PLAN_ENGINE_COUNT + 1ul, sizeof(*attribution->recent));
	if (!attribution->key || !attribution->spare || !attribution->recent)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->work_count; i++) {
		uint64_t start_ns = plan->work[i].start_ns;

		if (!needs_engine(&plan->work[i]))
			continue;
		attribution->key[n++] = (struct plan_key){ start_ns, i };
		if (start_ns < least_ns)
			least_ns = start_ns;
	}
	for (size_t i = 0; i < n; i++)
		attribution->key[i].key -= least_ns;
	attribution->begin = plan_sort(attribution->key, attribution->spare, n);
	attribution->begin_count = n;
	return 0;
}

static uint32_t recent_size(const struct recent *recent)
{
	return recent->next < RECENT ? recent->next : RECENT;
}

static void recent_pass(struct recent *recent, const struct plan *plan, uint32_t index)
{
	const struct plan_work *work = &plan->work[index];
	uint32_t i = recent->next++ % RECENT;

	recent->start_ns[i] = work->start_ns;
	recent->end_ns[i] = work->end_ns;
	recent->behind_ns[i] = work->behind == PLAN_NONE ? 0 : plan->work[work->behind].end_ns;
	recent->share[i] = work->share;
	recent->work[i] = index;
	recent->behind[i] = work->behind;
	if (work->end_ns > recent->last_ns)
		recent->last_ns = work->end_ns;
}

static void count_widths(struct attribution *attribution)
{
	struct plan *plan = attribution->plan;

	for (uint32_t i = 0; i < plan->device_count; i++)
		memset(plan->device[i].width, 0, sizeof(plan->device[i].width));
	for (size_t i = 0; i < attribution->begin_count; i++) {
		const struct plan_work *work = &plan->work[attribution->begin[i].number];
		struct recent *recent = recent_of(attribution, work);
		uint32_t *width = &device_of(plan, work)->width[work->engine], now = 1;

		for (uint32_t k = 0; recent->last_ns > work->start_ns && k < RECENT; k++)
			now += recent->end_ns[k] > work->start_ns;
		if (now > *width)
			*width = now;
		recent->end_ns[recent->next++ % RECENT] = work->end_ns;
		if (work->end_ns > recent->last_ns)
			recent->last_ns = work->end_ns;
	}
	memset(attribution->recent, 0,
	       plan->device_count * PLAN_ENGINE_COUNT * sizeof(*attribution->recent));
}

/* How many blocks of a kernel a multiprocessor holds at once, at least one. */
static uint64_t blocks_held(const struct op *op, uint64_t threads)
{
	uint64_t warps = (threads + WARP_THREADS - 1) / WARP_THREADS;
	uint64_t shared = (uint64_t)op->shared_bytes + op->static_bytes, held = SM_BLOCKS, most;
	uint64_t registers = (uint64_t)op->registers * WARP_THREADS;

	registers = (registers + REGISTERS_OF_WARPS - 1) / REGISTERS_OF_WARPS * REGISTERS_OF_WARPS;
	most = SM_THREADS / (warps * WARP_THREADS);
	held = most < held ? most : held;
	if (registers) {
		most = SM_REGISTERS / (registers * warps);
		held = most < held ? most : held;
	}
	if (shared) {
		most = SM_SHARED / shared;
		held = most < held ? most : held;
	}
	return held ? held : 1;
}

static uint32_t share_of(const struct plan *plan, const struct plan_work *work)
{
	const struct plan_device *device = device_of(plan, work);
	const struct op *op = &plan->op[work->op];
	uint64_t threads = (uint64_t)op->block[0] * op->block[1] * op->block[2], room;
	double blocks = (double)op->grid[0] * op->grid[1] * op->grid[2], share;

	if (work->engine != PLAN_ENGINE_COMPUTE || !device->multiprocessors || blocks == 0 ||
	    !threads || threads > SM_THREADS)
		return PLAN_SHARE_ALL / (device->width[work->engine] ?: 1) ?: 1;
	room = device->multiprocessors * blocks_held(op, threads);
	share = blocks / (double)room * PLAN_SHARE_ALL;
	return share >= PLAN_SHARE_ALL ? PLAN_SHARE_ALL : share < 1 ? 1 : (uint32_t)share;
}

/* When the works that it waits for let it start; 0: it waits for none. */
static uint64_t freed_ns(const struct plan *plan, const struct plan_work *work)
{
	uint64_t ns = 0;

	if (work->before != PLAN_NONE) {
		const struct plan_work *before = &plan->work[work->before];

		ns = before->end_ns - work->early_ns;
		if (ns < before->start_ns || ns > before->end_ns)
			ns = before->start_ns;
	}
	for (uint32_t i = 0; i < work->edge_count; i++) {
		uint64_t end_ns = plan->work[plan->edge[work->edge + i].work].end_ns;

		if (end_ns > ns)
			ns = end_ns;
	}
	return ns;
}

/* Whether it would not have fitted beside what ran just before that time, when one ended. What
 * still ran when it started counts only if it fitted beside that; otherwise it may run beside
 * anything. */
static bool was_full(const struct recent *recent, const struct plan_work *work, uint64_t ended_ns)
{
	uint64_t over = work->share, still = 0;

	for (uint32_t i = 0; i < recent_size(recent); i++) {
		if (recent->start_ns[i] >= ended_ns || recent->end_ns[i] < ended_ns)
			continue;
		if (recent->end_ns[i] <= work->start_ns)
			over += recent->share[i];
		else
			still += recent->share[i];
	}
	return over > PLAN_SHARE_ALL ||
	       (over + still > PLAN_SHARE_ALL && work->share + still <= PLAN_SHARE_ALL);
}

static bool ended_between(uint64_t end_ns, uint64_t since_ns, const struct plan_work *work)
{
	return end_ns > since_ns && end_ns <= work->start_ns &&
	       work->start_ns - end_ns <= UINT32_MAX;
}

/* Which work of its engine it was behind, among those that ended since it could have started: one
 * that left no room, or one that a predecessor in the queue was behind. */
static uint32_t find_behind(const struct recent *recent, const struct plan_work *work,
			    uint64_t since_ns)
{
	uint64_t queued_ns = since_ns;
	uint32_t found = PLAN_NONE;

	if (recent->last_ns <= since_ns)
		return found;
	for (uint32_t i = 0; i < recent_size(recent); i++)
		if (ended_between(recent->end_ns[i], since_ns, work) &&
		    was_full(recent, work, recent->end_ns[i])) {
			found = recent->work[i];
			since_ns = recent->end_ns[i];
		}
	for (uint32_t i = 0; i < recent_size(recent); i++)
		if (recent->start_ns[i] > queued_ns &&
		    ended_between(recent->behind_ns[i], since_ns, work)) {
			found = recent->behind[i];
			since_ns = recent->behind_ns[i];
		}
	return found;
}

/* The delays as if each alone had held it up. */
static void measure_work(struct attribution *attribution, struct plan_work *work)
{
	const struct plan *plan = attribution->plan;
	bool called = work->call != PLAN_NONE;
	uint64_t freed = freed_ns(plan, work);
	uint64_t called_ns = called ? plan->call[work->call].start_ns : freed ? 0 : plan->start_ns;

	work->launch_ns = (int64_t)(work->start_ns - called_ns);
	work->gap_ns = (int64_t)(work->start_ns - freed);
	work->duration_ns = work->end_ns - work->start_ns;
	work->behind = PLAN_NONE;
	work->behind_ns = 0;
	if (called_ns >= freed) {
		work->bound = called ? PLAN_BOUND_CALL : PLAN_BOUND_NOTHING;
		work->delay_ns = work->launch_ns;
	} else {
		work->delay_ns = work->gap_ns;
		if (work->bound != PLAN_BOUND_EDGE)
			work->bound = PLAN_BOUND_STREAM;
	}
}

static void measure_engine(struct attribution *attribution, uint32_t index)
{
	struct plan *plan = attribution->plan;
	struct plan_work *work = &plan->work[index];
	struct recent *recent = recent_of(attribution, work);

	if (work->delay_ns > 0)
		work->behind = find_behind(recent, work, work->start_ns - (uint64_t)work->delay_ns);
	if (work->behind != PLAN_NONE) {
		work->behind_ns = (uint32_t)(work->start_ns - plan->work[work->behind].end_ns);
		work->delay_ns = work->behind_ns;
		work->bound = PLAN_BOUND_ENGINE;
	} else if (work->bound == PLAN_BOUND_CALL && plan->call[work->call].work == index) {
		histogram_add(&attribution->launch[work->engine], work->delay_ns);
		histogram_add(&attribution->any_launch, work->delay_ns);
	}
	recent_pass(recent, plan, index);
}

static int64_t less_ns(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool waits_for_work(const struct plan_work *work)
{
	return work->bound == PLAN_BOUND_STREAM || work->bound == PLAN_BOUND_EDGE;
}

/* How long after its call it could have started, as far as other works go. */
static int64_t lead_ns(const struct plan_work *work)
{
	return work->launch_ns - work->delay_ns;
}

static void measure_gaps(struct attribution *attribution, const int64_t *launch)
{
	const struct plan *plan = attribution->plan;

	for (size_t i = 0; i < attribution->begin_count; i++) {
		const struct plan_work *work = &plan->work[attribution->begin[i].number];

		if (work->flags & PLAN_GRAPH || /* nodes follow sooner than launches */
		    (work->call != PLAN_NONE && lead_ns(work) < launch[work->engine]))
			continue;
		if (waits_for_work(work))
			histogram_add(&attribution->gap[work->engine], work->delay_ns);
		if (waits_for_work(work) || work->bound == PLAN_BOUND_ENGINE)
			histogram_add(&attribution->any_gap, work->delay_ns);
	}
}

/* It was still on its way: its launch explains more of the delay than what it waited for. */
static bool was_coming(const struct plan_work *work, int64_t launch_ns, int64_t gap_ns)
{
	return waits_for_work(work) && work->call != PLAN_NONE &&
	       lead_ns(work) + gap_ns < launch_ns;
}

static void attribution_works(struct attribution *attribution)
{
	struct plan *plan = attribution->plan;
	int64_t launch[PLAN_ENGINE_COUNT] = { 0 }, gap[PLAN_ENGINE_COUNT] = { 0 };
	int64_t any_launch_ns, any_gap_ns;

	for (uint32_t i = 0; i < plan->work_count; i++)
		if (!needs_engine(&plan->work[i]))
			measure_work(attribution, &plan->work[i]);
	for (size_t i = 0; i < attribution->begin_count; i++) {
		struct plan_work *work = &plan->work[attribution->begin[i].number];

		measure_work(attribution, work);
		work->share = share_of(plan, work);
		measure_engine(attribution, attribution->begin[i].number);
	}
	any_launch_ns = histogram_median(&attribution->any_launch, LAUNCH_NS);
	for (int i = PLAN_ENGINE_NONE + 1; i < PLAN_ENGINE_COUNT; i++)
		launch[i] = histogram_median(&attribution->launch[i], any_launch_ns);
	measure_gaps(attribution, launch);
	any_gap_ns = histogram_median(&attribution->any_gap, GAP_NS);
	for (int i = PLAN_ENGINE_NONE + 1; i < PLAN_ENGINE_COUNT; i++)
		gap[i] = histogram_median(&attribution->gap[i], any_gap_ns);
	for (uint32_t i = 0; i < plan->work_count; i++) {
		struct plan_work *work = &plan->work[i];
		uint8_t engine = needs_engine(work) ? work->engine : PLAN_ENGINE_NONE;

		if (was_coming(work, launch[engine], gap[engine]))
			work->bound = PLAN_BOUND_CALL;
		if (work->bound != PLAN_BOUND_CALL && work->bound != PLAN_BOUND_NOTHING)
			work->launch_ns = less_ns(launch[engine], work->launch_ns);
		if (work->bound != PLAN_BOUND_STREAM && work->bound != PLAN_BOUND_EDGE)
			work->gap_ns = less_ns(gap[engine], work->gap_ns);
	}
}

/* When the last of what it waits for was over; 0: it does not wait. */
static uint64_t waited_ns(const struct plan *plan, const struct plan_call *call)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; call->flags & PLAN_BLOCKS && i < call->edge_count; i++) {
		uint64_t end_ns = plan->work[plan->edge[call->edge + i].work].end_ns;

		if (end_ns > ns)
			ns = end_ns;
	}
	return ns;
}

static uint8_t kind_of(const struct plan *plan, const struct plan_call *call)
{
	uint8_t kind = plan->op[call->op].kind;

	return kind <= OP_KIND_MAX ? kind : 0;
}

static void attribution_calls(struct attribution *attribution)
{
	struct plan *plan = attribution->plan;
	int64_t own[OP_KIND_MAX + 1], tail;

	for (uint32_t i = 0; i < plan->call_count; i++) {
		struct plan_call *call = &plan->call[i];
		uint64_t waited = waited_ns(plan, call);

		call->own_ns = (int64_t)(call->end_ns - call->start_ns);
		call->tail_ns = waited ? (int64_t)(call->end_ns - waited) : 0;
		if (waited > call->start_ns)
			histogram_add(&attribution->tail, call->tail_ns);
		else
			histogram_add(&attribution->own[kind_of(plan, call)], call->own_ns);
	}
	for (int i = 0; i <= OP_KIND_MAX; i++)
		own[i] = histogram_median(&attribution->own[i], CALL_OWN_NS);
	tail = histogram_median(&attribution->tail, 0);
	for (uint32_t i = 0; i < plan->call_count; i++) {
		struct plan_call *call = &plan->call[i];

		if (!(call->flags & PLAN_BLOCKS))
			continue;
		if (waited_ns(plan, call) > call->start_ns)
			call->own_ns = less_ns(own[kind_of(plan, call)], call->own_ns);
		else
			call->tail_ns = less_ns(tail, call->tail_ns);
	}
}

int plan_attribute(struct plan *plan)
{
	_cleanup_(attribution_freep) struct attribution *attribution =
		calloc(1, sizeof(*attribution));
	int r;

	if (!attribution)
		return -ENOMEM;
	attribution->plan = plan;
	r = sort_begins(attribution);
	if (r < 0)
		return r;
	count_widths(attribution);
	attribution_works(attribution);
	attribution_calls(attribution);
	return 0;
}
