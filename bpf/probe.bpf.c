/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Probe: sees every call of a probed driver function, in every process, and hands it over.
 *
 * What a thread is doing lives in its task storage: the calls that it has begun, the stack being
 * taken, whether its process is watched. So programs that preempt each other on a CPU share
 * nothing, a thread that ends takes its state along, and no table can fill up with lost calls.
 * A call leaves as one event: at its entry, or at its return where the result is wanted.
 */
#include "bpf/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/probe.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define REGISTER_ARGS 6
#define SPILLED_ARGS  3 /* as many as cuLaunchKernel needs */
#define SENT_SLOTS    16
#define WINDOW_WORDS  128
#define CODE_MIN      0x10000	   /* below lies nothing */
#define CODE_MAX      (1ull << 47) /* above lies the kernel */
#define STACK_SPAN    (8 << 20)	   /* of the main thread, at most */
#define ARGS_SIZE     16	   /* both, rounded up so that an index can be masked */

struct thread {
	__u64 seed; /* of stack ids; that of the process */
	__u64 sampled_ns[2];
	__u32 generation; /* of the filter that decided `watched`, 0: undecided */
	__u32 watched;
	__u32 depth;
	struct ts_event call[PROBE_DEPTH_MAX];
	__u64 call_sp[PROBE_DEPTH_MAX]; /* stack pointer at its entry */
	__u64 window_at;		/* address of `window` in the process */
	__u64 window[WINDOW_WORDS];	/* a piece of its stack */
	__u64 sent[SENT_SLOTS];		/* ids of stacks that need no look-up */
	__u64 frame[TS_STACK_FRAMES_MAX];
};

struct process {
	__u64 seed;
	__u32 generation;
	__u32 watched;
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
	__type(value, struct process);
} processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, __u64);
	__type(value, __u8);
} stacks_sent SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct probe_counters);
} counters SEC(".maps");

struct probe_settings settings = {};
const volatile __u64 ring_bytes = 1 << 24;

static __u64 window_ns, window_events; /* of the rate limit */

#define COUNT(name)                                                                                \
	do {                                                                                       \
		__u32 count_zero = 0;                                                              \
		struct probe_counters *count_c = bpf_map_lookup_elem(&counters, &count_zero);      \
		if (count_c)                                                                       \
			count_c->name++;                                                           \
	} while (0)

/* Whether a record has room, and how to submit it. The reader sleeps while nothing comes (then the
 * next record wakes it), else it looks by itself every few milliseconds and is woken only when
 * much is waiting. The window above wake_bytes is there to be hit, not to wake for each record. */
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
	if (now - window_ns >= 1000000000) {
		window_ns = now;
		window_events = 0;
	}
	return __sync_fetch_and_add(&window_events, 1) < settings.events_per_s;
}

static __always_inline bool cgroup_wanted(void)
{
	for (int level = 0; level < PROBE_CGROUP_LEVELS; level++) {
		__u64 id = bpf_get_current_ancestor_cgroup_id(level);

		if (!id)
			return false;
		for (__u32 i = 0; i < PROBE_FILTER_MAX && i < settings.cgroup_count; i++)
			if (settings.cgroup[i] == id)
				return true;
	}
	return false;
}

static __always_inline bool process_wanted(__u32 tgid, __u32 uid)
{
	bool found = !settings.pid_count;

	for (__u32 i = 0; i < PROBE_FILTER_MAX && i < settings.pid_count; i++)
		found |= settings.pid[i] == tgid;
	if (!found)
		return false;
	found = !settings.uid_count;
	for (__u32 i = 0; i < PROBE_FILTER_MAX && i < settings.uid_count; i++)
		found |= settings.uid[i] == uid;
	return found && (!settings.cgroup_count || cgroup_wanted());
}

static __always_inline __u32 process_own_pid(struct task_struct *leader)
{
	struct pid *pid = BPF_CORE_READ(leader, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	__u32 nr = 0;

	/* Our struct upid is not the kernel's size, so no plain index. */
	bpf_core_read(&nr, sizeof(nr),
		      (char *)pid + bpf_core_field_offset(struct pid, numbers) +
			      level * bpf_core_type_size(struct upid) +
			      bpf_core_field_offset(struct upid, nr));
	return nr;
}

static __always_inline int process_send(__u16 kind, struct task_struct *task, __s32 exit_code)
{
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);
	struct ts_event *ev;
	__u64 wake;

	ring_has_room(true, &wake);
	ev = bpf_ringbuf_reserve(&events, sizeof(*ev), 0);
	if (!ev) {
		COUNT(processes_lost);
		return -1;
	}
	__builtin_memset(ev, 0, sizeof(*ev));
	ev->kind = kind;
	ev->cpu = bpf_get_smp_processor_id();
	ev->tgid = BPF_CORE_READ(task, tgid);
	ev->tid = BPF_CORE_READ(task, pid);
	ev->start_ns = bpf_ktime_get_ns();
	ev->process.started_ns = BPF_CORE_READ(leader, start_boottime);
	ev->process.cgroup = bpf_get_current_cgroup_id();
	ev->process.ppid = BPF_CORE_READ(leader, real_parent, tgid);
	ev->process.uid = (__u32)bpf_get_current_uid_gid();
	ev->process.ns_pid = process_own_pid(leader);
	ev->process.exit_code = exit_code;
	bpf_probe_read_kernel_str(ev->process.comm, sizeof(ev->process.comm), &leader->comm);
	bpf_ringbuf_submit(ev, wake);
	return 0;
}

/* Equal stacks of one run of one program have one id, also across restarts of the daemon. */
static __always_inline __u64 process_seed(struct task_struct *task)
{
	__u64 seed = BPF_CORE_READ(task, group_leader, start_boottime);

	seed += BPF_CORE_READ(task, self_exec_id) << 48;
	seed ^= (__u64)BPF_CORE_READ(task, tgid) << 32;
	seed *= 0x9e3779b97f4a7c15;
	return seed ^ seed >> 29;
}

/* Decides once per thread and filter generation whether the process is watched, and announces the
 * process before its first event. Two threads may both announce it: that does no harm, while an
 * event before its process would. */
static __noinline int thread_decide(struct thread *thread)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct process known = {};
	struct process *process;

	if (!thread)
		return 0;
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (process)
		known = *process;
	if (known.generation != settings.generation) {
		bool announced = known.watched;

		known.generation = settings.generation;
		known.seed = process_seed(task);
		known.watched = process_wanted(tgid, (__u32)bpf_get_current_uid_gid());
		if (known.watched && !announced && process_send(TS_EVENT_PROCESS, task, 0))
			return 0;
		if (bpf_map_update_elem(&processes, &tgid, &known, BPF_ANY))
			COUNT(processes_lost);
	}
	thread->seed = known.seed;
	thread->watched = known.watched;
	thread->generation = known.generation;
	return 0;
}

static __always_inline struct thread *thread_get(void)
{
	struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL,
						     BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread) {
		COUNT(lost_calls);
		return NULL;
	}
	if (thread->generation != settings.generation) {
		thread_decide(thread);
		if (thread->generation != settings.generation) {
			COUNT(dropped);
			return NULL;
		}
	}
	return thread->watched ? thread : NULL;
}

static __always_inline __u64 stack_hash(__u64 seed, const __u64 *frame, __u32 count)
{
	__u64 hash = seed;

	for (__u32 i = 0; i < TS_STACK_FRAMES_MAX && i < count; i++) {
		hash = (hash ^ frame[i]) * 0xff51afd7ed558ccd;
		hash ^= hash >> 32;
	}
	return hash ? hash : 1;
}

static __noinline int stack_send(struct thread *thread, __u64 id, __u32 count)
{
	__u64 wake, size;
	__u8 one = 1;
	struct ts_stack head = {
		.kind = TS_EVENT_STACK,
		.frame_count = count,
		.time_ns = bpf_ktime_get_ns(),
		.id = id,
	};
	struct {
		__u64 head[sizeof(struct ts_stack) / sizeof(__u64)];
		__u64 frame[TS_STACK_FRAMES_MAX];
	} * record;

	if (!thread || count > TS_STACK_FRAMES_MAX)
		return -1;
	ring_has_room(true, &wake);
	record = bpf_ringbuf_reserve(&events, sizeof(*record), 0);
	if (!record)
		return -1;
	head.tgid = bpf_get_current_pid_tgid() >> 32;
	head.tid = (__u32)bpf_get_current_pid_tgid();
	__builtin_memcpy(record->head, &head, sizeof(head));
	size = count * sizeof(__u64);
	bpf_probe_read_kernel(record->frame, size & 1023, thread->frame);
	bpf_ringbuf_submit(record, wake);
	bpf_map_update_elem(&stacks_sent, &id, &one, BPF_ANY);
	return 0;
}

struct link {
	__u64 next; /* frame pointer of the caller */
	__u64 address;
};

/* Reads of user memory are what a walk costs, so the stack is read a window at a time: a frame is
 * mostly in the window of the one before. Where a whole window cannot be read, the link alone is.
 */
static __always_inline bool stack_read(struct thread *thread, __u64 at, struct link *link)
{
	__u64 index = (at - thread->window_at) / sizeof(__u64);

	if (index > WINDOW_WORDS - 2) {
		if (bpf_probe_read_user(thread->window, sizeof(thread->window), (void *)at)) {
			thread->window_at = ~0ull;
			return !bpf_probe_read_user(link, sizeof(*link), (void *)at);
		}
		thread->window_at = at;
		index = 0;
	}
	link->next = thread->window[index & (WINDOW_WORDS - 1)];
	link->address = thread->window[(index + 1) & (WINDOW_WORDS - 1)];
	return true;
}

/* Code built without frame pointers leaves anything in %rbp, and the walk ends in data: what cannot
 * be code ends it, so that data does not make every stack a new one. Above the main thread's frames
 * there is only stack; other threads' stacks may lie right below a library. */
static __always_inline bool stack_is_code(__u64 address, __u64 at, bool main_thread)
{
	if (address < CODE_MIN || address >= CODE_MAX)
		return false;
	return !main_thread || address < at || address - at > STACK_SPAN;
}

/* Walks the frame pointers by itself: bpf_get_stack() costs more, and before 6.11 it misses the
 * caller, since at a function's first instruction %rbp is still the caller's. The return address
 * is on top of the stack there. */
static __always_inline __u64 stack_take(struct pt_regs *ctx, struct thread *thread)
{
	__u32 count = 2, depth = settings.stack_depth;
	__u64 at = PT_REGS_SP(ctx), next = PT_REGS_FP(ctx), id;
	__u64 ids = bpf_get_current_pid_tgid();
	bool main_thread = (__u32)ids == ids >> 32;
	struct link link = {};

	thread->window_at = ~0ull;
	if (at & 7 || !stack_read(thread, at, &link))
		return 0;
	thread->frame[0] = PT_REGS_IP(ctx);
	thread->frame[1] = link.next;
	for (; count < TS_STACK_FRAMES_MAX && count < depth; count++) {
		/* The stack grows down, so callers lie above; anything else is no frame. */
		if (next <= at || next & 7)
			break;
		at = next;
		if (!stack_read(thread, at, &link) || !stack_is_code(link.address, at, main_thread))
			break;
		thread->frame[count] = link.address;
		next = link.next;
	}
	id = stack_hash(thread->seed, thread->frame, count);
	if (thread->sent[id % SENT_SLOTS] == id)
		return id;
	if (!bpf_map_lookup_elem(&stacks_sent, &id) && stack_send(thread, id, count))
		return 0;
	thread->sent[id % SENT_SLOTS] = id;
	return id;
}

/* Samples of launches and of waits are taken apart, or the launches would take them all. */
static __always_inline bool stack_wanted(struct thread *thread, __u16 flags, __u64 now)
{
	__u64 *last = &thread->sampled_ns[!!(flags & PROBE_RETURN)];

	if (flags & PROBE_STACK)
		return true;
	if (!(flags & PROBE_SAMPLE) || now - *last < settings.sample_ns)
		return false;
	*last = now;
	return true;
}

static __always_inline void slot_put(struct ts_event *ev, __u32 to, __u32 width, __u64 value)
{
	void *api = &ev->api;

	if (width == sizeof(__u32) && to <= sizeof(struct ts_api) - sizeof(__u32))
		*(__u32 *)(api + to) = value;
	else if (width == sizeof(__u64) && to <= sizeof(struct ts_api) - sizeof(__u64))
		*(__u64 *)(api + to) = value;
}

static __always_inline void call_read_args(struct pt_regs *ctx, const struct probe_desc *desc,
					   struct ts_event *ev)
{
	__u64 args[ARGS_SIZE] = { PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx),
				  PT_REGS_PARM4(ctx), PT_REGS_PARM5(ctx), ctx->r9 };
	__u32 unread = 0;

	/* The return address lies below them. */
	if (desc->flags & PROBE_SPILLED)
		unread |= !!bpf_probe_read_user(&args[REGISTER_ARGS], SPILLED_ARGS * sizeof(__u64),
						(void *)(PT_REGS_SP(ctx) + sizeof(__u64)));
	for (__u32 i = 0; i < PROBE_SLOTS_MAX && i < desc->slot_count; i++) {
		const struct probe_slot *slot = &desc->slot[i];
		__u64 value = args[slot->arg & (ARGS_SIZE - 1)];

		if (slot->from == PROBE_FIELD) {
			__u64 field = 0;

			/* NULL is a mistake of the caller's that the driver will refuse. */
			if (value)
				unread |= !!bpf_probe_read_user(&field, sizeof(field),
								(void *)(value + slot->offset));
			value = field;
		}
		slot_put(ev, slot->to, slot->width, value);
	}
	if (unread) {
		ev->flags |= TS_EVENT_UNREAD;
		COUNT(unread);
	}
}

static __always_inline void call_begin(struct pt_regs *ctx, struct thread *thread,
				       const struct probe_desc *desc, __u64 cookie, __u64 now,
				       __u64 stack_id, bool stack_lost, struct ts_event *ev)
{
	__u64 id = bpf_get_current_pid_tgid();

	__builtin_memset(ev, 0, sizeof(*ev));
	ev->kind = TS_EVENT_API;
	ev->fn = (__u16)cookie;
	ev->flags = (__u16)(cookie >> 16) | (stack_lost ? TS_EVENT_STACK_LOST : 0);
	ev->cpu = bpf_get_smp_processor_id();
	ev->tgid = id >> 32;
	ev->tid = (__u32)id;
	ev->start_ns = now;
	ev->stack_id = stack_id;
	call_read_args(ctx, desc, ev);
}

/* A call that is still under way has its frame above ours. One that has not will never return here:
 * its return probe was taken off meanwhile, or somebody jumped out of it. */
static __always_inline __u32 thread_depth(struct thread *thread, __u64 sp)
{
	__u32 depth = thread->depth;

	for (int i = 0; i < PROBE_DEPTH_MAX; i++) {
		if (depth - 1 >= PROBE_DEPTH_MAX || thread->call_sp[depth - 1] > sp)
			break;
		depth--;
		COUNT(lost_calls);
	}
	return depth;
}

SEC("uprobe")
int enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now, stack_id = 0, wake;
	__u32 fn = (__u16)cookie, depth;
	struct probe_desc *desc = bpf_map_lookup_elem(&descs, &fn);
	struct thread *thread;
	struct ts_event *ev;
	bool stack_lost = false;

	if (!desc)
		return 0;
	thread = thread_get();
	if (!thread)
		return 0;
	now = bpf_ktime_get_ns();
	if (stack_wanted(thread, desc->flags, now)) {
		stack_id = stack_take(ctx, thread);
		if (!stack_id) {
			stack_lost = true;
			COUNT(stacks_lost);
		}
	}
	if (desc->flags & PROBE_RETURN) {
		depth = thread_depth(thread, PT_REGS_SP(ctx));
		if (depth >= PROBE_DEPTH_MAX) {
			COUNT(lost_calls);
			return 0;
		}
		thread->call_sp[depth] = PT_REGS_SP(ctx);
		ev = &thread->call[depth];
		call_begin(ctx, thread, desc, cookie, now, stack_id, stack_lost, ev);
		thread->depth = depth + 1;
		return 0;
	}
	if (!(desc->flags & PROBE_KEEP) && !rate_allows(now)) {
		COUNT(limited);
		return 0;
	}
	if (!ring_has_room(desc->flags & PROBE_KEEP, &wake)) {
		COUNT(dropped);
		return 0;
	}
	ev = bpf_ringbuf_reserve(&events, sizeof(*ev), 0);
	if (!ev) {
		COUNT(dropped);
		return 0;
	}
	call_begin(ctx, thread, desc, cookie, now, stack_id, stack_lost, ev);
	bpf_ringbuf_submit(ev, wake);
	return 0;
}

static __always_inline void call_send(const struct ts_event *call, __u16 flags)
{
	struct ts_event *ev;
	__u64 wake;

	if (!(flags & PROBE_KEEP) && !rate_allows(call->start_ns)) {
		COUNT(limited);
		return;
	}
	if (!ring_has_room(flags & PROBE_KEEP, &wake)) {
		COUNT(dropped);
		return;
	}
	ev = bpf_ringbuf_reserve(&events, sizeof(*ev), 0);
	if (!ev) {
		COUNT(dropped);
		return;
	}
	__builtin_memcpy(ev, call, sizeof(*ev));
	bpf_ringbuf_submit(ev, wake);
}

/* What an out-parameter points to; the pointer was kept in the (8-byte) field at the entry. */
static __always_inline void call_read_outs(const struct probe_desc *desc, struct ts_event *call)
{
	for (__u32 i = 0; i < PROBE_OUTS_MAX && i < desc->out_count; i++) {
		const struct probe_slot *out = &desc->out[i];
		__u64 value = 0, *place;
		__u32 to = out->to;

		if (to > sizeof(struct ts_api) - sizeof(__u64))
			return;
		place = (void *)&call->api + to;
		if (call->result == 0 && *place &&
		    bpf_probe_read_user(&value, sizeof(value), (void *)*place)) {
			call->flags |= TS_EVENT_UNREAD;
			COUNT(unread);
		}
		*place = out->width == sizeof(__u32) ? (__u32)value : value;
	}
}

SEC("uprobe")
int leave(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx);
	__u32 fn = (__u16)cookie, depth;
	struct probe_desc *desc = bpf_map_lookup_elem(&descs, &fn);
	struct thread *thread;
	struct ts_event *call;

	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0);
	if (!desc || !thread)
		return 0;
	/* Calls above ours never came back (a longjmp out of a callback): they are lost. */
	for (int i = 0; i < PROBE_DEPTH_MAX; i++) {
		depth = thread->depth - 1;
		if (depth >= PROBE_DEPTH_MAX)
			return 0;
		thread->depth = depth;
		call = &thread->call[depth];
		if (call->fn == (__u16)cookie) {
			call->end_ns = bpf_ktime_get_ns();
			call->result = (__s32)PT_REGS_RC(ctx);
			call->flags |= TS_EVENT_RETURNED;
			call_read_outs(desc, call);
			call_send(call, desc->flags);
			return 0;
		}
		COUNT(lost_calls);
	}
	return 0;
}

/* A thread that ends inside calls will not return from them. */
static __always_inline void thread_end(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);

	if (!thread)
		return;
	for (__u32 i = 0; i < PROBE_DEPTH_MAX && i < thread->depth; i++) {
		struct ts_event *call = &thread->call[i];

		call->flags |= TS_EVENT_UNFINISHED;
		call_send(call, PROBE_KEEP);
	}
	thread->depth = 0;
}

SEC("raw_tp/sched_process_exit")
int process_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	if (!process)
		return 0;
	if (process->watched)
		thread_end(task);
	if (BPF_CORE_READ(task, signal, live.counter) != 0)
		return 0;
	if (process->watched)
		process_send(TS_EVENT_EXIT, task, BPF_CORE_READ(task, exit_code));
	bpf_map_delete_elem(&processes, &tgid);
	return 0;
}

SEC("raw_tp/sched_process_exec")
int process_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct process *process = bpf_map_lookup_elem(&processes, &tgid);

	if (!process)
		return 0;
	if (process->watched)
		process_send(TS_EVENT_EXEC, task, 0);
	bpf_map_delete_elem(&processes, &tgid);
	bpf_task_storage_delete(&threads, task);
	return 0;
}
