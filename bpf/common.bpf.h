/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* common.bpf.h: the maps, settings and counters, and access to the ring.
 *
 * What a thread is doing is in its task storage: its open calls, the stack being taken, whether its
 * process is watched. So programs that preempt each other on a CPU share nothing, a thread that
 * ends takes its state along, and lost calls cannot fill up a table.
 */
#ifndef TS_COMMON_BPF_H
#define TS_COMMON_BPF_H

#include "bpf/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/probe.h"

#define SENT_SLOTS   16
#define WINDOW_WORDS 1024
#define WALKED_WORDS 256
#define KNOWN_SLOTS  1024
#define SEEN_WORDS   64
#define PYTHON_WORDS 512
#define CODE_SETS    32
#define CODE_WAYS    3

/* Which calls of a thread to take stacks of. */
struct sampler {
	__u64 last_ns; /* the last sample */
	__u32 calls;   /* since then */
	__u32 left;    /* calls to skip until the next */
	__u32 stride;  /* their mean */
	__u32 reserved;
};

/* A walk by rules: of a frame, what leads to its caller. */
struct unwinding {
	__u64 rules; /* seed of the process's keys */
	__u64 pc, sp, bp;
	__u64 top;   /* nothing of the stack is above */
	__u64 span;  /* bytes that the last walk needed */
	__u64 bp_at; /* where bp was read, 0: it does not matter any more where */
	__u32 words; /* in the window */
	__u32 returned;
	__u64 id; /* of the stack, as far as it was walked; 0: nothing was */
	/* Before the first of the last frames that only frame pointers led to; count 0: there are
	 * none. */
	__u32 sure_count, sure_returned;
	__u64 sure_pc, sure_sp, sure_bp, sure_hash;
};

/* The last walk by rules whose end was found: what it went by. */
struct walked {
	__u64 pc, sp, bp;
	__u32 generation; /* as the thread's, 0: there is none */
	__u32 by_bp;	  /* bp mattered */
	__u64 count, end; /* of the words; where it ended, which is above them */
	struct {
		__u64 at, value;
	} word[WALKED_WORDS];
};

/* A walk over frames of Python. */
struct python_walk {
	__u64 at; /* the next one, 0: there is none */
	__u64 window_at;
	__u64 hash;  /* of those so far */
	__u32 words; /* in the window */
	__u32 reserved;
	__u64 window[PYTHON_WORDS]; /* a cached piece of where they lie */
	__u64 code[TS_PYTHON_CHECK];
};

struct known_code {
	__u64 code, check; /* as in struct ts_python_frame */
};

/* Code objects that have been read since the process last freed one. */
struct known_codes {
	__u64 owner, count; /* as in struct probe_freed, when they were read */
	__u32 hold;	    /* 1: they may be used in this walk */
	__u32 reserved;
	struct known_code code[CODE_SETS][CODE_WAYS]; /* code 0: none */
};

/* What the thread's last call was to PyTorch's autograd. */
enum autograd_role {
	AUTOGRAD_NONE,
	AUTOGRAD_FORWARD,   /* the first launch since the node `next` - 1 was made */
	AUTOGRAD_BACKWARD,  /* of a node whose launch in the forward pass was sampled */
	AUTOGRAD_PASSED_BY, /* of one whose launch was not */
};

struct autograd {
	__u64 block;   /* the library's variables of this thread, 0: not found yet */
	__u64 thread;  /* its number of this thread, 0: not read yet */
	__u64 next;    /* the number that the thread's next node gets, as of its last call */
	__u64 number;  /* that, as of the call before */
	__u64 forward; /* stack of the forward pass */
	__u64 stack;   /* of this call */
	__u32 role;    /* enum autograd_role */
	__u32 passed;  /* 1: the node was made before the launch that has `forward` */
	__u16 known;   /* `next` has been read */
	__u16 tries;
	__u32 reserved;
};

/* By group, and by kind of walk: a power of two, so that an index can be masked. */
#define THREAD_COUNTS 4
_Static_assert(PROBE_GROUPS <= THREAD_COUNTS && PROBE_WALKS <= THREAD_COUNTS, "room for each");

struct thread {
	__u64 seed;		     /* stack ids; the seed is the process's */
	struct sampler sampler[2];   /* samplers for work and for waits */
	__u64 work_ns;		     /* when a stack was last taken because the work was new */
	__u64 work_seen[SEEN_WORDS]; /* one bit per kernel, graph or function */
	__u32 generation;	     /* of the filter that decided `watched`, 0: undecided */
	__u16 watched;
	__u16 choice; /* enum probe_choice */
	__u32 ns_tid;
	__u32 depth;
	__u32 own;					    /* a thread of the injected library */
	__u32 hits[THREAD_COUNTS];			    /* not yet added to the process's */
	__u32 walks[THREAD_COUNTS], walk_ns[THREAD_COUNTS]; /* likewise */
	__u64 hits_ns;					    /* when that was last done */
	__u64 entered, returned;			    /* cookies of the last runs */
	struct ts_event call[PROBE_DEPTH_MAX];
	__u64 call_sp[PROBE_DEPTH_MAX]; /* stack pointer at its entry */
	struct pt_regs copied;		/* of a call that our library reports, or at a note */
	__u64 claimed;			/* its stack, as the library has it; 0: it does not say */
	struct ts_event noted;		/* at a note */
	__u64 given; /* the block that a framework's allocator last gave out; 0: a small one */
	struct unwinding unwinding;
	struct walked walked;
	__u64 known_rules; /* the seed of those that are known */
	__u64 known[KNOWN_SLOTS];
	__u64 window_at;	    /* address of `window` in the process */
	__u64 window_hole;	    /* where nothing could be read once */
	__u64 window[WINDOW_WORDS]; /* a cached piece of its stack */
	__u64 sent[SENT_SLOTS];	    /* stack ids that need no lookup */
	__u64 frame[TS_STACK_FRAMES_MAX];
	__u32 frame_count;
	__u8 end, linked; /* of the stack, as in struct ts_stack */
	__u32 python_count;
	struct ts_python python; /* size 0: the process has none */
	struct autograd autograd;
	struct python_walk python_walk;
	struct ts_python_frame python_frame[TS_STACK_PYTHON_MAX];
	struct known_codes codes;
};

struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 24);
} events SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROBE_FUNCTIONS_MAX);
	__type(key, __u32);
	__type(value, struct probe_desc);
} descs SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct thread);
} threads SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct probe_process);
} processes SEC(".maps");

/* By process; written by the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROBE_CHOICES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, __u32);
} choices SEC(".maps");

/* Written by the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROBE_CHOICES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct probe_epochs);
} mappings SEC(".maps");

/* Of processes that run Python; written by the daemon. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROBE_CHOICES_MAX);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct ts_python);
} pythons SEC(".maps");

/* By process. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROBE_HITS_MAX);
	__type(key, __u32);
	__type(value, struct probe_hits);
} hits SEC(".maps");

/* By id; whose they are. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u32);
} stacks_sent SEC(".maps");

/* Global, both, so that they are verified once and not for each way that leads to them. */
__noinline int sent_keep(__u64 id)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;

	return bpf_map_update_elem(&stacks_sent, &id, &tgid, BPF_ANY);
}

__noinline int sent_is_own(__u64 id)
{
	__u32 *whose = bpf_map_lookup_elem(&stacks_sent, &id);

	return whose && *whose == bpf_get_current_pid_tgid() >> 32;
}

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct probe_counters);
} counters SEC(".maps");

struct probe_settings settings = {};
struct probe_worker workers[PROBE_WORKERS_MAX] = {};
struct rule_slot rules[RULE_SLOTS] = {};
struct probe_freed codes_freed[PROBE_FREED_MAX] = {};
const volatile __u64 rules_secret = 0;
const volatile __u64 ring_bytes = 1 << 24;

/* What each process has lost since the daemon took it; without room the total alone has it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, PROBE_LOSERS_MAX);
	__type(key, __u32);
	__type(value, struct probe_counters);
} losers SEC(".maps");

static __u64 window_ns, window_events; /* for the rate limit */
static __u64 asked_ns, asked;	       /* stacks to be unwound, within a second */

#define COUNT(name)                                                                                \
	do {                                                                                       \
		__u32 count_zero = 0;                                                              \
		struct probe_counters *count_c = bpf_map_lookup_elem(&counters, &count_zero);      \
		if (count_c)                                                                       \
			__sync_fetch_and_add(&count_c->name, 1);                                   \
	} while (0)

#define COUNTERS (sizeof(struct probe_counters) / sizeof(__u64))

/* First of the process: what the total has is of some process. */
__noinline int lose(__u32 counter)
{
	__u32 zero = 0, tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 *all, *own = bpf_map_lookup_elem(&losers, &tgid);
	struct probe_counters none = {};

	if (!own) {
		bpf_map_update_elem(&losers, &tgid, &none, BPF_NOEXIST);
		own = bpf_map_lookup_elem(&losers, &tgid);
	}
	all = bpf_map_lookup_elem(&counters, &zero);
	if (!all || counter >= COUNTERS)
		return 0;
	if (own)
		__sync_fetch_and_add(&own[counter], 1);
	__sync_fetch_and_add(&all[counter], 1);
	return 0;
}

#define LOSE(name) lose(__builtin_offsetof(struct probe_counters, name) / sizeof(__u64))

/* Reserves room for a record and says how to submit it. While nothing comes the reader sleeps, and
 * the next record wakes it; otherwise it polls every few milliseconds and is woken only when much
 * is waiting. The range above wake_bytes makes sure that one record hits it without every record
 * waking the reader. */
static __always_inline bool ring_has_room(bool keep, __u64 *wake)
{
	__u64 waiting = bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA);

	*wake = BPF_RB_NO_WAKEUP;
	if (settings.reader_idle) {
		settings.reader_idle = 0;
		*wake = BPF_RB_FORCE_WAKEUP;
	} else if (waiting >= settings.wake_bytes && waiting < settings.wake_bytes + 4096) {
		*wake = BPF_RB_FORCE_WAKEUP;
	}
	return keep || waiting + settings.reserve_bytes < ring_bytes;
}

static __always_inline bool rate_allows(__u64 now)
{
	if (!settings.events_per_s)
		return true;
	/* Another CPU may have started the window a little later than `now`. */
	if ((__s64)(now - window_ns) >= 1000000000) {
		window_ns = now;
		window_events = 0;
	}
	return __sync_fetch_and_add(&window_events, 1) < settings.events_per_s;
}

/* Reserves room for an event; NULL, with the loss counted, if there is none. */
static __always_inline struct ts_event *event_reserve(__u16 flags, __u64 now, __u64 *wake)
{
	bool keep = flags & PROBE_KEEP;
	struct ts_event *ev;

	if (!keep && !rate_allows(now)) {
		LOSE(limited);
		return NULL;
	}
	ev = ring_has_room(keep, wake) ? bpf_ringbuf_reserve(&events, sizeof(*ev), 0) : NULL;
	if (!ev && keep)
		LOSE(dropped_kept);
	else if (!ev)
		LOSE(dropped);
	return ev;
}

#endif
