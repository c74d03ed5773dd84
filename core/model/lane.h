/* lane.h: a stream in terms of its exact states, and the starts and ends that change them. */
#ifndef TS_CORE_LANE_H
#define TS_CORE_LANE_H

#include "core/base/list.h"
#include "core/model/state.h"

struct core;

/* Work of a stream has increasing numbers: when its call started. */
struct lane {
	struct list link;    /* in the sweep's */
	struct list marks;   /* struct mark that it must pass, in order */
	struct list waiters; /* struct mark of other lanes that wait for it, by number */
	struct device *device;
	struct state state;
	uint64_t submitted, finished;	 /* up to this number */
	uint64_t before;		 /* `submitted` before the latest */
	uint32_t runs[SWEEP_WORK_KINDS]; /* how many */
	uint32_t ahead;			 /* how many of those with a record have not started */
	bool shared;			 /* used by several threads: then each is followed */
	uint32_t refs;
	bool ended;
};

/* From here on a lane waits for another one. */
struct mark {
	struct list in_lane, waiter;
	struct lane *lane, *source;
	uint64_t position; /* the lane's work up to this number is before it */
	uint64_t seq;	   /* it waits for the source's work up to this one */
};

/* In this order at equal times: so nothing ends before it started. */
enum edge_kind {
	EDGE_SUBMIT,
	EDGE_NEVER,
	EDGE_AHEAD,
	EDGE_WAIT,
	EDGE_SYNC_BEGIN,
	EDGE_KERNEL_BEGIN,
	EDGE_COPY_BEGIN,
	EDGE_AHEAD_END,
	EDGE_KERNEL_END,
	EDGE_COPY_END,
	EDGE_FINISH,
	EDGE_SYNC_END,
	EDGE_STREAM_END,
};

struct edge {
	uint64_t time_ns;
	void *what; /* a struct lane with a reference, mark or device, as the kind says */
	uint64_t seq : 60, kind : 4;
};

/* With one reference. NULL: no memory. */
struct lane *lane_new(struct device *device, const struct state *state, uint64_t finished);
struct lane *lane_ref(struct lane *lane);
struct lane *lane_unref(struct lane *lane); /* takes NULL, gives it */
/* It turns out to be on another device. */
void lane_move(struct core *core, struct lane *lane, struct device *device, uint64_t time_ns);
/* Its numbers have changed: brings the state up to date. */
void lane_settle(struct core *core, struct lane *lane, uint64_t time_ns);

/* With references to both. NULL: no memory. */
struct mark *mark_new(struct lane *lane, struct lane *source, uint64_t position, uint64_t seq);
void mark_free(struct mark *mark);

/* Applies it; references are released. */
void edge_pass(struct core *core, const struct edge *edge);
void edge_drop(const struct edge *edge);

#endif
