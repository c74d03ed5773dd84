/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* event.h: the one record that BPF programs and injected libraries hand to the daemon.
 *
 * An event is 128 bytes, the same in BPF, in a ring and in the daemon. Kinds are numbered by hand
 * and never reused. What has no fixed size (a stack) is a record of its own that begins with the
 * same 16 bytes, so that a reader can tell records apart by their first field.
 *
 * Times are CLOCK_MONOTONIC nanoseconds, sizes are bytes, pids are those of the host.
 * The daemon copies a record, checks it, and only then believes it.
 */
#ifndef TS_EVENT_H
#define TS_EVENT_H

#ifndef __VMLINUX_H__
#include <linux/types.h>
#endif

#define TS_EVENT_SIZE	    128
#define TS_COMM_SIZE	    16
#define TS_STACK_FRAMES_MAX 127

/* number, name: what the record says */
#define TS_EVENT_KINDS(X)                                                                          \
	X(1, API)     /* one call of a driver function */                                          \
	X(2, PROCESS) /* first sight of a process, before anything else of it */                   \
	X(3, EXEC)    /* a process seen before runs another program now */                         \
	X(4, EXIT)    /* the last thread of a process seen before is gone */                       \
	X(5, STACK)   /* a call stack, sent once; struct ts_stack */

enum ts_event_kind {
#define X(number, name) TS_EVENT_##name = number,
	TS_EVENT_KINDS(X)
#undef X
};

enum ts_event_flag {
	TS_EVENT_RETURNED = 1 << 0,   /* end_ns and result are those of the return */
	TS_EVENT_PER_THREAD = 1 << 1, /* a _ptsz/_ptds entry: stream 0 is the thread's own */
	TS_EVENT_UNREAD = 1 << 2,     /* an argument in memory could not be read and is 0 */
	TS_EVENT_STACK_LOST = 1 << 3, /* a stack was wanted, none could be taken */
	TS_EVENT_UNFINISHED = 1 << 4, /* its thread ended inside the call: no effect is known */
};

/* What the arguments of a call meant; a function fills the fields that it has. */
struct ts_api {
	__u64 context; /* CUcontext */
	__u64 stream;  /* CUstream; 0 is the default stream */
	__u64 address; /* what is allocated, freed, written or mapped */
	__u64 source;  /* where a copy reads; for a set, the value */
	__u64 bytes;   /* size; for 2D and 3D the width in bytes */
	__u64 handle;  /* function, graph, event, module, pool or allocation handle */
	union {
		struct {
			__u32 grid[3];
			__u32 block[3];
			__u32 shared_bytes;
			__u32 device; /* ordinal, of calls that name one */
		};
		struct {
			__u64 height; /* rows of a 2D or 3D copy, else 0 */
			__u64 depth;  /* slices of a 3D copy, else 0 */
			__u64 flags;  /* flags as the caller gave them */
			__u32 value;  /* device follows, as above */
		};
		__u32 word[8];
	};
};

struct ts_process {
	__u64 started_ns; /* CLOCK_BOOTTIME at its start: with the pid, its identity */
	__u64 cgroup;	  /* cgroup v2 id */
	__u32 ppid;
	__u32 uid;
	__u32 ns_pid;	 /* its pid as it sees it itself */
	__s32 exit_code; /* EXIT: as wait(2) gives it */
	char comm[TS_COMM_SIZE];
};

struct ts_event {
	__u16 kind;  /* enum ts_event_kind */
	__u16 fn;    /* API: row of the function table, 0 for none */
	__u16 flags; /* enum ts_event_flag */
	__u16 cpu;
	__u32 tgid;
	__u32 tid;
	__u64 start_ns; /* when the call began; for other kinds, when it happened */
	__u64 end_ns;	/* when it returned, 0 where no return is watched */
	__u64 stack_id; /* 0: no stack taken */
	__s32 result;	/* CUresult, where TS_EVENT_RETURNED */
	__u32 reserved;
	union {
		struct ts_api api;
		struct ts_process process;
		__u64 payload[10];
	};
};

/* Frames are return addresses, innermost first; frame[0] is the probed function itself.
 * The id is a hash over the process and the frames, so equal stacks of one process have one id. */
struct ts_stack {
	__u16 kind; /* TS_EVENT_STACK */
	__u16 frame_count;
	__u32 reserved;
	__u32 tgid;
	__u32 tid;
	__u64 time_ns;
	__u64 id;
	__u64 frame[];
};

_Static_assert(sizeof(struct ts_event) == TS_EVENT_SIZE, "an event is 128 bytes");
_Static_assert(sizeof(struct ts_api) == 80 && sizeof(struct ts_process) <= 80, "payload is 80");
_Static_assert(__builtin_offsetof(struct ts_event, payload) == 48, "payload follows 48 bytes");
_Static_assert(__builtin_offsetof(struct ts_stack, frame) == 32, "frames follow 32 bytes");

#endif
