/* op.h: one GPU or API operation, as the model finishes it and the store keeps it.
 *
 * Times are CLOCK_MONOTONIC nanoseconds. A field that does not apply is 0. GPU times of the probe
 * tier are bounds: the op ran somewhere in [gpu_start_ns, gpu_end_ns]; OP_BOUNDS says so.
 * gpu_end_ns is 0 if no synchronization that covers the op was seen in time. Those of the exact
 * tier are the device's own; OP_EXACT says so.
 *
 * A call that submits one kernel, copy or set is one op with it: of kind launch, copy or set. If a
 * call submits more (a graph), the call is an op, without exact times of its own unless the graph
 * was recorded as a whole, and each kernel, copy and set in it is one, with OP_NODE and the fn,
 * tid, start_ns, stack and correlation of the call. Work without a known call is an op with
 * OP_NO_CALL, without fn, tid and stack; its start_ns is its gpu_start_ns or, if that is unknown
 * (OP_UNTIMED), when the record came.
 *
 * For kind range `name` is the id of its text and `handle` that of its domain's (0: none); without
 * OP_RETURNED its end was missed. For overhead `handle` is CUPTI's number of the kind. A sync with
 * OP_EXACT is CUPTI's view of one: `detail` is its type, `handle` the event.
 */
#ifndef TS_CORE_OP_H
#define TS_CORE_OP_H

#include <stdint.h>

#include "core/model/function.h"

/* Numbers are stored. */
enum op_flag {
	OP_RETURNED = 1 << 0,	/* api_end_ns and result are known */
	OP_BOUNDS = 1 << 1,	/* GPU times are bounds */
	OP_EXACT = 1 << 2,	/* GPU times are the device's own */
	OP_CAPTURED = 1 << 3,	/* recorded into a graph, did not run */
	OP_PER_THREAD = 1 << 4, /* stream 0 means the thread's own default stream */
	OP_UNREAD = 1 << 5,	/* an argument was unreadable */
	OP_STACK_LOST = 1 << 6, /* a stack was wanted and is missing */
	OP_UNKNOWN = 1 << 7,	/* a free of an unknown address */
	OP_NODE = 1 << 8,	/* one of several that a call submitted */
	OP_NO_CALL = 1 << 9,	/* its call is unknown */
	OP_UNTIMED = 1 << 10,	/* the device's record of it has no usable times */
	OP_PAGEABLE = 1 << 11,	/* a copy from or to pageable host memory, as its record says */
};

/* number, identifier, name, place in `tsctl query idle`, what it means of a device. Numbers are
 * stored. COPYING and SYNCING are of devices in the exact tier, where no kernel runs. The probe
 * tier cannot tell PENDING from RUNNING. */
#define OP_STATES(X)                                                                               \
	X(1, IDLE, "idle", 6, "nothing was submitted")                                             \
	X(2, PENDING, "pending", 3, "work was submitted and had not started")                      \
	X(3, RUNNING, "running", 1, "a kernel ran")                                                \
	X(4, WAITING, "waiting", 4, "work waited for an event or another stream")                  \
	X(5, COPYING, "copying", 2, "no kernel ran, a copy or set did")                            \
	X(6, SYNCING, "syncing", 5, "nothing was submitted, a thread waited for the device")

enum op_state {
#define X(number, identifier, ...) OP_STATE_##identifier = number,
	OP_STATES(X)
#undef X
		OP_STATE_MAX = OP_STATE_SYNCING,
};

/* NULL: unknown. */
const char *op_state_name(uint8_t state);

#define DEVICE_UNKNOWN (-1)

struct op {
	uint64_t start_ns; /* API call, or the interval of a state */
	uint64_t end_ns;   /* 0: the return is not probed */
	uint64_t gpu_start_ns;
	uint64_t gpu_end_ns;
	uint64_t seen_ns; /* a synchronization that covers it returned, 0: not seen in time */
	uint32_t process; /* id of the process row, never a pid */
	uint32_t stream;  /* id of the stream row, 0 for none */
	uint32_t tid;
	uint16_t fn;
	uint16_t flags; /* enum op_flag */
	uint8_t kind;	/* enum op_kind */
	uint8_t detail; /* memory_kind, copy_kind; of a state: enum op_state */
	int16_t device; /* ordinal in the process, DEVICE_UNKNOWN */
	int32_t result; /* CUresult */
	uint64_t address;
	uint64_t source;
	uint64_t bytes; /* for a free, like its detail and device: of what was freed */
	uint64_t handle;
	uint64_t stack_id;
	uint64_t live_bytes;  /* of alloc and free: live on this device afterwards */
	uint64_t correlation; /* the tier's number of the call that submitted it */
	uint64_t name;	      /* id of a name: kernel, range */
	uint64_t node;	      /* of a graph, as numbered by the tier */
	uint32_t graph;	      /* likewise */
	uint32_t grid[3];
	uint32_t block[3];
	uint32_t shared_bytes; /* dynamic */
	uint32_t static_bytes; /* static shared memory */
	uint32_t local_bytes;  /* a thread */
	uint32_t registers;    /* a thread */
	uint32_t reserved;
};

#endif
