/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* event.h: the record that BPF programs and injected libraries hand to the daemon.
 *
 * An event is 128 bytes, the same in BPF, in a ring and in the daemon. Kinds are numbered by hand
 * and never reused. Data without a fixed size (a stack, a name) has a record of its own that starts
 * with the same 16 bytes, so that a reader can tell records apart by their first field.
 *
 * Times are CLOCK_MONOTONIC nanoseconds, sizes are bytes. BPF sends pids of the host; a library
 * only knows those of its own namespace, so the daemon sets the pid of its records, and matches
 * threads by `ns_tid`, which both know. The daemon copies a record, checks it, and only then
 * believes it.
 */
#ifndef TS_EVENT_H
#define TS_EVENT_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define TS_EVENT_SIZE	    128
#define TS_COMM_SIZE	    16
#define TS_THREAD_NAME	    "tracesmith" /* name of each thread of the library */
#define TS_STACK_FRAMES_MAX 127
#define TS_STACK_PYTHON_MAX 128
#define TS_NAME_MAX	    4096

/* number, name, description */
#define TS_EVENT_KINDS(X)                                                                          \
	X(1, API)     /* one call of a driver function */                                          \
	X(2, PROCESS) /* a process is seen, before any other event of it */                        \
	X(3, EXEC)    /* a known process now runs another program */                               \
	X(4, EXIT)    /* the last thread of a known process has ended */                           \
	X(5, STACK)   /* a call stack, sent once; struct ts_stack */                               \
	/* From a library in the process, based on CUPTI's records: */                             \
	X(6, KERNEL)	/* a kernel ran */                                                         \
	X(7, COPY)	/* a copy ran */                                                           \
	X(8, SET)	/* a memory set ran */                                                     \
	X(9, GRAPH)	/* a graph ran, as a whole: replaces the records of its nodes */           \
	X(10, CALL)	/* the driver call that a correlation id stands for */                     \
	X(11, SYNC)	/* a synchronization, as CUPTI reports it */                               \
	X(12, MEMORY)	/* memory was allocated or freed, with its pool */                         \
	X(13, CONTEXT)	/* CUPTI's number of a context */                                          \
	X(14, DEVICE)	/* a device, as the process numbers it */                                  \
	X(15, RANGE)	/* NVTX: a range started or ended, or a mark */                            \
	X(16, OVERHEAD) /* a period in which CUPTI itself took time */                             \
	X(17, LOST)	/* a number of the library's records are missing */                        \
	X(18, COLLECT)	/* recording started, paused, resumed, changed or ended */                 \
	X(19, COST)	/* what recording cost the process recently */                             \
	X(20, NAME)	/* a text, sent once; struct ts_name */                                    \
	X(21, BACKWARD) /* stack_id stands for two stacks from now on */

enum ts_event_kind {
#define X(number, name) TS_EVENT_##name = number,
	TS_EVENT_KINDS(X)
#undef X
};

enum ts_event_flag {
	TS_EVENT_RETURNED = 1 << 0,   /* end_ns and result are from the return */
	TS_EVENT_PER_THREAD = 1 << 1, /* a _ptsz/_ptds entry: stream 0 is the thread's own */
	TS_EVENT_UNREAD = 1 << 2,     /* an argument in memory was unreadable and is 0 */
	TS_EVENT_STACK_LOST = 1 << 3, /* a stack was wanted but could not be taken */
	TS_EVENT_UNFINISHED = 1 << 4, /* its thread ended inside the call: its effect is unknown */
	TS_EVENT_OWN = 1 << 5,	      /* of a thread of the library, not of the program */
	TS_EVENT_INSIDE = 1 << 6,     /* a call that the library sent through its stub (light.h) */
};

/* What a call is to PyTorch's autograd, where the library knows. */
enum ts_stub_role {
	TS_STUB_UNKNOWN,  /* all calls of the thread come to the stub, so that its probe can tell */
	TS_STUB_NONE,	  /* nothing */
	TS_STUB_FORWARD,  /* r14 to r12: the thread's number, the next node's, and that before */
	TS_STUB_BACKWARD, /* r14, r13: stack of the forward pass, and whether it passed it by */
	TS_STUB_LOOK_BACK, /* r14, r13: the node's thread and number: a call at the stub made it */
};

/* The registers at the entry of a function, as the library's stub hands them to the probe that it
 * carries: in the order of the kernel's struct pt_regs for x86-64. But no function gets an argument
 * in r15 to r12: at the stub r15 is an enum ts_stub_role, and the others go with it; `walked` is
 * the stack by the library's walk, 0: not known. The rest is 0. */
struct ts_registers {
	__u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di, walked, ip, cs,
		flags, sp, ss;
};

/* Meaning of a call's arguments; a function fills the fields that it has. */
struct ts_api {
	__u64 context; /* CUcontext */
	__u64 stream;  /* CUstream; 0 is the default stream */
	__u64 address; /* allocated, freed, written or mapped memory */
	__u64 source;  /* source of a copy; value of a set */
	__u64 bytes;   /* size; for 2D and 3D the width in bytes */
	__u64 handle;  /* function, graph, event, module, pool or allocation handle */
	union {
		struct {
			__u32 grid[3];
			__u32 block[3];
			__u32 shared_bytes;
			__u32 device; /* ordinal, for calls that name a device */
		};
		struct {
			__u64 height; /* rows of a 2D or 3D copy, otherwise 0 */
			__u64 depth;  /* slices of a 3D copy, otherwise 0 */
			__u64 flags;  /* flags as passed by the caller */
			__u32 value;  /* device follows, as above */
		};
		struct { /* of NCCL; `handle` is a communicator, `bytes` a number of elements */
			__u32 type, reduction; /* ncclDataType_t, ncclRedOp_t */
			__s32 peer;	       /* or root */
			__s32 rank, size;      /* of a new communicator */
			__s32 color, key;      /* by which the one at `source` is split */
		};
		__u32 word[8];
	};
};

struct ts_process {
	__u64 started_ns; /* CLOCK_BOOTTIME at its start: with the pid, its identity */
	__u64 cgroup;	  /* cgroup v2 id */
	__u32 ppid;
	__u32 uid;
	__u32 ns_pid;	 /* its pid in its own PID namespace */
	__s32 exit_code; /* EXIT: as returned by wait(2) */
	char comm[TS_COMM_SIZE];
	__u32 owner; /* of its outermost user namespace; 0: it is in none, or root made that */
	__u32 reserved;
};

/* CUPTI's kind of host memory that is not page-locked. */
#define TS_MEMORY_PAGEABLE 1

/* Work of the device. Times are the device's, both 0 if CUPTI gave none; numbers of device, context
 * and stream are CUPTI's own. */
struct ts_work {
	__u32 correlation; /* the submitting call's, see CALL */
	__u32 device, context, stream;
	__u64 node;  /* of the graph that it belongs to, or 0 */
	__u32 graph; /* CUPTI's number of that graph, or 0 */
	__u32 name;  /* KERNEL: a NAME sent before, or 0 */
	union {
		struct {
			__u32 grid[3];
			__u32 block[3];
			__u32 static_bytes, dynamic_bytes; /* shared memory */
			__u32 local_bytes;		   /* local memory per thread */
			__u32 registers;		   /* a thread */
		};
		struct {
			__u64 bytes;
			__u32 copy_kind; /* COPY: CUPTI's number, 10 for peer copies */
			__u32 from, to;	 /* COPY: CUPTI's kinds of memory; SET: 0 and the kind */
			__u32 peer;	 /* COPY: source device, if another one */
			__u32 value;	 /* SET */
		};
	};
};

/* CALL: fn is CUPTI's number of the function, result its return value, tid the caller. */
struct ts_call {
	__u32 correlation;
	__u32 around; /* 1: times of a runtime function around the driver's; fn is 0 */
};

/* SYNC: times are the host's. */
struct ts_sync {
	__u32 correlation;
	__u32 type; /* CUPTI's number: 1 event, 2 stream waits for event, 3 stream, 4 context */
	__u32 context, stream;
	__u32 event; /* CUPTI's number of it */
	__u32 reserved;
};

struct ts_memory {
	__u64 address;
	__u64 bytes;
	__u32 correlation;
	__u32 device, context, stream;
	__u32 operation;   /* 1 allocated, 2 freed; for a pool 3 created, 4 destroyed, 5 trimmed */
	__u32 memory_kind; /* CUPTI's number */
	__u32 pool_kind;   /* 0 none, 1 of this process, 2 imported */
	__u32 reserved;
	__u64 pool; /* its address, or 0 */
	__u64 pool_bytes, pool_used_bytes, pool_threshold_bytes;
};

struct ts_context {
	__u32 context, device;
	__u32 null_stream; /* number of its default stream */
	__u32 reserved;
};

struct ts_device {
	__u8 uuid[16];
	__u64 memory_bytes;
	__u32 device;
	__u32 name; /* a NAME sent before */
	__u32 multiprocessors;
	__u32 clock_khz;
};

/* RANGE: start_ns is the time. A range is identified by its number, the same in BEGIN and END. */
enum ts_range_part {
	TS_RANGE_BEGIN = 1,
	TS_RANGE_END,
	TS_RANGE_MARK,
	TS_RANGE_CUT, /* its thread has ended inside; of the range library alone */
};
#define TS_RANGE_NAME_SIZE 72 /* bytes of a name of the range library, the rest of it NUL */
struct ts_range {
	__u32 part;
	__u32 number;
	__u32 name, domain; /* NAMEs, or 0; both 0 for an END */
};

struct ts_overhead {
	__u32 kind; /* CUPTI's number */
	__u32 correlation;
};

/* number, name, description */
#define TS_LOST_REASONS(X)                                                                         \
	X(1, RING)    /* the ring was full */                                                      \
	X(2, CUPTI)   /* CUPTI reports that it dropped them */                                     \
	X(3, BUFFERS) /* the library had no buffer for CUPTI: its cap was reached */               \
	X(4, UNKNOWN) /* records of a kind or size that the library cannot read */                 \
	X(5, NAMES)   /* nothing but the names of records: the library had no room for them */

enum ts_lost_reason {
#define X(number, name) TS_LOST_##name = number,
	TS_LOST_REASONS(X)
#undef X
};

struct ts_lost {
	__u32 reason;
	__u32 reserved;
	__u64 count;
};

/* What a library may be asked to record. */
#define TS_RECORDS(X)                                                                              \
	X(0, KERNELS, "kernels") /* kernels, each */                                               \
	X(1, COPIES, "copies")	 /* copies and sets */                                             \
	X(2, CALLS,                                                                                \
	  "calls") /* the driver calls that submit work: needed to match records to calls */       \
	X(3, MEMORY, "memory")	   /* memory operations and pools */                               \
	X(4, SYNCS, "syncs")	   /* synchronizations; the probes see them too */                 \
	X(5, RANGES, "nvtx")	   /* NVTX ranges and marks */                                     \
	X(6, OVERHEAD, "overhead") /* CUPTI's own */                                               \
	X(7, NODES, "nodes")	   /* each kernel of a graph; otherwise whole graphs */

enum ts_records {
#define X(bit, name, text) TS_RECORD_##name = 1 << bit,
	TS_RECORDS(X)
#undef X
#define X(bit, name, text) | TS_RECORD_##name
		TS_RECORDS_ALL = 0 TS_RECORDS(X),
#undef X
	TS_RECORDS_DEFAULT = TS_RECORD_KERNELS | TS_RECORD_COPIES | TS_RECORD_CALLS |
			     TS_RECORD_MEMORY | TS_RECORD_RANGES | TS_RECORD_OVERHEAD |
			     TS_RECORD_NODES,
};

/* number, identifier, name. Numbers are stored.
 * STARTED: from start_ns on, everything in `records` is recorded. PAUSED: another user of CUPTI has
 * it now. CHANGED: `records` has changed, on request or to stay within the budget. STOPPED: no more
 * records will come.
 * CLOSED: to stay within the budget, nothing is recorded until RESUMED.
 * For an end (PAUSED, CLOSED, STOPPED) start_ns is when switching off started and end_ns when it
 * was done: work submitted in between may or may not be recorded. */
#define TS_COLLECT_STATES(X)                                                                       \
	X(1, STARTED, "started")                                                                   \
	X(2, PAUSED, "paused")                                                                     \
	X(3, RESUMED, "resumed")                                                                   \
	X(4, CHANGED, "changed")                                                                   \
	X(5, STOPPED, "stopped")                                                                   \
	X(6, CLOSED, "closed")

enum ts_collect_state {
#define X(number, identifier, name) TS_COLLECT_##identifier = number,
	TS_COLLECT_STATES(X)
#undef X
};

enum ts_collect_windows {
	TS_WINDOWS_NONE, /* CUPTI stays between windows */
	TS_WINDOWS_OUT,	 /* or it can be out, or off; CLOSED: it is out */
	TS_WINDOWS_REST, /* CLOSED: it is switched off, which calls pay for */
};

struct ts_collect {
	__u32 state;
	__u32 records;	     /* enum ts_records, now */
	__u32 left_out;	     /* requested, but not allowed by the budget */
	__u32 cupti_version; /* as CUPTI counts: 130001 is CUPTI of CUDA 13.0.1 */
	__u32 driver_version;
	__u32 budget_ppm;      /* share of its speed; 0: no limit */
	__u32 windows;	       /* enum ts_collect_windows */
	__u32 beside;	       /* 1: another user keeps CUPTI's subscription, so calls cost more */
	__u64 missed_since_ns; /* STARTED: the program did not wait for that, and went on then;
				* otherwise 0 */
	__u32 cycles;	       /* how often CUPTI was taken out of the process so far */
	__u32 reserved;
};

/* COST: for the time from start_ns to end_ns. */
/* What the GPU takes for the record of a part of a graph, which the next part waits for: 0.4 to
 * 0.9 us on an H200. */
#define TS_NODE_NS 500

struct ts_cost {
	__u64 busy_ns; /* of all threads, in our callbacks and, as far as known, in CUPTI's own */
	__u64 own_ns;  /* the part on CUPTI's and our threads, which nobody waits for */
	__u64 records;
	__u32 busiest_ppm;  /* share of its time paid by the thread that paid most */
	__u32 buffers;	    /* held by CUPTI now */
	__u64 buffer_bytes; /* in them */
	__u64 nodes;	    /* of `records`, those of parts of graphs */
};

/* Of a launch in PyTorch's backward pass, and of the one in the forward pass that it belongs to, or
 * of the next one after its node was made. */
struct ts_backward {
	__u64 stack, forward;
	__u64 passed; /* 1: the next one */
};

struct ts_event {
	__u16 kind;  /* enum ts_event_kind */
	__u16 fn;    /* API: row of the function table, or 0; CALL: CUPTI's number */
	__u16 flags; /* enum ts_event_flag */
	__u16 cpu;
	__u32 tgid;
	__u32 tid;
	__u64 start_ns; /* when the call started; for other kinds, when it happened */
	__u64 end_ns;	/* when it returned; 0 if the return is not probed */
	__u64 stack_id; /* 0: no stack */
	__s32 result;	/* CUresult, where TS_EVENT_RETURNED */
	__u32 ns_tid;	/* the thread id in its own PID namespace */
	union {
		struct ts_api api;
		struct ts_process process;
		struct ts_work work;
		struct ts_call call;
		struct ts_sync sync;
		struct ts_memory memory;
		struct ts_context context;
		struct ts_device device;
		struct ts_range range;
		struct ts_overhead overhead;
		struct ts_lost lost;
		struct ts_collect collect;
		struct ts_cost cost;
		struct ts_backward backward;
		__u64 payload[10];
	};
};

/* number, identifier, name, where a stack ends. Numbers are stored. */
#define TS_STACK_ENDS(X)                                                                           \
	X(0, LINKS, "frame-pointers", "where its frame pointers end")                              \
	X(1, COMPLETE, "complete", "at the outermost function")                                    \
	X(2, DEPTH, "depth", "as deep as the setting stack_depth allows")                          \
	X(3, MISSED, "missed", "at a function that was not known in time")                         \
	X(4, NO_MAPPING, "no-mapping", "at code that is in no file")                               \
	X(5, NO_RULE, "no-rule", "at a function without call frame information")                   \
	X(6, BAD, "bad", "at a function that cannot be followed")                                  \
	X(7, UNREADABLE, "unreadable", "where the stack was not readable")

enum ts_stack_end {
#define X(number, identifier, name, text) TS_END_##identifier = number,
	TS_STACK_ENDS(X)
#undef X
		TS_END_COUNT
};

/* Frames are return addresses, innermost first; frame[0] is the probed function itself.
 * The id is a hash over the process and the frames, so equal stacks of one process have one id. */
struct ts_stack {
	__u16 kind; /* TS_EVENT_STACK */
	__u16 frame_count;
	__u8 end;    /* enum ts_stack_end */
	__u8 linked; /* 1: some frames have no rule, and were followed by their frame pointers */
	__u16 python_count;
	__u32 tgid;
	__u32 tid;
	__u64 time_ns;
	__u64 id;
	__u64 frame[]; /* TS_STACK_FRAMES_MAX, if frames of Python follow */
};

/* A frame of the interpreter: of the code objects of a process, `check` tells apart those that have
 * had the same address. Without code it has left its function. */
struct ts_python_frame {
	__u64 code;
	__u64 position; /* in the code: an address or an index, and TS_PYTHON_* */
	__u64 check;
};
#define TS_PYTHON_ENTRY (1ull << 63) /* the interpreter was entered here: its caller is native */
#define TS_PYTHON_CUT	(1ull << 62) /* its callers are not known */
#define TS_PYTHON_FLAGS (TS_PYTHON_ENTRY | TS_PYTHON_CUT)

/* The text of an id chosen by the process, nonzero and never reused. Kernels have their mangled
 * symbol. */
struct ts_name {
	__u16 kind; /* TS_EVENT_NAME */
	__u16 length;
	__u32 id;
	__u32 tgid;
	__u32 tid;
	char text[]; /* without a NUL */
};

_Static_assert(sizeof(struct ts_event) == TS_EVENT_SIZE, "an event is 128 bytes");
_Static_assert(sizeof(struct ts_api) == 80 && sizeof(struct ts_process) <= 80, "payload is 80");
_Static_assert(sizeof(struct ts_work) <= 80 && sizeof(struct ts_memory) <= 80, "payload is 80");
_Static_assert(__builtin_offsetof(struct ts_event, payload) == 48, "payload follows 48 bytes");
_Static_assert(__builtin_offsetof(struct ts_stack, frame) == 32, "frames follow 32 bytes");

#endif
