/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* probe.h: what the daemon passes to the BPF programs, and what they count for it.
 *
 * One enter and one exit program serve every function. The attach cookie says which function was
 * hit (row number in the low 16 bits, enum ts_event_flag to set in the next 16); the function's
 * probe_desc says where its arguments are and which field of struct ts_api each one fills.
 */
#ifndef TS_PROBE_H
#define TS_PROBE_H

#include "proto/event.h"
#include "proto/python.h"
#include "proto/rule.h"
#include "proto/stack_id.h"

#define PROBE_FUNCTIONS_MAX	512
#define PROBE_SLOTS_MAX		10
#define PROBE_OUTS_MAX		2
#define PROBE_DEPTH_MAX		4
#define PROBE_FILTER_MAX	32
#define PROBE_CGROUP_LEVELS	12
#define PROBE_CHOICES_MAX	8192

#define PROBE_COOKIE(fn, flags) ((__u64)(fn) | (__u64)(flags) << 16)

/* The functions of a library are in groups with links of their own. */
enum probe_group {
	PROBE_COLD,
	PROBE_HOT,
	PROBE_REPORTS, /* a framework tells each block of its allocator */
	PROBE_GROUPS
};

/* Above these: the group, which copy of a library the probe is on, and the epoch of its link. Links
 * for all processes and links for single ones take turns; each turn has the next epoch. */
#define PROBE_COOKIE_GROUP(group)  ((__u64)(group) << 32)
#define PROBE_COOKIE_COPY(n)	   ((__u64)(n) << 34)
#define PROBE_COOKIE_EPOCH(n)	   ((__u64)(n) << 40)
#define PROBE_GROUP_OF(cookie)	   ((cookie) >> 32 & 3)
#define PROBE_COPY_OF(cookie)	   ((cookie) >> 34 & (PROBE_COPIES_MAX - 1))
#define PROBE_EPOCH_OF(cookie)	   ((__u32)((cookie) >> 40))
#define PROBE_COOKIE_PLACE(cookie) ((cookie) << 24) /* without the epoch */
#define PROBE_COPIES_MAX	   64
#define PROBE_EPOCH_MAX		   0xffffff

/* They wrap around, after years. */
static inline __u32 probe_epoch_after(__u32 epoch)
{
	return (epoch + 1) & PROBE_EPOCH_MAX;
}

static inline __u8 probe_epoch_is_newer(__u32 epoch, __u32 than)
{
	return (__s32)((epoch - than) << 8) > 0;
}

enum probe_from {
	PROBE_END = 0,
	PROBE_ARG,   /* argument `arg`, counted from 0; or PROBE_ARG_SELF */
	PROBE_FIELD, /* `offset` bytes into what argument `arg` points to */
};

/* Not an argument: the address of the function itself. */
#define PROBE_ARG_SELF 15

/* One value: `width` bytes (4 or 8) go to byte `to` of struct ts_api. */
struct probe_slot {
	__u8 from;
	__u8 arg;
	__u8 width;
	__u8 to;
	__u16 offset;
};

enum probe_flag {
	PROBE_RETURN = 1 << 0,	/* the exit program sends the event, not the enter program */
	PROBE_STACK = 1 << 1,	/* take the stack of every call */
	PROBE_SAMPLE = 1 << 2,	/* take a limited number of stacks per thread and second, or as set
				   for the process */
	PROBE_KEEP = 1 << 3,	/* a lost call would make the model wrong: never rate-limited */
	PROBE_SPILLED = 1 << 4, /* needs arguments beyond the sixth: read them from the stack */
	PROBE_WAIT = 1 << 5,	/* sampled separately from work submission */
	PROBE_ALWAYS = 1 << 6,	/* not only in windows, though one that is lost does no harm */
	PROBE_REPORT = 1 << 7,	/* of PROBE_REPORTS */
	PROBE_NOTE = 1 << 8,	/* a place that the library's code names (USDT), not a function */
};

/* Where the compiler has left an argument of such a place: registers by their words in pt_regs. */
enum probe_operand_from {
	PROBE_OPERAND_UNKNOWN,
	PROBE_OPERAND_CONSTANT, /* `value` */
	PROBE_OPERAND_REGISTER, /* `base` */
	PROBE_OPERAND_MEMORY,	/* at `base` + `index` * `scale` + `value` */
};
#define PROBE_OPERAND_NONE 0xff /* no such register */
struct probe_operand {
	__u8 from;
	__u8 base, index, scale;
	__u8 width; /* in bytes: 1, 2, 4 or 8 */
	__u8 is_signed;
	__u16 reserved;
	__s64 value;
};

/* Of a copy of a library, by its number: the note's is in the cookie, where functions have flags.
 * Arguments of slots count these. */
#define PROBE_OPERANDS_MAX 4
#define PROBE_NOTES_MAX	   16
struct probe_note {
	struct probe_operand operand[PROBE_OPERANDS_MAX];
};
#define PROBE_NOTE_OF(cookie)	((cookie) >> 16 & (PROBE_NOTES_MAX - 1))
#define PROBE_NOTE_KEY(copy, n) ((__u32)(copy)*PROBE_NOTES_MAX + (n))

/* Where a call has a unique id of NCCL, of which a hash goes to `source`. */
enum probe_id_at {
	PROBE_ID_NOWHERE,
	PROBE_ID_ON_STACK, /* by value, above the return address */
	PROBE_ID_AT_FIFTH, /* the fifth argument points to it */
};
#define PROBE_ID_WORDS 16

struct probe_desc {
	__u16 flags;
	__u8 slot_count;
	__u8 out_count;
	__u8 kernel_arg;  /* 1 + the argument with the handle of the kernel or graph; 0: none */
	__u8 device_type; /* only calls with this in the low byte of the fifth argument; 0: all */
	__u8 walk;	  /* enum probe_walk */
	__u8 id_at;	  /* enum probe_id_at */
	struct probe_slot slot[PROBE_SLOTS_MAX];
	struct probe_slot out[PROBE_OUTS_MAX]; /* read through argument `arg` at the return */
};

/* Which calls with PROBE_SAMPLE get a stack, per process; the values of enum ts_stacks. */
enum probe_choice {
	PROBE_CHOICE_DEFAULT,
	PROBE_CHOICE_NONE,
	PROBE_CHOICE_SAMPLED,
	PROBE_CHOICE_ALL,
};

/* A PROCESS or EXEC event is followed by the command line, with a NUL after each argument: a
 * process of a moment has none in /proc when the daemon looks. */
#define PROBE_COMMAND_MAX 892
struct probe_announcement {
	struct ts_event event;
	__u32 command_size; /* 0: not read */
	char command[PROBE_COMMAND_MAX];
};

/* No function of a library: the one that is called to see what a hit costs. */
enum { PROBE_CALIBRATION = PROBE_FUNCTIONS_MAX - 1 };

/* Settings, written by the daemon into the programs' .bss at any time. */
struct probe_settings {
	__u32 generation;    /* raised when a filter or a choice changes */
	__u32 stack_depth;   /* maximum number of frames */
	__u32 wake_bytes;    /* wake the reader when this much is waiting */
	__u64 events_per_s;  /* host-wide limit, 0 for none */
	__u64 sample_ns;     /* mean time between two sampled stacks of a thread, ~0 for none */
	__u64 reserve_bytes; /* reserved for PROBE_KEEP events */
	__u32 pid_count, uid_count, cgroup_count; /* of the filters; 0: trace everything */
	__u32 reader_idle;  /* 1: the reader sleeps, wake it at the next event */
	__u32 calibrated;   /* a child of the daemon: watched, and never announced; 0: none */
	__u32 workers;	    /* 1: watch the kernel's workers */
	__u32 unwind;	    /* 1: by rules, 0: by frame pointers */
	__u32 rule_mask;    /* of the sets that are used */
	__u32 check_walks;  /* 1: walk again by the filed rules alone, and count what differs */
	__u32 rule_epoch;   /* how often the rules of all processes have become void */
	__u32 python_depth; /* maximum number of frames of Python, 0: none are looked for */
	__u64 tensor_bytes; /* smaller blocks of a framework's allocator are only added up */
	__u32 autograd; /* 1: join stacks of PyTorch's backward pass to those of the forward one */
	__u32 pid[PROBE_FILTER_MAX];
	__u32 uid[PROBE_FILTER_MAX];
	__u64 cgroup[PROBE_FILTER_MAX];
};

/* How often the rules of a process have become void, and the ids of its stacks. */
struct probe_epochs {
	__u32 rules, ids;
};

/* What is decided once for all threads of a process, in each generation of the settings. */
struct probe_process {
	__u64 seed;
	__u64 ids, rules; /* seeds of what belongs to its epochs */
	struct probe_epochs epochs;
	__u32 generation;
	__u16 watched;
	__u16 announced; /* so its EXEC and EXIT are reported, watched or not */
	/* Stacks that may still be asked for, as of then. */
	__u64 asked_ns;
	__u64 may_ask;
};

/* Whose allocator says what, of those blocks that are no events. */
struct probe_sums_key {
	__u64 copy; /* of its library: the address of the function that it calls */
	__u32 tgid;
	__u32 device;
};

struct probe_sums {
	__u64 used_bytes, bytes; /* given out, and held for that */
	__u64 peak_used_bytes, peak_bytes;
	__u64 told_ns;
};

/* Why a stack was walked: by the settings, because its function always has one, or for a report. */
enum probe_walk { PROBE_WALK_SAMPLED, PROBE_WALK_ALWAYS, PROBE_WALK_REPORT, PROBE_WALKS };

/* How often a process ran into probes, watched or not: calls, and their returns as well; and how
 * many stacks were walked, which took it how long. Behind by what its threads have not added up
 * yet. */
struct probe_hits {
	__u64 hits[PROBE_GROUPS];
	__u64 walks[PROBE_WALKS], walk_ns[PROBE_WALKS];
};
#define PROBE_SUMS_MAX	 4096	  /* allocators: of a process, on a device */
#define PROBE_HITS_MAX	 8192	  /* processes */
#define PROBE_HITS_BATCH 64	  /* that a thread adds up, */
#define PROBE_HITS_NS	 10000000 /* and for how long at most */

/* A stack that cannot be walked to its end, as a rule is not known: registers and memory of where
 * it is needed. In the ring like an event, whose kinds are below; it never leaves daemon/probe. The
 * call's event follows, with `id` for its stack and PROBE_EVENT_MISSED. */
#define PROBE_MISS	   0x8000
#define PROBE_EVENT_MISSED (1 << 15) /* in ts_event.flags */
struct probe_miss {
	__u16 kind;
	__u16 frame_count; /* known so far; the last one is pc */
	__u32 size;	   /* of the stack */
	__u32 missing;	   /* a bit for each of its pages that could not be read */
	__u32 lean;	   /* no frames of Python: the stack starts in their place */
	__u32 tgid, tid;
	__u64 time_ns;
	__u64 id;
	__u64 seed;  /* of the process's stack ids */
	__u64 rules; /* and of its rules */
	__u64 pc, sp, bp;
	__u64 at;	/* where the stack begins; of a page, if one is missing */
	__u32 returned; /* pc is a return address */
	__u16 depth;	/* maximum number of frames */
	__u16 python_count;
	__u64 frame[TS_STACK_FRAMES_MAX];
	struct ts_python_frame python[TS_STACK_PYTHON_MAX];
	__u8 stack[];
};
#define PROBE_MISS_STACK_MAX 32768
#define PROBE_MISS_PAGE	     4096
/* Of a process at once, and after that in each second; of all in a second. PyTorch has 440 rules,
 * but asks for up to 1,200 stacks until it has them, if all CPUs are busy: the daemon then waits
 * 20 ms for one. */
#define PROBE_MISSES_MAX	1536
#define PROBE_MISSES_PER_S	32
#define PROBE_MISSES_HOST_PER_S 4096

#define PROBE_MISS_LEAN		__builtin_offsetof(struct probe_miss, python)

static inline const __u8 *probe_miss_stack(const struct probe_miss *miss)
{
	return miss->lean ? (const __u8 *)miss->python : miss->stack;
}

/* How many code objects a Python has freed. The count never starts anew. */
struct probe_freed {
	__u64 count;
	__u64 owner; /* PROBE_FREED_OWNER of the process; 0: nobody counts */
};
/* `link`: another number each time that somebody starts to count. */
#define PROBE_FREED_OWNER(tgid, link) ((__u64)(link) << 32 | (tgid))
#define PROBE_FREED_MAX		      256

/* The kernel's per-CPU worker of one CPU. */
struct probe_worker {
	__u64 waiting_ns; /* since when work has waited for it, 0: none does */
	__u64 longest_ns; /* that work has waited, since the daemon has read this */
	/* Hits of probes on that CPU: all, until that wait began, and in the longest. */
	__u64 hits, hits_before, longest_hits;
};
#define PROBE_WORKERS_MAX 1024

/* Counters of one CPU. A call that passes the filters either reaches the daemon or is counted in
 * one of dropped, dropped_kept, limited and lost_calls. */
#define PROBE_COUNTERS(X)                                                                          \
	X(dropped, "events lost because the ring was full")                                        \
	X(dropped_kept, "events lost that have room of their own in the ring, such as frees")      \
	X(limited, "events skipped by the rate limit")                                             \
	X(lost_calls, "calls without thread state or nested too deep")                             \
	X(stacks_lost, "stacks that could not be taken or sent")                                   \
	X(unread, "events with an unreadable argument")                                            \
	X(processes_lost, "processes that could not be announced")                                 \
	X(stacks_cut, "stacks cut short, as too many had unknown functions")

/* What is no loss. */
#define PROBE_FIGURES(X)                                                                           \
	X(unread_stacks, "reads of a stack failed")                                                \
	X(stacks_held, "stacks were as the thread's last one")                                     \
	X(stacks_wrong, "stacks were others by the filed rules, in a test that looks")

/* Processes of which it is counted what was lost. */
#define PROBE_LOSERS_MAX 1024

struct probe_counters {
#define X(name, text) __u64 name;
	PROBE_COUNTERS(X)
	PROBE_FIGURES(X)
#undef X
};

#endif
