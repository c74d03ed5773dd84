/* plan.h: the instruction stream of a recording: what ran, and what had to wait for what.
 *
 * A plan has calls, which host threads made one after another, and works, which streams did one
 * after another: kernels, copies, sets, and the marks that events leave on a stream. A thing begins
 * its delay after the last of what it waits for:
 *   call: the end of the call before it on its thread; of the first one the start of the plan;
 *   work: the begin of the call that submits it; the end of the work before it on its stream, less
 *   `early_ns`, and no sooner than the begin of that one; the ends of the works of its edges; and
 *   where its `bound` is PLAN_BOUND_ENGINE, a place on its engine. What waits for nothing: the
 *   start of the plan.
 * A call ends as long after its begin as recorded; one that blocks ends its tail after the last of
 * its begin and the ends of the works of its edges.
 *
 * All else that was recorded is a delay: of a call the time its thread did something else, of a
 * work the latency of its launch or dispatch, of a waiting call that of its waking up. So a plan
 * that is run again as it is (emulate.h) gives the times of the recording, to the nanosecond. A
 * dependency that the recording contradicts (clocks differ a little; a rule need not hold for every
 * driver) is left out, and counted.
 *
 * Calls are in order of time, and works in the order in which they were submitted; each thread's
 * and each stream's are chained by `before`. That of a work has a smaller number but where threads
 * raced for a stream, or where a call was not seen. What has edges has them in one piece.
 * A work without exact times takes none: it is over as soon as it can be.
 *
 * A launch of a graph that was recorded node by node has a mark at its begin and one at its end on
 * its stream, PLAN_GRAPH | PLAN_MARK, and the nodes between: those that wait for no other node have
 * an edge to the begin, and the end has one to each node that no other waits for. A node's `before`
 * is of the same launch or PLAN_NONE, and never the `before` of a work outside; its stream is where
 * it was recorded.
 * Times are CLOCK_MONOTONIC nanoseconds.
 */
#ifndef TS_CORE_PLAN_H
#define TS_CORE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/model/op.h"

#define PLAN_NONE      UINT32_MAX
#define PLAN_SHARE_ALL (1u << 20)

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
	PLAN_MARK = 1 << 5,    /* work: of an event, a wait for one, or of a graph; takes no time */
};

struct plan_call {
	uint64_t start_ns, end_ns; /* as recorded; equal where the end was not */
	int64_t delay_ns;	   /* never less than 0 */
	int64_t tail_ns;	   /* likewise; of a call that blocks */
	int64_t own_ns;		   /* from its begin, where what it waits for is over: see settle */
	uint32_t op;
	uint32_t thread;
	uint32_t before; /* on the thread, or PLAN_NONE */
	uint32_t work;	 /* the first that it submits, or PLAN_NONE; the others follow by `next` */
	uint32_t edge, edge_count;
	uint16_t flags;
};

struct plan_work {
	uint64_t start_ns, end_ns; /* as recorded; of what takes no time, when it could be */
	/* How long after the last of what it waits for it began, or with PLAN_BOUND_ENGINE after
	 * its place was free; never less than 0. */
	int64_t delay_ns;
	/* Where the one before it on the stream had not ended when it began, as programmatic
	 * launches may: how long that ran on. */
	uint64_t early_ns;
	/* What plan_settle() makes of these: it begins no sooner than so long after its call began
	 * (that of the plan, where it waits for nothing), after the works that it waits for ended,
	 * and after the work ended that had its place on the engine before. */
	int64_t launch_ns, gap_ns;
	uint64_t duration_ns;
	uint32_t behind; /* that work, or PLAN_NONE */
	uint32_t behind_ns;
	uint32_t share; /* of its engine that it takes, of PLAN_SHARE_ALL */
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
	PLAN_BOUND_CALL,   /* its launch, also where its call was not the last, but still on its way
			    */
	PLAN_BOUND_STREAM, /* the work before it on its stream */
	PLAN_BOUND_EDGE,   /* an event, another stream */
	PLAN_BOUND_ENGINE, /* its engine had no place: the delay is from when it got one */
};

enum plan_edge_kind {
	PLAN_EDGE_EVENT,   /* cuStreamWaitEvent */
	PLAN_EDGE_DEFAULT, /* order between the legacy default stream and the blocking ones */
	PLAN_EDGE_NODE,	   /* of a graph, as far as times and streams show it */
	PLAN_EDGE_HOST,	   /* a host wait: edges of calls, as the next */
	PLAN_EDGE_QUEUE,   /* a launch waits for room in the queue of its stream */
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
	uint32_t first, last;	  /* works, but for nodes; PLAN_NONE: it has none of its own */
	uint32_t device;	  /* index */
	uint32_t made_of;	  /* by a what-if: row of the stream that it is a part of, else 0 */
};

struct plan_device {
	uint32_t process;
	int16_t ordinal;
	uint32_t multiprocessors; /* 0: not known */
	/* How many ran at once at most, by engine; plan_settle() counts. */
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
	uint64_t contradicted;	   /* dependencies */
	bool changed;		   /* by a what-if */
};

/* Building: ops in any order, at most `max` (-E2BIG beyond), then the end. `effect` of a function
 * (enum effect, function.h) by its number; it has to live until the end. */
struct plan_builder;

/* What the row of a stream tells. A stream that is not told of waits for none of the default
 * streams, nor they for it. */
struct plan_stream_row {
	uint32_t process, stream;
	uint64_t handle, context;
	bool non_blocking;
};

int plan_builder_new(const uint8_t *effect, uint32_t effect_count, size_t max,
		     struct plan_builder **ret);
struct plan_builder *plan_builder_free(struct plan_builder *builder);
int plan_builder_stream(struct plan_builder *builder, const struct plan_stream_row *row);
int plan_builder_add(struct plan_builder *builder, const struct op *op, size_t count);
/* How many multiprocessors a device has. */
int plan_builder_device(struct plan_builder *builder, uint32_t process, int16_t ordinal,
			uint32_t multiprocessors);
/* The builder is of no more use afterwards. */
int plan_builder_end(struct plan_builder *builder, struct plan **ret);
/* Takes the delays apart, so that a plan that was changed gives sensible times, too: the last step
 * of plan_builder_end(), and of plans made by hand. Needs order, edges and recorded times; fills in
 * own_ns, and of works from launch_ns to share, PLAN_BOUND_ENGINE, and the widths. -ENOMEM */
int plan_settle(struct plan *plan);
struct plan *plan_free(struct plan *plan);

CLEANUP_DEFINE(struct plan_builder, plan_builder_free)
CLEANUP_DEFINE(struct plan, plan_free)

#endif
