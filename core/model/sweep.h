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
	uint64_t settled_ns; /* what was before is told */
	struct edges edges;
	struct list lanes;
};

/* Takes over from the states of bounds, and gives back to them. */
void sweep_begin(struct core *core, struct exact *exact, uint64_t time_ns);
/* Exact states end at `until_ns`, those of bounds go on at `time_ns`. */
void sweep_end(struct core *core, struct exact *exact, uint64_t until_ns, uint64_t time_ns);
/* Releases the memory, telling nobody. */
void sweep_discard(struct exact *exact);
/* Tells what is long enough ago that nothing of that time comes any more. */
void sweep_run(struct core *core, struct exact *exact, uint64_t now_ns);

/* The lane of a stream, made on first sight. NULL: the sweep is off, or no memory. */
struct lane *sweep_lane(struct core *core, struct exact *exact, struct stream *stream);
/* That of a stream that may be no more, while some of its begins and ends wait. NULL: none. */
struct lane *sweep_find_lane(const struct exact *exact, uint32_t stream);

/* Work with this number was put on the stream. */
void sweep_submit(struct core *core, struct exact *exact, struct stream *stream, uint64_t seq,
		  uint64_t time_ns);
/* What comes on the stream waits for the work on another one up to this number. */
void sweep_wait(struct core *core, struct exact *exact, struct stream *stream,
		struct stream *source, uint64_t seq, uint64_t time_ns);
/* The device ran something. `began` is its number, or that of what it is a part of; `finished` is
 * its number if that is over with it. 0: none. */
void sweep_ran(struct core *core, struct exact *exact, struct lane *lane, enum sweep_work work,
	       const struct op *op, uint64_t began, uint64_t finished);
/* What ran then, of no number as far as was known, is the work of this number. */
void sweep_joined(struct core *core, struct exact *exact, struct lane *lane, const struct op *op,
		  uint64_t seq);
/* The device had nothing to do for this number: the call failed, or moved nothing. */
void sweep_never(struct core *core, struct exact *exact, struct lane *lane, uint64_t seq);
/* Work is over, of which no times are known. */
void sweep_finish(struct core *core, struct exact *exact, struct lane *lane, uint64_t seq,
		  uint64_t time_ns);
/* A thread waited for a device. */
void sweep_sync(struct core *core, struct exact *exact, int16_t device, uint64_t start_ns,
		uint64_t end_ns);
/* The stream is no more. */
void sweep_stream_end(struct core *core, struct exact *exact, struct stream *stream,
		      uint64_t time_ns);

#endif
