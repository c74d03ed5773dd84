/* build.h: shared by the files that build a plan. */
#ifndef TS_CORE_PLAN_BUILD_H
#define TS_CORE_PLAN_BUILD_H

#include "core/base/map.h"
#include "core/plan/plan.h"
#include "core/plan/sort.h"

/* In the flags of works, while a plan is built. */
#define BUILD_TIMED  (1u << 14) /* it has exact times */
#define BUILD_WAITED (1u << 15) /* another node waits for it */

struct build_stream {
	uint64_t start_ns;     /* the latest start of its timed works */
	uint32_t tail;	       /* the most recently submitted work */
	uint32_t last;	       /* the one that runs last, as far as known */
	uint32_t process;      /* index */
	uint32_t newer, older; /* streams of the process, by their last submission */
	uint32_t touched;      /* number of works at that time */
	uint32_t context;      /* index, or PLAN_NONE if not ordered with the default stream */
	uint32_t default_seen; /* the work of the default stream that it already waits for */
	uint32_t next_unseen;  /* that the default stream does not wait for yet */
	uint32_t capture;      /* number, 0: none */
	bool legacy;	       /* it is the default stream */
	bool unseen;
	bool disorder; /* works started in another order than they were submitted in */
};

struct build_context {
	uint32_t last;	 /* work of its default stream, or PLAN_NONE */
	uint32_t unseen; /* stream */
};

struct build_process {
	uint32_t newest; /* stream */
};

struct build_event {
	uint32_t mark; /* of its last record, PLAN_NONE: none */
	uint32_t capture;
};

struct build_device {
	uint32_t process;
	int16_t ordinal;
	uint32_t multiprocessors;
};

struct build_thread {
	uint32_t synced; /* number of works when it waited for the whole device */
	int16_t device;
};

struct plan_builder {
	const uint8_t *effect;
	uint32_t effect_count;
	size_t max;
	struct op *op;
	size_t op_count, op_room;
	uint64_t latest_ns; /* when the last of them started */
	bool disorder;	    /* one started no later than the one before it */
	struct plan_stream_row *row;
	struct build_device *device; /* what was reported about them */
	uint32_t row_count, row_room, device_count, build_device_room;

	/* While the plan is built: */
	int error; /* a negative errno: building failed */
	struct plan *plan;
	struct build_stream *stream; /* as those of the plan, like the next */
	struct build_thread *thread;
	struct build_context *context;
	struct build_process *process;
	struct build_event *event;
	uint32_t context_count, process_count, event_count, next_capture;
	uint32_t call_room, work_room, edge_room, thread_room, stream_room, device_room,
		context_room, process_room, event_room, build_stream_room, build_thread_room;
	struct map row_by_stream, thread_by_tid, stream_by_id, device_by_ordinal, context_by_handle,
		process_by_id, event_by_handle;
	uint32_t thread_seen, stream_seen; /* the last ones looked up */
	uint32_t call_work;		   /* the last one of the last call */
	uint32_t timeless;		   /* works without times of their own */
	struct plan_key *key, *spare_key;  /* room for every op or work */
};

/* Makes room for one more. False: no memory, `error` is set. */
bool build_room(struct plan_builder *builder, void *array, uint32_t count, uint32_t *room,
		size_t size);

/* Finds or creates; PLAN_NONE: no memory. */
uint32_t build_thread(struct plan_builder *builder, const struct op *op);
uint32_t build_stream(struct plan_builder *builder, const struct op *op);
uint32_t build_device(struct plan_builder *builder, uint32_t process, int16_t ordinal);

/* stream.c: works, edges, streams. */

/* A work with the times of its op, in no stream's order yet; PLAN_NONE: no memory. */
uint32_t build_work(struct plan_builder *builder, uint32_t op, uint32_t call, uint32_t flags);
/* Of the most recent work or call; none to PLAN_NONE. */
void build_work_edge(struct plan_builder *builder, uint32_t work, uint32_t to, uint32_t kind);
void build_call_edge(struct plan_builder *builder, uint32_t call, uint32_t to, uint32_t kind);
/* Edges between the default stream and others, for a work that comes next on its stream. */
void build_default_edges(struct plan_builder *builder, uint32_t work);
/* The work comes next on its stream. */
void build_chain(struct plan_builder *builder, uint32_t work);
/* The call does not return before everything on the stream has ended. */
void build_wait_stream(struct plan_builder *builder, uint32_t call, uint32_t stream);
/* The same of all streams of a device; `device` may be unknown. */
void build_wait_device(struct plan_builder *builder, uint32_t call, int16_t device);
/* The same, if the times suggest it. */
void build_wait_free(struct plan_builder *builder, uint32_t call, int16_t device);
/* Puts the works of streams in the order in which they ran. */
int build_order(struct plan_builder *builder);

/* event.c: events and captures. */
void build_event_record(struct plan_builder *builder, uint32_t call);
void build_event_destroy(struct plan_builder *builder, uint32_t call);
void build_event_wait(struct plan_builder *builder, uint32_t call);
void build_event_sync(struct plan_builder *builder, uint32_t call);
void build_capture_begin(struct plan_builder *builder, uint32_t call);
void build_capture_end(struct plan_builder *builder, uint32_t call);
/* Whether a stream is captured is known from its calls being recorded into a graph. */
void build_captured(struct plan_builder *builder, const struct op *op, bool captured);

/* graph.c: the works of a call that submits several, ops [first, end) of it. */
void build_graph(struct plan_builder *builder, uint32_t call, uint32_t first, uint32_t end);

/* call.c: calls and what they submit. */
int build_calls(struct plan_builder *builder);

/* time.c: times of what has none, delays and bounds. */
int build_times(struct plan_builder *builder);

/* The latest start of work `work` that its predecessor on the stream allows. */
static inline uint64_t plan_stream_ready(const struct plan_work *before, uint64_t early_ns)
{
	uint64_t end_ns = before->end_ns > early_ns ? before->end_ns - early_ns : 0;

	return end_ns > before->start_ns ? end_ns : before->start_ns;
}

#endif
