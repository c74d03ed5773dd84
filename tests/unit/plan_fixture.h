/* Ops as the model makes them, and the plan that is built of them. One process, one device. */
#ifndef TS_PLAN_FIXTURE_H
#define TS_PLAN_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/function.h"
#include "core/plan/emulate.h"
#include "core/plan/plan.h"

enum {
	FN_OTHER = 1,
	FN_LAUNCH,
	FN_HTOD_ASYNC,
	FN_DTOH_ASYNC,
	FN_HTOD,
	FN_SYNC_STREAM,
	FN_SYNC_DEVICE,
	FN_SYNC_EVENT,
	FN_RECORD,
	FN_WAIT,
	FN_DESTROY,
	FN_CAPTURE_BEGIN,
	FN_CAPTURE_END,
	FN_FREE,
	FN_COUNT
};

static const struct {
	uint8_t kind, effect, detail;
} plan_fn[FN_COUNT] = {
	[FN_OTHER] = { OP_MODULE, EFFECT_NONE, 0 },
	[FN_LAUNCH] = { OP_LAUNCH, EFFECT_SUBMIT, 0 },
	[FN_HTOD_ASYNC] = { OP_COPY, EFFECT_SUBMIT, COPY_HTOD },
	[FN_DTOH_ASYNC] = { OP_COPY, EFFECT_SUBMIT, COPY_DTOH },
	[FN_HTOD] = { OP_COPY, EFFECT_SUBMIT_WAIT, COPY_HTOD },
	[FN_SYNC_STREAM] = { OP_SYNC, EFFECT_SYNC_STREAM, 0 },
	[FN_SYNC_DEVICE] = { OP_SYNC, EFFECT_SYNC_CONTEXT, 0 },
	[FN_SYNC_EVENT] = { OP_SYNC, EFFECT_SYNC_EVENT, 0 },
	[FN_RECORD] = { OP_EVENT, EFFECT_EVENT_RECORD, 0 },
	[FN_WAIT] = { OP_STREAM, EFFECT_STREAM_WAIT, 0 },
	[FN_DESTROY] = { OP_EVENT, EFFECT_EVENT_DESTROY, 0 },
	[FN_CAPTURE_BEGIN] = { OP_GRAPH, EFFECT_CAPTURE_BEGIN, 0 },
	[FN_CAPTURE_END] = { OP_GRAPH, EFFECT_CAPTURE_END, 0 },
	[FN_FREE] = { OP_FREE, EFFECT_FREE, MEMORY_DEVICE },
};

/* Streams: the default one, blocking ones, and from SIDE on others. */
enum { LEGACY = 1, S1, S2, S3, SIDE, SIDE2, STREAMS };

#define PROCESS 7
#define CONTEXT 0xc0
#define OPS_MAX 20000
#define NOTHING PLAN_NONE

static struct op ops[OPS_MAX];
static size_t op_count;
static struct plan *plan;

static struct op *add(uint16_t fn, uint32_t tid, uint64_t start_ns, uint64_t end_ns,
		      uint32_t stream)
{
	struct op *op = &ops[op_count++];

	assert_true(op_count <= OPS_MAX);
	*op = (struct op){
		.start_ns = start_ns,
		.end_ns = end_ns,
		.process = PROCESS,
		.stream = stream,
		.tid = tid,
		.fn = fn,
		.flags = end_ns ? OP_RETURNED : 0,
		.kind = plan_fn[fn].kind,
		.detail = plan_fn[fn].detail,
	};
	return op;
}

/* With the device's times of what it submits. */
static struct op *add_work(uint16_t fn, uint32_t tid, uint64_t start_ns, uint64_t end_ns,
			   uint32_t stream, uint64_t gpu_start_ns, uint64_t gpu_end_ns)
{
	struct op *op = add(fn, tid, start_ns, end_ns, stream);

	op->gpu_start_ns = gpu_start_ns;
	op->gpu_end_ns = gpu_end_ns;
	op->flags |= OP_EXACT;
	return op;
}

static struct op *add_event(uint16_t fn, uint32_t tid, uint64_t start_ns, uint64_t end_ns,
			    uint32_t stream, uint64_t handle)
{
	struct op *op = add(fn, tid, start_ns, end_ns, stream);

	op->handle = handle;
	return op;
}

/* A node of the graph that the call launches. */
static inline struct op *add_node(const struct op *call, uint32_t stream, uint64_t gpu_start_ns,
				  uint64_t gpu_end_ns)
{
	struct op *op = add_work(call->fn, call->tid, call->start_ns, call->end_ns, stream,
				 gpu_start_ns, gpu_end_ns);

	op->kind = OP_KERNEL;
	op->flags |= OP_NODE;
	op->graph = 1;
	return op;
}

static void build_begin(struct plan_builder **builder, const uint8_t *effect)
{
	assert_int_equal(plan_builder_new(effect, FN_COUNT, OPS_MAX, builder), 0);
	for (uint32_t stream = LEGACY; stream < STREAMS; stream++) {
		struct plan_stream_row row = {
			.process = PROCESS,
			.stream = stream,
			.handle = stream == LEGACY ? 0 : 0x100 + stream,
			.context = CONTEXT,
			.non_blocking = stream >= SIDE,
		};

		assert_int_equal(plan_builder_stream(*builder, &row), 0);
	}
}

static void build(void)
{
	_cleanup_(plan_builder_freep) struct plan_builder *builder = NULL;
	uint8_t effect[FN_COUNT];

	for (int i = 0; i < FN_COUNT; i++)
		effect[i] = plan_fn[i].effect;
	build_begin(&builder, effect);
	assert_int_equal(plan_builder_add(builder, ops, op_count), 0);
	plan = plan_free(plan);
	assert_int_equal(plan_builder_end(builder, &plan), 0);
}

static int forget(void **state)
{
	op_count = 0;
	plan = plan_free(plan);
	return 0;
}

/* The one work that is not a mark and started then. */
static inline struct plan_work *work_at(uint64_t start_ns)
{
	struct plan_work *found = NULL;

	for (uint32_t i = 0; i < plan->work_count; i++) {
		struct plan_work *work = &plan->work[i];

		if (work->start_ns != start_ns || work->flags & PLAN_MARK)
			continue;
		assert_null(found);
		found = work;
	}
	assert_non_null(found);
	return found;
}

static inline struct plan_call *call_at(uint64_t start_ns)
{
	for (uint32_t i = 0; i < plan->call_count; i++)
		if (plan->call[i].start_ns == start_ns)
			return &plan->call[i];
	fail();
	return NULL;
}

/* Through marks, and of works that do not take time. */
static inline bool reaches(uint32_t from, const struct plan_work *to)
{
	const struct plan_work *work = &plan->work[from];

	if (work == to)
		return true;
	if (!(work->flags & (PLAN_MARK | PLAN_UNTIMED)))
		return false;
	if (work->before != NOTHING && reaches(work->before, to))
		return true;
	for (uint32_t i = 0; i < work->edge_count; i++)
		if (reaches(plan->edge[work->edge + i].work, to))
			return true;
	return false;
}

static inline bool waits(const struct plan_work *work, const struct plan_work *to)
{
	if (work->before != NOTHING && reaches(work->before, to))
		return true;
	for (uint32_t i = 0; i < work->edge_count; i++)
		if (reaches(plan->edge[work->edge + i].work, to))
			return true;
	return false;
}

static inline bool call_waits(const struct plan_call *call, const struct plan_work *to)
{
	for (uint32_t i = 0; call->flags & PLAN_BLOCKS && i < call->edge_count; i++)
		if (reaches(plan->edge[call->edge + i].work, to))
			return true;
	return false;
}

/* The latest end of the works that it waits for; 0: it waits for none. */
static uint64_t freed_ns(const struct plan_work *work)
{
	uint64_t ns = 0;

	if (work->before != NOTHING) {
		const struct plan_work *before = &plan->work[work->before];

		ns = before->end_ns - work->early_ns;
		ns = ns > before->start_ns ? ns : before->start_ns;
	}
	for (uint32_t i = 0; i < work->edge_count; i++)
		if (plan->work[plan->edge[work->edge + i].work].end_ns > ns)
			ns = plan->work[plan->edge[work->edge + i].work].end_ns;
	return ns;
}

/* What always holds: the rules and the delays give the recorded times. */
static void assert_rules(void)
{
	for (uint32_t i = 0; i < plan->call_count; i++) {
		const struct plan_call *call = &plan->call[i];
		uint64_t before_ns =
			call->before == NOTHING ? plan->start_ns : plan->call[call->before].end_ns;
		uint64_t end_ns = call->start_ns + (uint64_t)call->own_ns;

		assert_true(call->delay_ns >= 0 && call->tail_ns >= 0 && call->own_ns >= 0);
		assert_int_equal(before_ns + (uint64_t)call->delay_ns, call->start_ns);
		for (uint32_t k = 0; call->flags & PLAN_BLOCKS && k < call->edge_count; k++) {
			uint64_t ns = plan->work[plan->edge[call->edge + k].work].end_ns +
				      (uint64_t)call->tail_ns;

			end_ns = ns > end_ns ? ns : end_ns;
		}
		assert_int_equal(end_ns, call->end_ns);
	}
	for (uint32_t i = 0; i < plan->work_count; i++) {
		const struct plan_work *work = &plan->work[i];
		uint64_t freed = freed_ns(work),
			 ready = freed > plan->start_ns ? freed : plan->start_ns;

		if (work->call != NOTHING && plan->call[work->call].start_ns > ready)
			ready = plan->call[work->call].start_ns;
		if (work->behind != NOTHING)
			ready = plan->work[work->behind].end_ns;
		assert_true(work->delay_ns >= 0);
		assert_int_equal(ready + (uint64_t)work->delay_ns, work->start_ns);
		assert_true(work->end_ns <= plan->end_ns && work->start_ns >= plan->start_ns);
	}
}

static inline void assert_reproduced(void)
{
	struct emulate_result result;

	assert_rules();
	assert_int_equal(emulate(plan, &result), 0);
	for (uint32_t i = 0; i < plan->call_count; i++) {
		assert_int_equal(result.times->call_start_ns[i], plan->call[i].start_ns);
		assert_int_equal(result.times->call_end_ns[i], plan->call[i].end_ns);
	}
	for (uint32_t i = 0; i < plan->work_count; i++) {
		assert_int_equal(result.times->work_start_ns[i], plan->work[i].start_ns);
		assert_int_equal(result.times->work_end_ns[i], plan->work[i].end_ns);
	}
	plan_times_free(result.times);
}

#endif
