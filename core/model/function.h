/* function.h: what a driver function does, described to the model by the library table.
 *
 * The model knows no function by name. A row says which kind of call it is, what it does to the
 * model (its effect) and, if the effect needs it, which kind of memory or direction.
 */
#ifndef TS_CORE_FUNCTION_H
#define TS_CORE_FUNCTION_H

#include <stdbool.h>
#include <stdint.h>

/* number, identifier, name. Numbers are stored: never reuse one. */
#define OP_KINDS(X)                                                                                \
	X(1, LAUNCH, "launch")                                                                     \
	X(2, ALLOC, "alloc")                                                                       \
	X(3, FREE, "free")                                                                         \
	X(4, COPY, "copy")                                                                         \
	X(5, SET, "set")                                                                           \
	X(6, SYNC, "sync")                                                                         \
	X(7, EVENT, "event")                                                                       \
	X(8, STREAM, "stream")                                                                     \
	X(9, GRAPH, "graph")                                                                       \
	X(10, CONTEXT, "context")                                                                  \
	X(11, MODULE, "module")                                                                    \
	X(12, INIT, "init")                                                                        \
	X(13, STATE, "state")	    /* a period in which a stream or device was in one state */    \
	X(14, MEMORY, "memory")	    /* mapping, pools, prefetch: holds no bytes on its own */      \
	X(15, KERNEL, "kernel")	    /* a kernel run by a graph launch, or without a known call */  \
	X(16, RANGE, "range")	    /* of a thread, or a mark */                                   \
	X(17, OVERHEAD, "overhead") /* time that CUPTI itself took */

enum op_kind {
#define X(number, name, text) OP_##name = number,
	OP_KINDS(X)
#undef X
		OP_KIND_MAX = 17,
};

/* What a call does to the model. Fields are those of struct ts_api. A place is `device` if `value`
 * is 0 (the call has no other kind of place) or 1 (it says that it means a device), otherwise host
 * memory. */
enum effect {
	EFFECT_NONE,
	EFFECT_SUBMIT,	     /* submits work to `stream` */
	EFFECT_SUBMIT_WAIT,  /* submits work to `stream`, finished at the return */
	EFFECT_ALLOC,	     /* allocates `bytes` at `address`, of memory kind `detail` */
	EFFECT_FREE,	     /* frees what is at `address`, in the space of memory kind `detail` */
	EFFECT_SYNC_STREAM,  /* everything on `stream` is finished at the return */
	EFFECT_SYNC_CONTEXT, /* everything in the context is */
	EFFECT_SYNC_EVENT,   /* everything before the last record of event `handle` is */
	EFFECT_EVENT_RECORD, /* event `handle` marks the end of `stream` now; bit 0 of `flags`: in a
				capture, when the graph runs; the same for a wait */
	EFFECT_EVENT_DESTROY, /* event `handle` is gone */
	EFFECT_STREAM_WAIT,   /* later work on `stream` waits for event `handle` */
	EFFECT_STREAM_CREATE, /* `stream` is new; bit 0 of `flags`: non-blocking */
	EFFECT_STREAM_DESTROY,
	EFFECT_CAPTURE_BEGIN, /* later work on `stream` is recorded, not run */
	EFFECT_CAPTURE_END,
	EFFECT_CONTEXT_CREATE, /* `context` is new on `device` and the thread's current one */
	EFFECT_CONTEXT_RETAIN, /* `context` is the primary one of `device` */
	EFFECT_CONTEXT_SET,    /* `context` is the thread's current one */
	EFFECT_CONTEXT_PUSH,
	EFFECT_CONTEXT_POP,
	EFFECT_CONTEXT_DESTROY, /* and everything allocated in it */
	EFFECT_PRIMARY_RESET,	/* the same, of the primary context of `device` */
	/* Files contain these numbers: append new ones. */
	EFFECT_INIT, /* the driver is initialized: the process has used nothing of it before */
	EFFECT_PRIMARY_RELEASE, /* one retain less of the primary context of `device` */
	EFFECT_CONTEXT_KNOWN,	/* `context` exists, on a device that the call does not name */
	EFFECT_ALLOC_ON,	/* as ALLOC, in the place that the call names (see below) */
	EFFECT_IMPORT,		/* as ALLOC, of memory that another process made */
	EFFECT_MAP,		/* `bytes` at `address` map the physical memory `handle` */
	EFFECT_UNMAP,		/* the mappings in `bytes` at `address` end */
	EFFECT_HANDLE_RETAIN,	/* one more `handle` of what is mapped at `address` */
	EFFECT_POOL_KNOWN,	/* the memory pool `handle` is in the place that the call names */
	EFFECT_POOL_DESTROY,	/* the memory pool `handle` is gone; allocations from it stay */
	EFFECT_EVENT_CREATE,	/* event `handle` is new, of the thread's current context */
	/* A framework's allocator gives out `bytes` at `address`, or takes them back if negative;
	 * it then has given out `source` bytes in all and holds `handle`, on the device in the
	 * second byte of `device`; `flags` tells copies of its library apart. */
	EFFECT_TENSOR,
	/* It has none to give out: it was asked for `bytes`, and has given out and holds the same.
	 * `detail`: the device's type, in the first byte of `device`. */
	EFFECT_OOM,
	EFFECT_ROOM,	    /* `address` of `handle` bytes of the context's device are free */
	EFFECT_DEVICE_SIZE, /* `device` has `address` bytes of memory */
	/* Not a call, and no op is made of it: for the block at `address`, on `device`, which a
	 * framework's allocator has just given out, the program asked for `bytes`. */
	EFFECT_REQUESTED,
	/* Of NCCL, and no ops either (core/model/collective.h). `handle` is a communicator: */
	EFFECT_COMM_INIT,  /* made of the unique id whose hash is `source`, with `rank` of `size` */
	EFFECT_COMM_SPLIT, /* made of a part of the one at `source`: those of the same `color` */
	EFFECT_COMM_END,
	EFFECT_COMM_SIZE, /* has `bytes` ranks */
	EFFECT_COMM_RANK, /* `bytes` is its rank here */
	EFFECT_GROUP_START,
	EFFECT_GROUP_END,
	EFFECT_COLLECTIVE, /* `detail` (enum collective) of `bytes` elements */
};

/* number, identifier, name, whether the count is of one rank's part. Numbers are stored. */
#define COLLECTIVES(X)                                                                             \
	X(1, ALL_REDUCE, "all-reduce", 0)                                                          \
	X(2, REDUCE, "reduce", 0)                                                                  \
	X(3, BROADCAST, "broadcast", 0)                                                            \
	X(4, REDUCE_SCATTER, "reduce-scatter", 1)                                                  \
	X(5, ALL_GATHER, "all-gather", 1)                                                          \
	X(6, SEND, "send", 0)                                                                      \
	X(7, RECV, "recv", 0)                                                                      \
	X(8, ALL_TO_ALL, "all-to-all", 1)                                                          \
	X(9, GATHER, "gather", 1)                                                                  \
	X(10, SCATTER, "scatter", 1)

enum collective {
#define X(number, identifier, name, part) COLLECTIVE_##identifier = number,
	COLLECTIVES(X)
#undef X
		COLLECTIVE_MAX = 10,
};

/* ncclDataType_t and ncclRedOp_t of nccl.h: number, name, and bytes of an element. They are stored
 * plus 1: 0 is unknown, or several. */
#define NCCL_TYPES(X)                                                                              \
	X(0, "int8", 1)                                                                            \
	X(1, "uint8", 1)                                                                           \
	X(2, "int32", 4)                                                                           \
	X(3, "uint32", 4)                                                                          \
	X(4, "int64", 8)                                                                           \
	X(5, "uint64", 8)                                                                          \
	X(6, "float16", 2)                                                                         \
	X(7, "float32", 4)                                                                         \
	X(8, "float64", 8)                                                                         \
	X(9, "bfloat16", 2)                                                                        \
	X(10, "float8e4m3", 1)                                                                     \
	X(11, "float8e5m2", 1)
#define NCCL_TYPE_COUNT 12

/* From 5 on, a program has made them. */
#define NCCL_REDUCTIONS(X)                                                                         \
	X(0, "sum")                                                                                \
	X(1, "prod")                                                                               \
	X(2, "max")                                                                                \
	X(3, "min")                                                                                \
	X(4, "avg")                                                                                \
	X(5, "custom")
#define NCCL_REDUCTION_CUSTOM 5

/* number, identifier, name. Numbers are stored. An address has one meaning per space: device,
 * managed, pool and host memory share the unified address space (0), physical handles and address
 * reservations have their own. `counts`: the bytes count as held (1), or lie inside such memory
 * (2). */
#define MEMORY_KINDS(X)                                                                            \
	X(1, DEVICE, "device", 0, 1)                                                               \
	X(2, MANAGED, "managed", 0, 1)                                                             \
	X(3, POOL, "pool", 0, 1)	     /* stream-ordered */                                  \
	X(4, HOST, "host", 0, 1)	     /* page-locked, allocated by the driver */            \
	X(5, REGISTERED, "registered", 1, 1) /* page-locked memory that the program allocated */   \
	X(6, PHYSICAL, "physical", 2, 1)     /* cuMemCreate */                                     \
	X(7, RESERVED, "reserved", 3, 0)     /* address space without memory */                    \
	/* Held by the process that created it: IPC, pools and graphics memory by address, else by \
	 * \ handle. */                                                                            \
	X(8, IMPORTED, "imported", 0, 0)                                                           \
	X(9, IMPORTED_PHYSICAL, "imported-physical", 2, 0)                                         \
	X(10, MAPPED, "mapped", 4, 0) /* address space mapped to physical memory */                \
	X(11, TENSOR, "tensor", 5, 2) /* a block of a framework's allocator */

enum memory_kind {
#define X(number, name, text, space, counts) MEMORY_##name = number,
	MEMORY_KINDS(X)
#undef X
		MEMORY_KIND_MAX = 11,
};

/* number, identifier, name. Numbers are stored. */
#define COPY_KINDS(X)                                                                              \
	X(1, HTOD, "HtoD")                                                                         \
	X(2, DTOH, "DtoH")                                                                         \
	X(3, DTOD, "DtoD")                                                                         \
	X(4, PTOP, "PtoP")                                                                         \
	X(5, UNKNOWN, "unknown") /* unified addresses, arrays: the call does not say */            \
	X(6, HTOH, "HtoH")

enum copy_kind {
#define X(number, name, text) COPY_##name = number,
	COPY_KINDS(X)
#undef X
		COPY_KIND_MAX = 6,
};

struct function {
	const char *name; /* symbol in the driver library */
	uint8_t kind;	  /* enum op_kind */
	uint8_t effect;	  /* enum effect */
	uint8_t detail;	  /* enum memory_kind, enum copy_kind, the bytes of a set's element, of a
			     range enum ts_range_part, or a type of device */
	bool graph;	  /* for OP_LAUNCH: a graph, so many works at once */
	bool hot;	  /* called all the time, and watched in windows if that is too expensive */
	bool returns;	  /* a call is reported when it returns, if the settings let it be */
	uint8_t sizes;	  /* which of bytes, height and depth the call gives */
	uint16_t activity[2]; /* CUPTI's numbers of it and of its per-thread form, 0: none */
};

/* Indexed by the event's fn. Rows without a name are unused numbers. */
struct function_table {
	const struct function *row;
	uint32_t count;
};

#endif
