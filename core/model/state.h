/* state.h: which state a stream or a device is in, and since when. */
#ifndef TS_CORE_STATE_H
#define TS_CORE_STATE_H

#include "core/base/list.h"
#include "core/model/op.h"

struct core;
struct process;

#define STATE_NONE 0 /* before the first work and after the end: no interval */

struct state {
	struct list link; /* in core's states while there is an interval */
	uint32_t process; /* id */
	uint32_t stream;  /* id, 0: of a device */
	int16_t device;
	uint8_t now; /* enum op_state or STATE_NONE */
	uint64_t since_ns;
	uint64_t piece_ns; /* how long an open interval grows before a piece of it is reported */
	const uint64_t *settled_ns; /* of an exact one: everything before is known; else NULL */
};

struct busy;

/* What a device is doing at one time, as far as it matters for its state. */
enum sweep_work { SWEEP_KERNEL, SWEEP_COPY, SWEEP_WORK_KINDS }; /* COPY: also of sets */

/* A device as one process uses it: the union over its streams there. */
struct device {
	struct list link; /* in the process */
	struct state state;
	uint32_t pending, waiting; /* streams in these states */
	/* Of the exact tier, see lane.c: */
	uint32_t runs[SWEEP_WORK_KINDS]; /* how many */
	uint32_t syncs;			 /* threads that wait in a synchronization */
	struct busy *busy;
};

void state_init(struct state *state, uint32_t process, uint32_t stream, int16_t device);
/* Ends the interval, reports it and starts the next. Time never goes back. */
void state_set(struct core *core, struct state *state, uint8_t now, uint64_t time_ns);
/* Reports pieces of long open intervals. */
void state_checkpoint(struct core *core, uint64_t now_ns);
void state_flush(struct core *core, uint64_t now_ns);

/* NULL: no memory. */
struct device *device_get(struct process *process, int16_t ordinal);
/* A stream of a device, which may be NULL, changed its state. */
void device_count(struct core *core, struct device *device, uint8_t from, uint8_t to,
		  uint64_t time_ns);

#endif
