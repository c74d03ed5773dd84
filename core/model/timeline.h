/* timeline.h: the ops that wait for a synchronization to bound their GPU time. */
#ifndef TS_CORE_TIMELINE_H
#define TS_CORE_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/model/op.h"

struct call;
struct caller;
struct context;
struct core;
struct launched;
struct process;
struct stream;
struct ticket;

/* What must come before the op of a call can leave with exact times. */
enum await {
	AWAIT_CALL = 1 << 0,  /* the record of the call */
	AWAIT_WORK = 1 << 1,  /* the record of what it submitted */
	AWAIT_NODES = 1 << 2, /* those of its parts, if any */
};

/* Work on a stream, or a mark: from here on the stream waits for another one. */
struct pending {
	struct list link;      /* in one of its process's lists, see timeline.c */
	struct list in_stream; /* by start, until it is covered */
	struct list waiter;    /* a mark: in the stream that is waited for */
	struct stream *stream; /* NULL: covered */
	struct stream *source; /* a mark: the stream that is waited for; of work NULL */
	uint64_t start_ns;
	struct process *process;
	/* Of work: */
	uint64_t seq;		   /* its number in its stream: its start */
	uint64_t covered_ns;	   /* when a synchronization that covers it returned, 0: not yet */
	uint64_t over_ns;	   /* when later work of its stream started, 0: not yet */
	uint64_t since_ns;	   /* when it was covered or answered, by our time */
	uint64_t part_ns;	   /* when the latest of its parts came, by our time, 0: none has */
	struct list awaiting;	   /* in exact's, while anything is awaited */
	struct caller *caller;	   /* remembers the call, until it is matched */
	struct ticket *ticket;	   /* NULL: not matched */
	struct launched *launched; /* what NCCL was called for, NULL: it was not */
	uint32_t ns_tid;
	uint8_t await;	/* enum await */
	bool uncounted; /* not in the rollups yet */
	bool failed;	/* as reported by the record of the call */
	union {
		struct op op;
		uint64_t upto_ns; /* a mark: what started on the source up to then */
	};
};

/* What is pending of one process. */
struct timeline {
	struct list link;					  /* in core's, while anything is */
	struct list pendings, awaited, covered, graphs, answered; /* struct pending */
	uint32_t held;						  /* in all of them */
};

void timeline_init(struct timeline *timeline);

void timeline_submit(struct call *call);
void timeline_submit_wait(struct call *call);
void timeline_sync_stream(struct call *call);
void timeline_sync_context(struct call *call);
void timeline_sync_event(struct call *call);
void timeline_stream_wait(struct call *call);

/* A call that started at `upto_ns` has waited until `bound_ns` for all work of a context. */
void timeline_cover_context(struct core *core, struct context *context, uint64_t upto_ns,
			    uint64_t bound_ns);
/* What is pending leaves without a bound. May free a destroyed stream. */
void timeline_drop_stream(struct core *core, struct stream *stream, uint64_t time_ns);
/* Something awaited has come. May let the op leave, and free a destroyed stream. */
void timeline_answered(struct core *core, struct pending *pending);
/* The device started it, so everything before it on its stream is over. */
void timeline_began(struct core *core, struct pending *pending, uint64_t time_ns);
/* Nothing is awaited any more: it continues as in the probe tier. */
void timeline_give_up(struct core *core, struct pending *pending);
/* It has all its records, or may wait no longer: it leaves with what is known of it by now. May
 * free a destroyed stream. */
void timeline_expire(struct core *core, struct pending *pending, uint64_t time_ns);
/* Submitted work is awaited from now on. */
void timeline_await(struct core *core, struct pending *pending);
void timeline_tick(struct core *core, uint64_t now_ns);
void timeline_flush(struct core *core, uint64_t now_ns);

/* When the oldest op that waits for its bound started; 0: there is none. Ops awaited from the exact
 * tier do not count. */
uint64_t timeline_oldest_ns(const struct core *core);

#endif
