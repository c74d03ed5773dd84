/* Settle: takes the delays of a recording apart, so that a plan that was changed gives sensible
 * times, too.
 *
 * What was recorded of a work is one time, and only the last thing that it waited for explains it:
 * how soon it could have begun after the others is not known. There the delay that is usual for
 * works like it is taken, or all that there was, whichever is less. So a plan that is as it was
 * recorded gives the recorded times to the nanosecond, and a kernel that a what-if makes wait for
 * its launch instead of its stream still begins no sooner than launches of this program reach the
 * device. The same goes for calls that wait: their own time, and that of waking up.
 *
 * How soon a stream or an engine goes on is seen only where the next work had long been launched. A
 * kernel that was still on its way when its stream became free waited for its launch, although the
 * call was made before.
 *
 * A kernel takes as much of its device as its blocks take of all that the multiprocessors can hold
 * at once. Where that is not known, and on the engines of copies, a work takes its part of as many
 * as ever ran at once.
 *
 * A work that began after another one of its engine ended, and would not have fitted beside that,
 * was behind it. */
#include <errno.h>
#include <string.h>

#include "core/base/huge.h"
#include "core/model/core.h"
#include "core/plan/plan.h"
#include "core/plan/sort.h"

/* Of a multiprocessor. These are of compute capability 9.0; others have the same, or less threads
 * and shared memory. Source: CUDA C++ Programming Guide, "Compute Capabilities". */
#define SM_THREADS	   2048
#define SM_BLOCKS	   32
#define SM_REGISTERS	   65536
#define SM_SHARED	   233472
#define WARP_THREADS	   32
#define REGISTERS_OF_WARPS 256 /* they are given out in such pieces */

#define RECENT		   16 /* works of an engine that are looked at */
/* What is taken where a recording shows none: what a call that waits takes for itself, where all
 * had to wait; how soon kernels reach an H200, and follow each other (docs/measurements.md). */
#define CALL_OWN_NS 2000
#define LAUNCH_NS   5000
#define GAP_NS	    1000

#define BUCKETS	    976 /* work_bucket() of 2^64 - 1, and one */

/* How often a delay was in each bucket. */
struct usual {
	uint32_t count[BUCKETS];
	uint64_t total;
};

/* The latest works of an engine of a device, while they pass in order of start. What is asked of
 * them is copied, as it is asked often. */
struct turn {
	uint64_t start_ns[RECENT], end_ns[RECENT];
	uint64_t
		behind_ns[RECENT]; /* when the one ended that it was behind, 0: it was so of none */
	uint32_t share[RECENT];
	uint32_t work[RECENT], behind[RECENT];
	uint32_t next;	  /* the newest is before it */
	uint64_t last_ns; /* the latest end of all up to now */
};

struct settle {
	struct plan *plan;
	struct plan_key *key, *spare; /* works that need an engine, by their start */
	const struct plan_key *begin; /* one of both, in order */
	size_t begin_count;
	struct turn *turn; /* of device and engine */
	struct usual launch[PLAN_ENGINE_COUNT], gap[PLAN_ENGINE_COUNT];
	struct usual any_launch, any_gap;
	struct usual own[OP_KIND_MAX + 1], tail;
};

static struct settle *settle_free(struct settle *settle)
{
	if (!settle)
		return NULL;
	free(settle->key);
	free(settle->spare);
	free(settle->turn);
	free(settle);
	return NULL;
}

CLEANUP_DEFINE(struct settle, settle_free)

static void usual_add(struct usual *usual, int64_t ns)
{
	if (ns < 0)
		return;
	usual->count[work_bucket((uint64_t)ns)]++;
	usual->total++;
}

/* The median, or where there is none this. */
static int64_t usual_ns(const struct usual *usual, int64_t else_ns)
{
	uint64_t below = 0;

	for (uint16_t i = 0; usual->total && i < BUCKETS; i++) {
		below += usual->count[i];
		if (below * 2 >= usual->total)
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

static struct turn *turn_of(struct settle *settle, const struct plan_work *work)
{
	uint32_t device = settle->plan->stream[work->stream].device;

	return &settle->turn[device * PLAN_ENGINE_COUNT + work->engine];
}

static int sort_begins(struct settle *settle)
{
	const struct plan *plan = settle->plan;
	uint64_t least_ns = UINT64_MAX;
	size_t n = 0;

	settle->key = huge_malloc(plan->work_count + 1ul, sizeof(*settle->key));
	settle->spare = huge_malloc(plan->work_count + 1ul, sizeof(*settle->spare));
	settle->turn = calloc(plan->device_count * PLAN_ENGINE_COUNT + 1ul, sizeof(*settle->turn));
	if (!settle->key || !settle->spare || !settle->turn)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->work_count; i++) {
		uint64_t start_ns = plan->work[i].start_ns;

		if (!needs_engine(&plan->work[i]))
			continue;
		settle->key[n++] = (struct plan_key){ start_ns, i };
		if (start_ns < least_ns)
			least_ns = start_ns;
	}
	for (size_t i = 0; i < n; i++)
		settle->key[i].key -= least_ns;
	settle->begin = plan_sort(settle->key, settle->spare, n);
	settle->begin_count = n;
	return 0;
}

static uint32_t turn_size(const struct turn *turn)
{
	return turn->next < RECENT ? turn->next : RECENT;
}

static void turn_pass(struct turn *turn, const struct plan *plan, uint32_t index)
{
	const struct plan_work *work = &plan->work[index];
	uint32_t i = turn->next++ % RECENT;

	turn->start_ns[i] = work->start_ns;
	turn->end_ns[i] = work->end_ns;
	turn->behind_ns[i] = work->behind == PLAN_NONE ? 0 : plan->work[work->behind].end_ns;
	turn->share[i] = work->share;
	turn->work[i] = index;
	turn->behind[i] = work->behind;
	if (work->end_ns > turn->last_ns)
		turn->last_ns = work->end_ns;
}

static void count_widths(struct settle *settle)
{
	struct plan *plan = settle->plan;

	for (uint32_t i = 0; i < plan->device_count; i++)
		memset(plan->device[i].width, 0, sizeof(plan->device[i].width));
	for (size_t i = 0; i < settle->begin_count; i++) {
		const struct plan_work *work = &plan->work[settle->begin[i].number];
		struct turn *turn = turn_of(settle, work);
		uint32_t *width = &device_of(plan, work)->width[work->engine], now = 1;

		for (uint32_t k = 0; turn->last_ns > work->start_ns && k < RECENT; k++)
			now += turn->end_ns[k] > work->start_ns;
		if (now > *width)
			*width = now;
		turn->end_ns[turn->next++ % RECENT] = work->end_ns;
		if (work->end_ns > turn->last_ns)
			turn->last_ns = work->end_ns;
	}
	memset(settle->turn, 0, plan->device_count * PLAN_ENGINE_COUNT * sizeof(*settle->turn));
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

	if (work->engine != PLAN_ENGINE_COMPUTE || !device->multiprocessors || !blocks ||
	    !threads || threads > SM_THREADS)
		return PLAN_SHARE_ALL / (device->width[work->engine] ?: 1) ?: 1;
	room = device->multiprocessors * blocks_held(op, threads);
	share = blocks / (double)room * PLAN_SHARE_ALL;
	return share >= PLAN_SHARE_ALL ? PLAN_SHARE_ALL : share < 1 ? 1 : (uint32_t)share;
}

/* When the works that it waits for let it begin; 0: it waits for none. */
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

/* Would it not have fitted beside what ran just before that time, when one ended? What still ran
 * when it began counts only where it fitted beside that: else it may run beside what it likes. */
static bool was_full(const struct turn *turn, const struct plan_work *work, uint64_t ended_ns)
{
	uint64_t over = work->share, still = 0;

	for (uint32_t i = 0; i < turn_size(turn); i++) {
		if (turn->start_ns[i] >= ended_ns || turn->end_ns[i] < ended_ns)
			continue;
		if (turn->end_ns[i] <= work->start_ns)
			over += turn->share[i];
		else
			still += turn->share[i];
	}
	return over > PLAN_SHARE_ALL ||
	       (over + still > PLAN_SHARE_ALL && work->share + still <= PLAN_SHARE_ALL);
}

static bool ended_between(uint64_t end_ns, uint64_t since_ns, const struct plan_work *work)
{
	return end_ns > since_ns && end_ns <= work->start_ns &&
	       work->start_ns - end_ns <= UINT32_MAX;
}

/* Which work of its engine it was behind, of those that ended since it could have begun: one that
 * left no room, or what another one was behind that was before it in the queue. */
static uint32_t find_behind(const struct turn *turn, const struct plan_work *work,
			    uint64_t since_ns)
{
	uint64_t queued_ns = since_ns;
	uint32_t found = PLAN_NONE;

	if (turn->last_ns <= since_ns)
		return found;
	for (uint32_t i = 0; i < turn_size(turn); i++)
		if (ended_between(turn->end_ns[i], since_ns, work) &&
		    was_full(turn, work, turn->end_ns[i])) {
			found = turn->work[i];
			since_ns = turn->end_ns[i];
		}
	for (uint32_t i = 0; i < turn_size(turn); i++)
		if (turn->start_ns[i] > queued_ns &&
		    ended_between(turn->behind_ns[i], since_ns, work)) {
			found = turn->behind[i];
			since_ns = turn->behind_ns[i];
		}
	return found;
}

/* The delays as they would be if each alone had held it up. */
static void measure_work(struct settle *settle, struct plan_work *work)
{
	const struct plan *plan = settle->plan;
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

static void measure_engine(struct settle *settle, uint32_t index)
{
	struct plan *plan = settle->plan;
	struct plan_work *work = &plan->work[index];
	struct turn *turn = turn_of(settle, work);

	if (work->delay_ns > 0)
		work->behind = find_behind(turn, work, work->start_ns - (uint64_t)work->delay_ns);
	if (work->behind != PLAN_NONE) {
		work->behind_ns = (uint32_t)(work->start_ns - plan->work[work->behind].end_ns);
		work->delay_ns = work->behind_ns;
		work->bound = PLAN_BOUND_ENGINE;
	} else if (work->bound == PLAN_BOUND_CALL && plan->call[work->call].work == index) {
		usual_add(&settle->launch[work->engine], work->delay_ns);
		usual_add(&settle->any_launch, work->delay_ns);
	}
	turn_pass(turn, plan, index);
}

static int64_t less_ns(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static bool waits_for_work(const struct plan_work *work)
{
	return work->bound == PLAN_BOUND_STREAM || work->bound == PLAN_BOUND_EDGE;
}

/* How long after its call it could have begun, as far as other works go. */
static int64_t lead_ns(const struct plan_work *work)
{
	return work->launch_ns - work->delay_ns;
}

static void measure_gaps(struct settle *settle, const int64_t *launch)
{
	const struct plan *plan = settle->plan;

	for (size_t i = 0; i < settle->begin_count; i++) {
		const struct plan_work *work = &plan->work[settle->begin[i].number];

		if (work->flags & PLAN_GRAPH || /* nodes follow sooner than launches */
		    (work->call != PLAN_NONE && lead_ns(work) < launch[work->engine]))
			continue;
		if (waits_for_work(work))
			usual_add(&settle->gap[work->engine], work->delay_ns);
		if (waits_for_work(work) || work->bound == PLAN_BOUND_ENGINE)
			usual_add(&settle->any_gap, work->delay_ns);
	}
}

/* It was still on its way: its launch explains more of the delay than what it waited for. */
static bool was_coming(const struct plan_work *work, int64_t launch_ns, int64_t gap_ns)
{
	return waits_for_work(work) && work->call != PLAN_NONE &&
	       lead_ns(work) + gap_ns < launch_ns;
}

static void settle_works(struct settle *settle)
{
	struct plan *plan = settle->plan;
	int64_t launch[PLAN_ENGINE_COUNT] = { 0 }, gap[PLAN_ENGINE_COUNT] = { 0 };
	int64_t any_launch_ns, any_gap_ns;

	for (uint32_t i = 0; i < plan->work_count; i++)
		if (!needs_engine(&plan->work[i]))
			measure_work(settle, &plan->work[i]);
	for (size_t i = 0; i < settle->begin_count; i++) {
		struct plan_work *work = &plan->work[settle->begin[i].number];

		measure_work(settle, work);
		work->share = share_of(plan, work);
		measure_engine(settle, settle->begin[i].number);
	}
	any_launch_ns = usual_ns(&settle->any_launch, LAUNCH_NS);
	for (int i = PLAN_ENGINE_NONE + 1; i < PLAN_ENGINE_COUNT; i++)
		launch[i] = usual_ns(&settle->launch[i], any_launch_ns);
	measure_gaps(settle, launch);
	any_gap_ns = usual_ns(&settle->any_gap, GAP_NS);
	for (int i = PLAN_ENGINE_NONE + 1; i < PLAN_ENGINE_COUNT; i++)
		gap[i] = usual_ns(&settle->gap[i], any_gap_ns);
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

static void settle_calls(struct settle *settle)
{
	struct plan *plan = settle->plan;
	int64_t own[OP_KIND_MAX + 1], tail;

	for (uint32_t i = 0; i < plan->call_count; i++) {
		struct plan_call *call = &plan->call[i];
		uint64_t waited = waited_ns(plan, call);

		call->own_ns = (int64_t)(call->end_ns - call->start_ns);
		call->tail_ns = waited ? (int64_t)(call->end_ns - waited) : 0;
		if (waited > call->start_ns)
			usual_add(&settle->tail, call->tail_ns);
		else
			usual_add(&settle->own[kind_of(plan, call)], call->own_ns);
	}
	for (int i = 0; i <= OP_KIND_MAX; i++)
		own[i] = usual_ns(&settle->own[i], CALL_OWN_NS);
	tail = usual_ns(&settle->tail, 0);
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

int plan_settle(struct plan *plan)
{
	_cleanup_(settle_freep) struct settle *settle = calloc(1, sizeof(*settle));
	int r;

	if (!settle)
		return -ENOMEM;
	settle->plan = plan;
	r = sort_begins(settle);
	if (r < 0)
		return r;
	count_widths(settle);
	settle_works(settle);
	settle_calls(settle);
	return 0;
}
