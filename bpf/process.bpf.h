/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* process.bpf.h: decides which processes are watched, and announces them. */
#ifndef TS_PROCESS_BPF_H
#define TS_PROCESS_BPF_H

#include "bpf/common.bpf.h"

#define USER_NAMESPACES_MAX 33	     /* in each other: the kernel's limit */
#define TICK_NS		    10000000 /* USER_HZ */

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

/* Its number in its own PID namespace. */
static __always_inline __u32 task_own_pid(struct task_struct *task)
{
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	__u32 level = BPF_CORE_READ(pid, level);
	__u32 nr = 0;

	/* Our struct upid differs in size from the kernel's, so a plain index would be wrong. */
	bpf_core_read(&nr, sizeof(nr),
		      (char *)pid + bpf_core_field_offset(struct pid, numbers) +
			      level * bpf_core_type_size(struct upid) +
			      bpf_core_field_offset(struct upid, nr));
	return nr;
}

/* Who made the user namespace below the first one that it is in, as daemon/proc/owner.h has it. */
static __noinline __u32 task_owner(struct task_struct *task)
{
	struct user_namespace *ns = BPF_CORE_READ(task, cred, user_ns);
	int level = BPF_CORE_READ(ns, level);

	if (level < 1)
		return 0;
	for (int i = 0; i < USER_NAMESPACES_MAX && level > 1; i++) {
		ns = BPF_CORE_READ(ns, parent);
		level = BPF_CORE_READ(ns, level);
	}
	return BPF_CORE_READ(ns, owner.val);
}

static __always_inline void process_fill(struct ts_event *ev, __u16 kind, struct task_struct *task)
{
	struct task_struct *leader = BPF_CORE_READ(task, group_leader);

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
	ev->process.owner = task_owner(leader);
	ev->process.ns_pid = task_own_pid(leader);
	bpf_probe_read_kernel_str(ev->process.comm, sizeof(ev->process.comm), &leader->comm);
}

/* As much as fits; none if the program has given up the pages. */
static __always_inline void process_fill_command(struct probe_announcement *announcement,
						 struct task_struct *task)
{
	__u64 start = BPF_CORE_READ(task, mm, arg_start);
	__u64 size = BPF_CORE_READ(task, mm, arg_end) - start;

	if (size > sizeof(announcement->command))
		size = sizeof(announcement->command);
	announcement->command_size = size;
	if (bpf_probe_read_user(announcement->command, size, (void *)start))
		announcement->command_size = 0;
}

/* The task runs a program that nobody knows yet. */
static __always_inline int process_announce(__u16 kind, struct task_struct *task)
{
	struct probe_announcement *announcement;

	announcement = bpf_ringbuf_reserve(&events, sizeof(*announcement), 0);
	if (!announcement) {
		LOSE(processes_lost);
		return -1;
	}
	process_fill(&announcement->event, kind, task);
	process_fill_command(announcement, task);
	/* The daemon reads from /proc what only /proc has, while the process is there. */
	bpf_ringbuf_submit(announcement, BPF_RB_FORCE_WAKEUP);
	return 0;
}

static __always_inline void process_send_exit(struct task_struct *task)
{
	struct ts_event *ev;
	__u64 wake;

	ring_has_room(true, &wake);
	ev = bpf_ringbuf_reserve(&events, sizeof(*ev), 0);
	if (!ev) {
		LOSE(processes_lost);
		return;
	}
	process_fill(ev, TS_EVENT_EXIT, task);
	ev->process.exit_code = BPF_CORE_READ(task, exit_code);
	bpf_ringbuf_submit(ev, wake);
}

/* Equal stacks of one run of a program have the same id, even across restarts of the daemon. */
static __always_inline __u64 process_seed(struct task_struct *task)
{
	__u64 seed = BPF_CORE_READ(task, group_leader, start_boottime);

	seed += BPF_CORE_READ(task, self_exec_id) << 48;
	seed ^= (__u64)BPF_CORE_READ(task, tgid) << 32;
	seed *= 0x9e3779b97f4a7c15;
	return seed ^ seed >> 29;
}

static __always_inline bool task_is_named(struct task_struct *task)
{
	static const char name[] = TS_THREAD_NAME;
	char comm[TS_COMM_SIZE] = {};

	bpf_probe_read_kernel_str(comm, sizeof(comm), &task->comm);
	for (__u32 i = 0; i < sizeof(name); i++)
		if (comm[i] != name[i])
			return false;
	return true;
}

/* Threads of the injected library, and those that CUPTI creates from them, carry its name. If the
 * program itself has that name, it is ignored. A program can only hide its own calls this
 * way. */
static __always_inline bool task_is_ours(struct task_struct *task)
{
	return task_is_named(task) && !task_is_named(BPF_CORE_READ(task, group_leader));
}

/* Stacks of the same addresses are others in each of its epochs. */
static __always_inline void process_seeds(struct probe_process *known)
{
	__u64 epochs = (__u64)known->epochs.ids << 32 | known->epochs.rules;

	known->rules =
		rule_seed(known->seed, rules_secret + settings.rule_epoch, known->epochs.rules);
	known->ids = epochs ? stack_hash_frame(known->seed, epochs) : known->seed;
}

/* Not within thread_decide(): that is as deep in the stack as a 6.1 verifier allows. */
__noinline int thread_find_python(struct thread *thread)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 started_ns = BPF_CORE_READ(task, group_leader, start_boottime);
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct ts_python *python = bpf_map_lookup_elem(&pythons, &tgid);

	if (!thread)
		return 0;
	thread->python.size = thread->python.autograd.module = 0;
	thread->autograd.block = thread->autograd.thread = 0;
	thread->autograd.known = thread->autograd.tries = 0;
	/* Else it is of another process, which has ended. */
	if (python && python->started_ticks == started_ns / TICK_NS)
		thread->python = *python;
	return 0;
}

/* Decides once per thread and filter generation whether the process is watched, and announces the
 * process before its first event; 0: it could not. Two threads may both announce it, which is
 * harmless; an event before the announcement would not be. */
__noinline int thread_decide(struct thread *thread)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct probe_process known = {};
	struct probe_process *process;
	bool announce = tgid != settings.calibrated;
	/* Read once: what changes meanwhile is decided at the next hit. */
	__u32 generation = *(volatile __u32 *)&settings.generation;
	struct probe_epochs *epochs;
	__u32 *choice;

	if (!thread)
		return 0;
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (process)
		known = *process;
	if (known.generation != generation) {
		known.generation = generation;
		known.seed = process_seed(task);
		epochs = bpf_map_lookup_elem(&mappings, &tgid);
		if (epochs)
			known.epochs = *epochs;
		process_seeds(&known);
		known.watched = !announce || process_wanted(tgid, (__u32)bpf_get_current_uid_gid());
		announce &= known.watched;
		if (announce && !known.announced && process_announce(TS_EVENT_PROCESS, task))
			return 0;
		known.announced |= announce;
		if (bpf_map_update_elem(&processes, &tgid, &known, BPF_ANY))
			LOSE(processes_lost);
	}
	choice = bpf_map_lookup_elem(&choices, &tgid);
	thread->choice = choice ? *choice : PROBE_CHOICE_DEFAULT;
	thread->unwinding.rules = known.rules;
	thread->ns_tid = task_own_pid(task);
	thread->seed = known.ids;
	thread->watched = known.watched;
	thread->own = task_is_ours(task);
	thread->generation = generation;
	return 1;
}

static __always_inline struct thread *thread_get(void)
{
	struct thread *thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL,
						     BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!thread)
		LOSE(lost_calls);
	return thread;
}

static __always_inline bool thread_is_watched(struct thread *thread)
{
	if (thread->generation != settings.generation) {
		thread_find_python(thread);
		if (!thread_decide(thread)) {
			LOSE(dropped_kept);
			return false;
		}
	}
	return thread->watched;
}

#endif
