/* Emulate result: how busy devices were, how far the emulation is off, and its ops. */
#include <errno.h>
#include <string.h>

#include "core/base/map.h"
#include "core/plan/emulate.h"

static bool ran(const struct plan_work *work)
{
	return work->engine != PLAN_ENGINE_NONE &&
	       !(work->flags & (PLAN_UNTIMED | PLAN_MARK | PLAN_DROPPED));
}

/* --- how busy --- */

struct interval {
	uint64_t start_ns, end_ns;
	uint32_t device, engine;
};

static int interval_compare(const void *a, const void *b)
{
	const struct interval *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

/* The part of it that was not counted yet; `until_ns` is how far counting got. */
static uint64_t uncounted(const struct interval *interval, uint64_t *until_ns)
{
	uint64_t from_ns = interval->start_ns > *until_ns ? interval->start_ns : *until_ns;

	if (interval->end_ns <= from_ns)
		return 0;
	*until_ns = interval->end_ns;
	return interval->end_ns - from_ns;
}

int emulate_busy(const struct plan *plan, const struct plan_times *times, struct emulate_busy *ret)
{
	_cleanup_(freep) struct interval *interval =
		calloc(plan->work_count + 1ul, sizeof(*interval));
	uint64_t any_ns = 0, device_ns[EMULATE_DEVICES_MAX] = { 0 };
	uint64_t engine_ns[PLAN_ENGINE_COUNT] = { 0 };
	size_t count = 0;

	if (!interval)
		return -ENOMEM;
	for (uint32_t i = 0; i < plan->work_count; i++) {
		const struct plan_work *work = &plan->work[i];

		if (ran(work))
			interval[count++] =
				(struct interval){ times->work_start_ns[i], times->work_end_ns[i],
						   plan->stream[work->stream].device,
						   work->engine };
	}
	qsort(interval, count, sizeof(*interval), interval_compare);
	*ret = (struct emulate_busy){ 0 };
	for (size_t i = 0; i < count; i++) {
		uint32_t device = interval[i].device, engine = interval[i].engine;

		ret->any_ns += uncounted(&interval[i], &any_ns);
		ret->engine_ns[engine] += uncounted(&interval[i], &engine_ns[engine]);
		if (device < EMULATE_DEVICES_MAX)
			ret->device_ns[device] += uncounted(&interval[i], &device_ns[device]);
	}
	return 0;
}

/* --- how far off --- */

static int number_compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

int emulate_compare(const struct plan *plan, const struct plan_times *times,
		    struct emulate_error *ret)
{
	_cleanup_(freep) uint64_t *off = calloc(plan->work_count + 1ul, sizeof(*off));
	uint64_t count = 0;

	if (!off)
		return -ENOMEM;
	*ret = (struct emulate_error){ .recorded_ns = plan->end_ns - plan->start_ns,
				       .emulated_ns = times->end_ns - times->start_ns };
	for (uint32_t i = 0; i < plan->work_count; i++) {
		const struct plan_work *work = &plan->work[i];
		uint64_t start_ns = times->work_start_ns[i];

		if (!ran(work))
			continue;
		off[count++] = start_ns > work->start_ns ? start_ns - work->start_ns
							 : work->start_ns - start_ns;
		if (work->before != PLAN_NONE && start_ns < times->work_start_ns[work->before] &&
		    work->start_ns >= plan->work[work->before].start_ns)
			ret->disorder++;
	}
	if (count == 0)
		return 0;
	qsort(off, count, sizeof(*off), number_compare);
	ret->p50_ns = off[(count - 1) / 2];
	ret->p99_ns = off[(count - 1) * 99 / 100];
	ret->max_ns = off[count - 1];
	return 0;
}

/* --- its ops --- */

struct ops {
	const struct plan *plan;
	const struct plan_times *times;
	struct op *op;	   /* as those of the plan */
	uint8_t *keep;	   /* for each: it is in the result */
	uint64_t *seen;	   /* for each work: a host wait that covers it returned */
	struct map stream; /* by process and row: of the plan */
};

static void ops_release(struct ops *ops)
{
	free(ops->op);
	free(ops->keep);
	free(ops->seen);
	map_clear(&ops->stream);
}

static int number_streams(struct ops *ops)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < ops->plan->stream_count; i++) {
		struct plan_stream *stream = &ops->plan->stream[i];

		r = map_put(&ops->stream, (struct map_key){ stream->stream, stream->process },
			    stream);
	}
	return r;
}

/* A what-if may have moved its stream. */
static void move_call(const struct ops *ops, struct op *op)
{
	const struct plan_stream *stream =
		map_get(&ops->stream, (struct map_key){ op->stream, op->process });

	if (ops->plan->changed && stream && op->stream != 0 && op->device != DEVICE_UNKNOWN)
		op->device = ops->plan->device[stream->device].ordinal;
}

/* A wait for a work covers those before it on its stream. */
static void cover(struct ops *ops, uint32_t work, uint64_t end_ns)
{
	for (; work != PLAN_NONE && !ops->seen[work]; work = ops->plan->work[work].before)
		ops->seen[work] = end_ns;
}

/* Waits in order of time, as recorded: threads rarely overtake each other. */
static void cover_all(struct ops *ops)
{
	const struct plan *plan = ops->plan;

	for (uint32_t i = 0; i < plan->call_count; i++)
		for (uint32_t k = 0;
		     plan->call[i].flags & PLAN_BLOCKS && k < plan->call[i].edge_count; k++)
			if (plan->edge[plan->call[i].edge + k].kind == PLAN_EDGE_HOST)
				cover(ops, plan->edge[plan->call[i].edge + k].work,
				      ops->times->call_end_ns[i]);
}

static void set_call(struct ops *ops, uint32_t index)
{
	const struct plan_call *call = &ops->plan->call[index];
	struct op *op = &ops->op[call->op];

	if (call->flags & PLAN_DROPPED)
		return;
	ops->keep[call->op] = 1;
	move_call(ops, op);
	op->start_ns = ops->times->call_start_ns[index];
	if (op->end_ns)
		op->end_ns = ops->times->call_end_ns[index];
}

/* Another call may submit it now. */
static void become_part(const struct ops *ops, struct op *op, uint32_t call)
{
	const struct op *by = &ops->plan->op[ops->plan->call[call].op];

	op->start_ns = ops->times->call_start_ns[call];
	if (op->flags & (OP_NODE | OP_NO_CALL))
		return;
	op->flags |= OP_NODE;
	op->flags &= (uint16_t)~OP_RETURNED;
	op->kind = op->kind == OP_LAUNCH ? OP_KERNEL : op->kind;
	op->fn = by->fn;
	op->tid = by->tid;
	op->stack_id = by->stack_id;
	op->correlation = by->correlation;
	op->end_ns = 0;
	op->result = 0;
}

static void set_work(struct ops *ops, uint32_t index)
{
	const struct plan_work *work = &ops->plan->work[index];
	const struct plan_stream *stream = &ops->plan->stream[work->stream];
	struct op *op = &ops->op[work->op];

	/* A mark is part of its call. */
	if (work->flags & (PLAN_DROPPED | PLAN_MARK))
		return;
	ops->keep[work->op] = 1;
	if (work->call == PLAN_NONE)
		op->start_ns = ops->times->work_start_ns[index];
	else if (ops->plan->call[work->call].op != work->op)
		become_part(ops, op, work->call);
	if (stream->stream)
		op->stream = stream->stream;
	op->device = ops->plan->device[stream->device].ordinal;
	if (op->seen_ns)
		op->seen_ns = ops->seen[index];
	if (work->flags & PLAN_UNTIMED)
		return;
	op->gpu_start_ns = ops->times->work_start_ns[index];
	op->gpu_end_ns = ops->times->work_end_ns[index];
}

static int op_compare(const void *a, const void *b)
{
	const struct op *x = a, *y = b;

	return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

int emulate_ops(const struct plan *plan, const struct plan_times *times, struct op **ret,
		size_t *ret_count)
{
	_cleanup_(ops_release) struct ops ops = { .plan = plan, .times = times };
	size_t count = 0;

	ops.op = malloc((plan->op_count + 1) * sizeof(*ops.op));
	ops.keep = calloc(plan->op_count + 1, 1);
	ops.seen = calloc(plan->work_count + 1ul, sizeof(*ops.seen));
	if (!ops.op || !ops.keep || !ops.seen || number_streams(&ops) < 0)
		return -ENOMEM;
	if (plan->op_count)
		memcpy(ops.op, plan->op, plan->op_count * sizeof(*ops.op));
	cover_all(&ops);
	for (uint32_t i = 0; i < plan->call_count; i++)
		set_call(&ops, i);
	for (uint32_t i = 0; i < plan->work_count; i++)
		set_work(&ops, i);
	for (size_t i = 0; i < plan->op_count; i++)
		if (ops.keep[i])
			ops.op[count++] = ops.op[i];
	qsort(ops.op, count, sizeof(*ops.op), op_compare);
	*ret = TAKE(ops.op);
	*ret_count = count;
	return 0;
}
