/* timeline.h: the ops that wait for a synchronization to bound their GPU time. */
#ifndef TS_CORE_TIMELINE_H
#define TS_CORE_TIMELINE_H

#include <stdint.h>

#include "core/base/list.h"
#include "core/op.h"

struct call;
struct context;
struct core;
struct stream;

/* Work on a stream, or a mark: from here on the stream waits for another one. */
struct pending {
	struct list link;      /* in core's pendings, oldest first */
	struct list in_stream; /* by start */
	struct list waiter;    /* a mark: in the stream that is waited for */
	struct stream *stream;
	struct stream *source; /* a mark: the stream that is waited for; of work NULL */
	uint64_t start_ns;
	union {
		struct op op;
		uint64_t upto_ns; /* a mark: what began on the source up to then */
	};
};

void timeline_submit(struct call *call);
void timeline_submit_wait(struct call *call);
void timeline_sync_stream(struct call *call);
void timeline_sync_context(struct call *call);
void timeline_sync_event(struct call *call);
void timeline_stream_wait(struct call *call);

/* A call that began at `upto_ns` has waited until `bound_ns` for all work of a context. */
void timeline_cover_context(struct core *core, struct context *context, uint64_t upto_ns,
			    uint64_t bound_ns);
/* What is pending leaves without a bound. May free a destroyed stream. */
void timeline_drop_stream(struct core *core, struct stream *stream, uint64_t time_ns);
void timeline_tick(struct core *core, uint64_t now_ns);
void timeline_flush(struct core *core, uint64_t now_ns);

#endif
