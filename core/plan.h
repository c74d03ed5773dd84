/* plan.h: the instruction stream of a recording: what ran, and what had to wait for what.
 *
 * A plan has calls, which host threads made one after another, and works, which streams did one
 * after another: kernels, copies, sets, and the marks that events leave on a stream. Four rules
 * say when a thing can begin, beside its own delay:
 *   call: the call before it on its thread has ended;
 *   work: the call that submitted it has begun; the work before it on its stream has ended; and the
 *   works of its edges (events, the default stream, nodes of a graph, what a host wait covered)
 *   have ended;
 *   end of a call that blocks: the works of its edges have ended.
 * What was recorded beyond that is a delay: of a call the time its thread did something else, of a
 * work the latency of its launch or dispatch, of a waiting call that of its waking up. So a plan
 * that is run again as it is (emulate.h) gives the times of the recording.
 *
 * Calls of a thread and works of a stream are chained in order; both arrays are in order of time.
 * Times are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef TS_CORE_PLAN_H
#define TS_CORE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/op.h"

#define PLAN_NONE UINT32_MAX

/* What a work needs of its device while it runs. Copies have an engine for each direction. */
enum plan_engine {
	PLAN_ENGINE_NONE, /* marks */
	PLAN_ENGINE_COMPUTE,
	PLAN_ENGINE_HTOD,
	PLAN_ENGINE_DTOH,
	PLAN_ENGINE_DTOD, /* also of sets and peer copies */
	PLAN_ENGINE_COUNT,
};

enum plan_flag {
	PLAN_BLOCKS = 1 << 0,  /* call: it does not return before its edges */
	PLAN_UNTIMED = 1 << 1, /* work: no exact times; it takes none */
	PLAN_GRAPH = 1 << 2,   /* call: launches a graph; work: a part of one */
	PLAN_NO_CALL = 1 << 3, /* work: who submitted it is not known */
	PLAN_DROPPED = 1 << 4, /* by a what-if: takes no time, and is not in what comes out */
	PLAN_MARK = 1 << 5,    /* work: of an event, or a wait for one */
};

struct plan_call {
	uint64_t start_ns, end_ns; /* as recorded */
	int64_t delay_ns;	   /* from the end of the call before it on the thread */
	int64_t tail_ns;	   /* of a call that blocks: from the end of what it waits for */
	uint32_t op;
	uint32_t thread;
	uint32_t before; /* on the thread, or PLAN_NONE */
	uint32_t work;	 /* the first that it submits, or PLAN_NONE; the others follow by `next` */
	uint32_t edge, edge_count;
	uint16_t flags;
};

struct plan_work {
	uint64_t start_ns, end_ns; /* as recorded */
	/* How long after all it waited for it began; never less than 0 in a recording that is
	 * whole. Which of them was the last is why: see `bound`. */
	int64_t delay_ns;
	uint32_t op;
	uint32_t call;	 /* that submits it, or PLAN_NONE */
	uint32_t next;	 /* of the same call, or PLAN_NONE */
	uint32_t stream; /* index */
	uint32_t before; /* on the stream, or PLAN_NONE */
	uint32_t edge, edge_count;
	uint16_t flags;
	uint8_t engine; /* enum plan_engine */
	uint8_t bound;	/* enum plan_bound: what it waited for last, as recorded */
};

enum plan_bound {
	PLAN_BOUND_NOTHING,
	PLAN_BOUND_CALL,   /* its launch */
	PLAN_BOUND_STREAM, /* the work before it on its stream */
	PLAN_BOUND_EDGE,   /* an event, another stream */
	PLAN_BOUND_ENGINE, /* others of its engine */
};

enum plan_edge_kind {
	PLAN_EDGE_EVENT,   /* cuStreamWaitEvent */
	PLAN_EDGE_DEFAULT, /* order between the legacy default stream and the blocking ones */
	PLAN_EDGE_NODE,	   /* of a graph, as far as times and streams show it */
	PLAN_EDGE_HOST,	   /* a host wait: edges of calls */
};

struct plan_edge {
	uint32_t work; /* that has to end first */
	uint32_t kind;
};

struct plan_thread {
	uint32_t process, tid;
	uint32_t first, last; /* calls */
};

struct plan_stream {
	uint32_t process, stream; /* row of the stream, 0: none */
	uint32_t first, last;	  /* works */
	uint32_t device;	  /* index */
};

struct plan_device {
	uint32_t process;
	int16_t ordinal;
	/* How many ran at once at most, by engine: the limits of the emulator. */
	uint32_t width[PLAN_ENGINE_COUNT];
};

struct plan {
	struct op *op; /* in order of start_ns; what calls and works point to */
	size_t op_count;
	struct plan_call *call;
	uint32_t call_count;
	struct plan_work *work;
	uint32_t work_count;
	struct plan_edge *edge;
	uint32_t edge_count;
	struct plan_thread *thread;
	uint32_t thread_count;
	struct plan_stream *stream;
	uint32_t stream_count;
	struct plan_device *device;
	uint32_t device_count;
	uint64_t start_ns, end_ns; /* of the first call or work; of the last */
	uint64_t untimed, no_call; /* works */
};

/* Building: ops in any order, at most `max` (-E2BIG beyond), then the end. `effect` of a function
 * (enum effect, function.h) by its number; it has to live until the end. */
struct plan_builder;

int plan_builder_new(const uint8_t *effect, uint32_t effect_count, size_t max,
		     struct plan_builder **ret);
struct plan_builder *plan_builder_free(struct plan_builder *builder);
int plan_builder_add(struct plan_builder *builder, const struct op *op, size_t count);
/* Whether a stream is one that the legacy default stream waits for, and the other way round; what
 * is not told is. */
int plan_builder_stream(struct plan_builder *builder, uint32_t stream, bool non_blocking);
int plan_builder_end(struct plan_builder *builder, struct plan **ret);
struct plan *plan_free(struct plan *plan);

CLEANUP_DEFINE(struct plan_builder, plan_builder_free)
CLEANUP_DEFINE(struct plan, plan_free)

#endif
