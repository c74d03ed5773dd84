/* sweep.h: the exact states of the streams and devices of one process. */
#ifndef TS_CORE_SWEEP_H
#define TS_CORE_SWEEP_H

#include "core/model/edges.h"

struct core;
struct exact;
struct stream;

struct sweep {
	bool on;
	uint64_t begun_ns;
	uint64_t settled_ns; /* everything before is reported */
	struct edges edges;
	struct list lanes;
};

/* Takes over from the states based on bounds, and back. */
void sweep_begin(struct core *core, struct exact *exact, uint64_t time_ns);
/* Exact states end at `until_ns`, those based on bounds continue at `time_ns`. */
void sweep_end(struct core *core, struct exact *exact, uint64_t until_ns, uint64_t time_ns);
/* Frees the memory, without reporting. */
void sweep_discard(struct exact *exact);
/* Reports what is old enough that nothing of that time can come any more. */
void sweep_run(struct core *core, struct exact *exact, uint64_t now_ns);

/* The lane of a stream, created on first use. NULL: the sweep is off, or no memory. */
struct lane *sweep_lane(struct core *core, struct exact *exact, struct stream *stream);
/* The lane of a stream that may be gone, while some of its starts and ends wait. NULL: none. */
struct lane *sweep_find_lane(const struct exact *exact, uint32_t stream);

/* Work with this number was submitted to the stream. */
void sweep_submit(struct core *core, struct exact *exact, struct stream *stream, uint64_t seq,
		  uint64_t time_ns);
/* Later work on the stream waits for the work on another one up to this number. */
void sweep_wait(struct core *core, struct exact *exact, struct stream *stream,
		struct stream *source, uint64_t seq, uint64_t time_ns);
/* The device ran something. `began` is its number, or that of what it is a part of; `finished` is
 * its number if it is over now. 0: none. */
void sweep_ran(struct core *core, struct exact *exact, struct lane *lane, enum sweep_work work,
	       const struct op *op, uint64_t began, uint64_t finished);
/* What ran then, so far without a number, is the work of this number. */
void sweep_joined(struct core *core, struct exact *exact, struct lane *lane, const struct op *op,
		  uint64_t seq);
/* The device had nothing to do for this number: the call failed, or was empty. */
void sweep_never(struct core *core, struct exact *exact, struct lane *lane, uint64_t seq);
/* Work is over, with unknown times. */
void sweep_finish(struct core *core, struct exact *exact, struct lane *lane, uint64_t seq,
		  uint64_t time_ns);
/* A thread waited for a device. */
void sweep_sync(struct core *core, struct exact *exact, int16_t device, uint64_t start_ns,
		uint64_t end_ns);
/* The stream is no more. */
void sweep_stream_end(struct core *core, struct exact *exact, struct stream *stream,
		      uint64_t time_ns);

#endif
