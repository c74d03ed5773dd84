/* gpu_event.h: the driver's events, insofar as they mark a point on a stream. */
#ifndef TS_CORE_GPU_EVENT_H
#define TS_CORE_GPU_EVENT_H

#include <stdint.h>

#include "core/base/list.h"

struct call;
struct core;
struct process;

/* In the flags of a record or a wait: in a capture, of an event outside it. */
#define GPU_EVENT_EXTERNAL 1

struct gpu_event {
	struct list in_process;
	uint64_t handle;
	uint64_t record_ns; /* when its last record started: calls that started before are before it
			     */
	uint64_t seq;	    /* of the stream's latest work then */
	uint64_t capture;   /* the record was captured, in the capture with this number */
	uint32_t process;   /* id */
	uint32_t user;
	uint64_t context; /* handle of the context it was created in, 0: unknown */
	uint32_t stream;  /* id of the stream it was recorded on, 0: of none yet */
};

struct gpu_event *gpu_event_find(const struct call *call);
void gpu_event_forget_all(struct core *core, struct process *process);

void gpu_event_create(struct call *call);
void gpu_event_record(struct call *call);
void gpu_event_destroy(struct call *call);

#endif
