/* plan.h: the instruction stream of a recording: what ran, and what had to wait for what.
 *
 * A plan has calls, which host threads make one after another, and works, which streams execute in
 * order: kernels, copies, sets, and the marks that events leave on a stream. An item starts its
 * delay after the last of what it waits for:
 *   call: the end of the call before it on its thread; for the first one the start of the plan;
 *   work: the start of the call that submits it; the end of the work before it on its stream, less
 *   `early_ns`, and no sooner than the start of that one; the ends of the works of its edges; and
 *   if its `bound` is PLAN_BOUND_ENGINE, a place on its engine. If it waits for nothing: the start
 *   of the plan.
 * A call ends as long after its start as recorded; one that blocks ends its tail after the last of
 * its start and the ends of the works of its edges.
 *
 * Everything else in the recording is a delay: for a call the time its thread did something else,
 * for a work the latency of its launch or dispatch, for a waiting call the time to wake up. So
 * running an unchanged plan (emulate.h) gives the times of the recording, to the nanosecond. A
 * dependency that the recording contradicts (clocks differ a little; a rule need not hold for every
 * driver) is left out, and counted.
 *
 * Calls are in order of time, and works in submission order; `before` chains those of each thread
 * and each stream. The predecessor of a work has a smaller number unless threads raced for a
 * stream, or a call was not seen. The edges of an item are contiguous. A work without exact times
 * takes no time: it is over as soon as it can be.
 *
 * A launch of a graph that was recorded node by node has a mark at its start and one at its end on
 * its stream, PLAN_GRAPH | PLAN_MARK, and the nodes in between: those that wait for no other node
 * have an edge to the start, and the end has one to each node that no other waits for. A node's
 * `before` is in the same launch or PLAN_NONE, and never the `before` of a work outside; its stream
 * is where it was recorded.
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

/* What a work needs of its device while it runs. Copies have one engine per direction. */
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
	PLAN_UNTIMED = 1 << 1, /* work: no exact times; it takes no time */
	PLAN_GRAPH = 1 << 2,   /* call: launches a graph; work: part of one */
	PLAN_NO_CALL = 1 << 3, /* work: its submitter is unknown */
	PLAN_DROPPED = 1 << 4, /* by a what-if: takes no time, and is not in the result */
	PLAN_MARK = 1 << 5,    /* work: of an event, a wait for one, or of a graph; takes no time */
};

struct plan_call {
	uint64_t start_ns, end_ns; /* as recorded; equal if the end was not recorded */
	int64_t delay_ns;	   /* never less than 0 */
	int64_t tail_ns;	   /* likewise; of a call that blocks */
	int64_t own_ns; /* from its start, if what it waits for is over: see attribution.c */
	uint32_t op;
	uint32_t thread;
	uint32_t before; /* on the thread, or PLAN_NONE */
	uint32_t work;	 /* the first work it submits, or PLAN_NONE; the others follow by `next` */
	uint32_t edge, edge_count;
	uint16_t flags;
};

struct plan_work {
	uint64_t start_ns, end_ns; /* as recorded; for what takes no time, when it could be */
	/* How long it started after the last of what it waits for or, with PLAN_BOUND_ENGINE, after
	 * its place was free; never less than 0. */
	int64_t delay_ns;
	/* If its predecessor on the stream had not ended when it started, as with programmatic
	 * launches: how long that continued. */
	uint64_t early_ns;
	/* What plan_attribute() makes of these: the least delays of its start after its call
	 * started (or the plan, if it waits for nothing), after the works that it waits for ended,
	 * and after the work ended that had its place on the engine before. */
	int64_t launch_ns, gap_ns;
	uint64_t duration_ns;
	uint32_t behind; /* that work, or PLAN_NONE */
	uint32_t behind_ns;
	uint32_t share; /* part of its engine that it takes, of PLAN_SHARE_ALL */
	uint32_t op;
	uint32_t call;	 /* the call that submits it, or PLAN_NONE */
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
	PLAN_BOUND_CALL,   /* its launch, even if its call was not the last, but still on its way */
	PLAN_BOUND_STREAM, /* the work before it on its stream */
	PLAN_BOUND_EDGE,   /* an event, another stream */
	PLAN_BOUND_ENGINE, /* its engine was full: the delay is from when it got a place */
};

enum plan_edge_kind {
	PLAN_EDGE_EVENT,   /* cuStreamWaitEvent */
	PLAN_EDGE_DEFAULT, /* order between the legacy default stream and the blocking ones */
	PLAN_EDGE_NODE,	   /* in a graph, as far as times and streams show it */
	PLAN_EDGE_HOST,	   /* a host wait: edges of calls, like the next */
	PLAN_EDGE_QUEUE,   /* a launch waits for room in the queue of its stream */
};

struct plan_edge {
	uint32_t work; /* the work that must end first */
	uint32_t kind;
};

struct plan_thread {
	uint32_t process, tid;
	uint32_t first, last; /* calls */
};

struct plan_stream {
	uint32_t process, stream; /* row of the stream, 0: none */
	uint32_t first, last;	  /* works, except nodes; PLAN_NONE: it has none of its own */
	uint32_t device;	  /* index */
	uint32_t made_of;	  /* by a what-if: row of the stream that it is a part of, else 0 */
};

struct plan_device {
	uint32_t process;
	int16_t ordinal;
	uint32_t multiprocessors; /* 0: unknown */
	/* How many ran concurrently at most, by engine; counted by plan_attribute(). */
	uint32_t width[PLAN_ENGINE_COUNT];
};

struct plan {
	struct op *op; /* in order of start_ns; calls and works refer to them */
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
 * (enum effect, function.h) by its number; it must live until the end. */
struct plan_builder;

/* The attributes of a stream. A stream without them waits for none of the default streams, nor they
 * for it. */
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
/* The builder must not be used afterwards. */
int plan_builder_end(struct plan_builder *builder, struct plan **ret);
/* Attributes the delays, so that a changed plan gives sensible times too: the last step of
 * plan_builder_end(), and of plans made by hand. Needs order, edges and recorded times; fills in
 * own_ns, and of works from launch_ns to share, PLAN_BOUND_ENGINE, and the widths. -ENOMEM */
int plan_attribute(struct plan *plan);
struct plan *plan_free(struct plan *plan);

CLEANUP_DEFINE(struct plan_builder, plan_builder_free)
CLEANUP_DEFINE(struct plan, plan_free)

#endif
