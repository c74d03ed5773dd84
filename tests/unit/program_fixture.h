/* program_fixture.h: programs of threads, streams, copies, kernels and events; a machine that runs
 * them, as plain as can be and nothing like the emulator; and plans made of what it did. */
#ifndef PROGRAM_FIXTURE_H
#define PROGRAM_FIXTURE_H

#include <stdlib.h>
#include <string.h>

#include "core/plan/emulate.h"
#include "core/plan/plan.h"

#define PROGRAM_THREADS 4
#define PROGRAM_STREAMS 16
#define PROGRAM_EVENTS	8
#define PROGRAM_STEPS	256 /* of a thread */
#define PROGRAM_MAX	(PROGRAM_THREADS * PROGRAM_STEPS)
#define PROGRAM_DEPS	(PROGRAM_STREAMS + 2)
#define UNKNOWN		UINT64_MAX

enum { KERNEL, COPY_IN, COPY_OUT, WAITED_COPY, RECORD, WAIT, SYNC_STREAM, SYNC_ALL, CALL };

struct step {
	int kind;
	uint32_t stream, event;
	uint64_t host_ns, call_ns; /* before the call; in it, if it waits for nothing */
	uint64_t ns, name, bytes;
	uint32_t blocks; /* of 1024 threads */
};

/* Two blocks of a thousand threads fit on a multiprocessor. */
struct program {
	uint64_t launch_ns, gap_ns, wake_ns;
	uint32_t multiprocessors;
	uint32_t steps[PROGRAM_THREADS];
	struct step step[PROGRAM_THREADS][PROGRAM_STEPS];
};

struct did_call {
	const struct step *step;
	uint64_t start_ns, end_ns;
	uint32_t thread, deps, dep[PROGRAM_DEPS];
	int64_t work;
};

struct did_work {
	const struct step *step;
	uint64_t start_ns, end_ns; /* UNKNOWN: not yet */
	uint64_t arrived_ns;
	uint32_t call, deps, dep[PROGRAM_DEPS];
	int64_t before;
	int engine;
	uint32_t blocks; /* that it takes */
	bool queued;
};

struct machine {
	const struct program *program;
	uint32_t calls, works;
	struct did_call call[PROGRAM_MAX];
	struct did_work work[PROGRAM_MAX];
	int64_t last[PROGRAM_STREAMS];	    /* work */
	int64_t event[PROGRAM_EVENTS];	    /* work that records it */
	int64_t under_way[PROGRAM_THREADS]; /* call */
	uint32_t at[PROGRAM_THREADS];
};

static inline uint64_t most(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static inline uint32_t machine_room(const struct machine *m, int engine)
{
	return engine == PLAN_ENGINE_COMPUTE ? m->program->multiprocessors * 2 : 1;
}

static inline bool machine_fits(const struct machine *m, const struct did_work *work, uint64_t ns)
{
	uint32_t taken = work->blocks;

	for (uint32_t i = 0; i < m->works; i++)
		if (m->work[i].engine == work->engine && m->work[i].start_ns != UNKNOWN &&
		    m->work[i].end_ns > ns)
			taken += m->work[i].blocks;
	return taken <= machine_room(m, work->engine);
}

static inline void machine_begin(struct did_work *work, uint64_t ns)
{
	work->queued = false;
	work->start_ns = ns;
	work->end_ns = ns + (work->engine == PLAN_ENGINE_NONE ? 0 : work->step->ns);
}

/* When all that it waits for lets it begin, UNKNOWN: not yet to tell. */
static inline uint64_t machine_arrives(const struct machine *m, const struct did_work *work)
{
	bool mark = work->engine == PLAN_ENGINE_NONE;
	uint64_t ns = m->call[work->call].start_ns + (mark ? 0 : m->program->launch_ns);

	for (uint32_t i = 0; i < work->deps; i++) {
		uint64_t end_ns = m->work[work->dep[i]].end_ns;

		if (end_ns == UNKNOWN)
			return UNKNOWN;
		ns = most(ns, end_ns + (mark ? 0 : m->program->gap_ns));
	}
	return ns;
}

static inline void machine_submit(struct machine *m, uint32_t call, const struct step *step)
{
	struct did_work *work = &m->work[m->works];

	*work = (struct did_work){ .step = step,
				   .start_ns = UNKNOWN,
				   .end_ns = UNKNOWN,
				   .arrived_ns = UNKNOWN,
				   .call = call,
				   .before = m->last[step->stream],
				   .blocks = 1 };
	work->engine = step->kind == KERNEL			    ? PLAN_ENGINE_COMPUTE
		       : step->kind == COPY_OUT			    ? PLAN_ENGINE_DTOH
		       : step->kind == RECORD || step->kind == WAIT ? PLAN_ENGINE_NONE
								    : PLAN_ENGINE_HTOD;
	if (step->kind == KERNEL) {
		uint32_t room = machine_room(m, PLAN_ENGINE_COMPUTE);

		work->blocks = step->blocks < room ? step->blocks : room;
	}
	if (work->before >= 0)
		work->dep[work->deps++] = (uint32_t)work->before;
	if (step->kind == WAIT && m->event[step->event] >= 0)
		work->dep[work->deps++] = (uint32_t)m->event[step->event];
	if (step->kind == RECORD)
		m->event[step->event] = m->works;
	m->call[call].work = m->works;
	m->last[step->stream] = m->works++;
}

static inline void machine_call(struct machine *m, uint32_t thread, uint64_t ns)
{
	const struct step *step = &m->program->step[thread][m->at[thread]++];
	struct did_call *call = &m->call[m->calls];

	*call = (struct did_call){
		.step = step, .start_ns = ns, .end_ns = UNKNOWN, .thread = thread, .work = -1
	};
	if (step->kind < SYNC_STREAM)
		machine_submit(m, m->calls, step);
	if (step->kind == WAITED_COPY || step->kind == SYNC_STREAM) {
		if (m->last[step->stream] >= 0)
			call->dep[call->deps++] = (uint32_t)m->last[step->stream];
	} else if (step->kind == SYNC_ALL) {
		for (int i = 0; i < PROGRAM_STREAMS; i++)
			if (m->last[i] >= 0)
				call->dep[call->deps++] = (uint32_t)m->last[i];
	}
	m->under_way[thread] = m->calls++;
}

/* When its call under way ends, UNKNOWN: not yet to tell. */
static inline uint64_t machine_returns(struct machine *m, uint32_t thread)
{
	struct did_call *call;
	uint64_t ns;

	if (m->under_way[thread] < 0)
		return 1;
	call = &m->call[m->under_way[thread]];
	ns = call->start_ns + call->step->call_ns;
	for (uint32_t i = 0; i < call->deps; i++) {
		if (m->work[call->dep[i]].end_ns == UNKNOWN)
			return UNKNOWN;
		ns = most(ns, m->work[call->dep[i]].end_ns + m->program->wake_ns);
	}
	return call->end_ns = ns;
}

/* The work that waits longest for an engine. */
static inline struct did_work *machine_head(struct machine *m, int engine)
{
	struct did_work *head = NULL;

	for (uint32_t i = 0; i < m->works; i++)
		if (m->work[i].queued && m->work[i].engine == engine &&
		    (!head || m->work[i].arrived_ns < head->arrived_ns))
			head = &m->work[i];
	return head;
}

static inline uint64_t machine_next_end(const struct machine *m, int engine, uint64_t after_ns)
{
	uint64_t ns = UNKNOWN;

	for (uint32_t i = 0; i < m->works; i++)
		if (m->work[i].engine == engine && m->work[i].end_ns != UNKNOWN &&
		    m->work[i].end_ns > after_ns && m->work[i].end_ns < ns)
			ns = m->work[i].end_ns;
	return ns;
}

/* One thing happens: the first that can. False: nothing is left. */
static inline bool machine_step(struct machine *m, uint64_t *now_ns)
{
	struct did_work *arrives = NULL, *head;
	uint64_t best_ns = UNKNOWN;
	int engine = -1;
	int64_t calls = -1;

	for (int i = PLAN_ENGINE_COMPUTE; i < PLAN_ENGINE_COUNT; i++)
		if (machine_head(m, i) && machine_next_end(m, i, *now_ns) < best_ns) {
			best_ns = machine_next_end(m, i, *now_ns);
			engine = i;
		}
	for (uint32_t i = 0; i < PROGRAM_THREADS; i++) {
		uint64_t ns = m->at[i] < m->program->steps[i] ? machine_returns(m, i) : UNKNOWN;

		if (ns == UNKNOWN || ns + m->program->step[i][m->at[i]].host_ns >= best_ns)
			continue;
		best_ns = ns + m->program->step[i][m->at[i]].host_ns;
		calls = i;
	}
	for (uint32_t i = 0; i < m->works; i++) {
		struct did_work *work = &m->work[i];

		if (work->start_ns != UNKNOWN || work->queued ||
		    machine_arrives(m, work) >= best_ns)
			continue;
		best_ns = machine_arrives(m, work);
		arrives = work;
	}
	if (best_ns == UNKNOWN)
		return false;
	*now_ns = best_ns;
	if (arrives) {
		arrives->arrived_ns = best_ns;
		if (arrives->engine == PLAN_ENGINE_NONE ||
		    (!machine_head(m, arrives->engine) && machine_fits(m, arrives, best_ns)))
			machine_begin(arrives, best_ns);
		else
			arrives->queued = true;
	} else if (calls >= 0) {
		machine_call(m, (uint32_t)calls, best_ns);
	} else {
		while ((head = machine_head(m, engine)) && machine_fits(m, head, best_ns))
			machine_begin(head, best_ns + m->program->gap_ns);
	}
	return true;
}

/* To be freed. */
static inline struct machine *machine_run(const struct program *program)
{
	struct machine *m = calloc(1, sizeof(*m));
	uint64_t now_ns = 0;

	m->program = program;
	for (int i = 0; i < PROGRAM_STREAMS; i++)
		m->last[i] = -1;
	for (int i = 0; i < PROGRAM_EVENTS; i++)
		m->event[i] = -1;
	for (int i = 0; i < PROGRAM_THREADS; i++)
		m->under_way[i] = -1;
	while (machine_step(m, &now_ns))
		;
	for (uint32_t i = 0; i < PROGRAM_THREADS; i++)
		machine_returns(m, i);
	return m;
}

static inline uint64_t machine_end_ns(const struct machine *m)
{
	uint64_t ns = 0;

	for (uint32_t i = 0; i < m->calls; i++)
		ns = most(ns, m->call[i].end_ns);
	for (uint32_t i = 0; i < m->works; i++)
		ns = most(ns, m->work[i].end_ns);
	return ns;
}

static inline uint64_t machine_makespan_ns(const struct machine *m)
{
	return machine_end_ns(m) - m->call[0].start_ns;
}

/* --- what it did, as a plan --- */

static inline void plan_add_edges(struct plan *plan, const uint32_t *dep, uint32_t deps,
				  enum plan_edge_kind kind, uint32_t *edge, uint32_t *count)
{
	*edge = plan->edge_count;
	*count = deps;
	for (uint32_t i = 0; i < deps; i++)
		plan->edge[plan->edge_count++] = (struct plan_edge){ dep[i], kind };
}

static inline void plan_add_call(struct plan *plan, const struct machine *m, uint32_t index)
{
	const struct did_call *did = &m->call[index];
	struct plan_thread *thread = &plan->thread[did->thread];
	struct plan_call *call = &plan->call[index];
	struct op *op = &plan->op[index];
	static const uint8_t kinds[] = { OP_LAUNCH, OP_COPY, OP_COPY, OP_COPY, OP_EVENT,
					 OP_EVENT,  OP_SYNC, OP_SYNC, OP_ALLOC };

	*op = (struct op){ .start_ns = did->start_ns,
			   .end_ns = did->end_ns,
			   .kind = kinds[did->step->kind],
			   .tid = did->thread + 1,
			   .name = did->step->name,
			   .bytes = did->step->bytes,
			   .process = 1,
			   .grid = { did->step->blocks, 1, 1 },
			   .block = { 1024, 1, 1 } };
	if (op->kind == OP_COPY)
		op->detail = did->step->kind == COPY_OUT ? COPY_DTOH : COPY_HTOD;
	*call = (struct plan_call){ .start_ns = did->start_ns,
				    .end_ns = did->end_ns,
				    .op = index,
				    .thread = did->thread,
				    .before = thread->last,
				    .work = did->work < 0 ? PLAN_NONE : (uint32_t)did->work };
	call->delay_ns = (int64_t)(did->start_ns - (thread->last == PLAN_NONE
							    ? plan->start_ns
							    : plan->call[thread->last].end_ns));
	plan_add_edges(plan, did->dep, did->deps, PLAN_EDGE_HOST, &call->edge, &call->edge_count);
	if (did->step->kind == WAITED_COPY || did->step->kind == SYNC_STREAM ||
	    did->step->kind == SYNC_ALL)
		call->flags = PLAN_BLOCKS;
	if (thread->first == PLAN_NONE)
		thread->first = index;
	thread->last = index;
}

static inline void plan_add_work(struct plan *plan, const struct machine *m, uint32_t index)
{
	const struct did_work *did = &m->work[index];
	struct plan_stream *stream = &plan->stream[did->step->stream];
	struct plan_work *work = &plan->work[index];
	struct op *op = &plan->op[did->call];
	uint32_t skip = did->before >= 0;

	*work = (struct plan_work){ .start_ns = did->start_ns,
				    .end_ns = did->end_ns,
				    .op = did->call,
				    .call = did->call,
				    .next = PLAN_NONE,
				    .stream = did->step->stream,
				    .engine = (uint8_t)did->engine,
				    .before = skip ? (uint32_t)did->before : PLAN_NONE };
	if (did->engine == PLAN_ENGINE_NONE)
		work->flags = PLAN_MARK;
	else
		op->flags |= OP_EXACT;
	op->stream = stream->stream;
	op->gpu_start_ns = did->engine == PLAN_ENGINE_NONE ? 0 : did->start_ns;
	op->gpu_end_ns = did->engine == PLAN_ENGINE_NONE ? 0 : did->end_ns;
	plan_add_edges(plan, did->dep + skip, did->deps - skip, PLAN_EDGE_EVENT, &work->edge,
		       &work->edge_count);
	if (stream->first == PLAN_NONE)
		stream->first = index;
	stream->last = index;
}

/* To be freed with program_plan_free(). */
static inline struct plan *program_plan(const struct machine *m)
{
	struct plan *plan = calloc(1, sizeof(*plan));
	size_t edges = m->calls + m->works + 1;

	plan->op = calloc(m->calls + 1, sizeof(*plan->op));
	plan->call = calloc(m->calls + 1, sizeof(*plan->call));
	plan->work = calloc(m->works + 1, sizeof(*plan->work));
	plan->edge = calloc(edges * PROGRAM_DEPS, sizeof(*plan->edge));
	plan->thread = calloc(PROGRAM_THREADS, sizeof(*plan->thread));
	plan->stream = calloc(PROGRAM_STREAMS, sizeof(*plan->stream));
	plan->device = calloc(1, sizeof(*plan->device));
	plan->op_count = plan->call_count = m->calls;
	plan->work_count = m->works;
	plan->thread_count = PROGRAM_THREADS;
	plan->stream_count = PROGRAM_STREAMS;
	plan->device_count = 1;
	plan->start_ns = m->calls ? m->call[0].start_ns : 0;
	plan->end_ns = machine_end_ns(m);
	plan->device[0] = (struct plan_device){ .process = 1,
						.multiprocessors = m->program->multiprocessors };
	for (uint32_t i = 0; i < PROGRAM_THREADS; i++)
		plan->thread[i] = (struct plan_thread){ 1, i + 1, PLAN_NONE, PLAN_NONE };
	for (uint32_t i = 0; i < PROGRAM_STREAMS; i++)
		plan->stream[i] = (struct plan_stream){ 1, i + 1, PLAN_NONE, PLAN_NONE, 0, 0 };
	for (uint32_t i = 0; i < m->calls; i++)
		plan_add_call(plan, m, i);
	for (uint32_t i = 0; i < m->works; i++)
		plan_add_work(plan, m, i);
	plan_attribute(plan);
	return plan;
}

static inline void program_plan_free(struct plan *plan)
{
	free(plan->op);
	free(plan->call);
	free(plan->work);
	free(plan->edge);
	free(plan->thread);
	free(plan->stream);
	free(plan->device);
	free(plan);
}

/* --- programs --- */

static inline uint64_t program_random(uint64_t *seed, uint64_t below)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed % below;
}

/* All delays are usual, so that a changed program has the same. */
static inline void program_begin(struct program *program)
{
	*program = (struct program){
		.launch_ns = 4096, .gap_ns = 1024, .wake_ns = 2048, .multiprocessors = 4
	};
}

static inline struct step *program_add(struct program *program, uint32_t thread, struct step step)
{
	struct step *added = &program->step[thread][program->steps[thread]++];

	*added = step;
	if (!added->host_ns)
		added->host_ns = 256;
	if (!added->call_ns)
		added->call_ns = 1024;
	if (!added->blocks)
		added->blocks = 1000;
	return added;
}

static inline struct step program_step(uint64_t *seed, uint32_t streams)
{
	static const int kinds[] = { KERNEL,	  KERNEL,      KERNEL,	KERNEL, COPY_IN,
				     COPY_OUT,	  COPY_IN,     RECORD,	WAIT,	WAIT,
				     WAITED_COPY, SYNC_STREAM, SYNC_ALL };

	return (struct step){
		.kind = kinds[program_random(seed, 13)],
		.stream = (uint32_t)program_random(seed, streams),
		.event = (uint32_t)program_random(seed, 2),
		.host_ns = 1 + program_random(seed, 3000),
		.call_ns = 1024,
		.ns = 1000 + program_random(seed, 40000),
		.name = program_random(seed, 4),
		.blocks = 1 + (uint32_t)program_random(seed, 12),
	};
}

static inline void program_make(struct program *program, uint64_t seed)
{
	uint32_t threads, streams;

	seed = seed * 0x9e3779b97f4a7c15 + 1;
	program_begin(program);
	threads = 1 + (uint32_t)program_random(&seed, PROGRAM_THREADS);
	streams = 1 + (uint32_t)program_random(&seed, 6);
	for (uint32_t t = 0; t < threads; t++)
		for (uint32_t i = 0; i < 60; i++)
			program_add(program, t, program_step(&seed, streams));
}

/* Each thread has streams and events of its own: who comes first is no race between threads. */
static inline void program_make_apart(struct program *program, uint64_t seed)
{
	uint32_t threads, streams;

	seed = seed * 0x9e3779b97f4a7c15 + 1;
	program_begin(program);
	threads = 1 + (uint32_t)program_random(&seed, PROGRAM_THREADS);
	streams = 1 + (uint32_t)program_random(&seed, PROGRAM_STREAMS / PROGRAM_THREADS);
	for (uint32_t t = 0; t < threads; t++)
		for (uint32_t i = 0; i < 60; i++) {
			struct step step = program_step(&seed, streams);

			step.kind = step.kind == SYNC_ALL ? SYNC_STREAM : step.kind;
			step.stream += t * PROGRAM_STREAMS / PROGRAM_THREADS;
			step.event += t * PROGRAM_EVENTS / PROGRAM_THREADS;
			program_add(program, t, step);
		}
}

#endif
