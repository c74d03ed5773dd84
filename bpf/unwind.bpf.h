/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* unwind.bpf.h: walks a stack by the rules of its functions, which the daemon has filed by address.
 *
 * A rule that is missing is asked for, with the registers and the stack as they are: the daemon
 * unwinds the rest and files what it has learned. As few addresses are ever on a stack, that soon
 * ends.
 */
#ifndef TS_UNWIND_BPF_H
#define TS_UNWIND_BPF_H

#include "bpf/known.bpf.h"

#define UNWIND_SECOND 1000000000
#define UNWIND_ADAPT  16 /* walks */

static __always_inline bool unwind_find(__u64 key, __u64 *ret)
{
	__u64 set = rule_set(key) & settings.rule_mask;
	volatile struct rule_slot *slot;

	asm volatile("" : "+r"(set));
	slot = &rules[set & (RULE_SLOTS - 2)];
	if (slot[0].key == key)
		*ret = slot[0].rule;
	else if (slot[1].key == key)
		*ret = slot[1].rule;
	else
		return false;
	return rule_check(*ret) == (__u16)(key >> 48); /* else it was replaced meanwhile */
}

static __always_inline bool unwind_rule(const struct unwinding *unwinding, __u64 *ret)
{
	return unwind_find(rule_key(unwinding->rules, unwinding->pc, unwinding->returned), ret) ||
	       unwind_find(rule_page_key(unwinding->rules, unwinding->pc), ret);
}

static __always_inline int unwind_signal(struct thread *thread)
{
	struct unwinding *unwinding = &thread->unwinding;
	__u64 sp = unwinding->sp;

	unwinding->bp_at = sp + 8 * RULE_SIGNAL_RBP;
	if (!window_word(thread, unwinding->bp_at, &unwinding->bp) ||
	    !window_word(thread, sp + 8 * RULE_SIGNAL_PC, &unwinding->pc) ||
	    !window_word(thread, sp + 8 * RULE_SIGNAL_RSP, &unwinding->sp))
		return TS_END_UNREADABLE;
	walked_by_word(thread, sp + 8 * RULE_SIGNAL_PC, unwinding->pc);
	walked_by_word(thread, sp + 8 * RULE_SIGNAL_RSP, unwinding->sp);
	unwinding->returned = 0;
	return 0;
}

/* From a frame to its caller's. */
static __always_inline int unwind_follow(struct thread *thread, struct rule rule)
{
	struct unwinding *unwinding = &thread->unwinding;
	bool by_sp = rule.kind == RULE_RSP || rule.kind == RULE_AT_RSP;
	__u64 bp = unwinding->bp, cfa, at;

	if (!by_sp || rule.rbp_kind == RULE_RBP_AT_RBP)
		walked_by_bp(thread, bp);
	cfa = (by_sp ? unwinding->sp : bp) + 8 * (__s64)rule.cfa;
	if (rule.kind >= RULE_AT_RSP) {
		at = cfa;
		if (!window_word(thread, at, &cfa))
			return TS_END_UNREADABLE;
		walked_by_word(thread, at, cfa);
	}
	if (cfa <= unwinding->sp)
		return TS_END_BAD;
	if (rule.rbp_kind == RULE_RBP_LOST) {
		unwinding->bp = unwinding->bp_at = 0;
	} else if (rule.rbp_kind != RULE_RBP_SAME) {
		at = (rule.rbp_kind == RULE_RBP_AT_CFA ? cfa : bp) + 8 * (__s64)rule.rbp;
		if (!window_word(thread, at, &unwinding->bp))
			return TS_END_UNREADABLE;
		unwinding->bp_at = at;
	}
	if (!window_word(thread, cfa - 8, &unwinding->pc))
		return TS_END_UNREADABLE;
	walked_by_word(thread, cfa - 8, unwinding->pc);
	unwinding->sp = cfa;
	unwinding->returned = 1;
	return unwinding->pc ? 0 : TS_END_COMPLETE;
}

/* Code without a rule, whose frame pointer led out of it once. What it leads to now is believed if
 * there is a rule for it: until then all that is needed to take the frames back is kept. */
static __always_inline int unwind_link(struct thread *thread)
{
	const struct rule link = {
		.kind = RULE_RBP, .cfa = 2, .rbp_kind = RULE_RBP_AT_CFA, .rbp = -2
	};
	struct unwinding *unwinding = &thread->unwinding;

	if (!unwinding->sure_count) {
		unwinding->sure_count = thread->frame_count;
		unwinding->sure_hash = unwinding->id;
		unwinding->sure_pc = unwinding->pc;
		unwinding->sure_sp = unwinding->sp;
		unwinding->sure_bp = unwinding->bp;
		unwinding->sure_returned = unwinding->returned;
	}
	return unwind_follow(thread, link);
}

static __always_inline void unwind_take_back(struct thread *thread)
{
	struct unwinding *unwinding = &thread->unwinding;

	thread->frame_count = unwinding->sure_count;
	unwinding->id = unwinding->sure_hash;
	unwinding->pc = unwinding->sure_pc;
	unwinding->sp = unwinding->sure_sp;
	unwinding->bp = unwinding->sure_bp;
	unwinding->returned = unwinding->sure_returned;
}

static __always_inline int unwind_by_rule(struct thread *thread, struct rule rule)
{
	struct unwinding *unwinding = &thread->unwinding;

	if (rule.kind == RULE_LINK)
		return unwind_link(thread);
	if (rule.kind == RULE_NONE)
		return rule.cfa == TS_END_NO_MAPPING ? TS_END_NO_MAPPING : TS_END_NO_RULE;
	if (unwinding->sure_count && rule.kind != RULE_BAD) {
		unwinding->sure_count = 0;
		thread->linked = 1;
	}
	switch (rule.kind) {
	case RULE_RSP:
	case RULE_RBP:
	case RULE_AT_RSP:
	case RULE_AT_RBP:
		return unwind_follow(thread, rule);
	case RULE_SIGNAL:
		return unwind_signal(thread);
	case RULE_END:
		return TS_END_COMPLETE;
	default:
		return TS_END_BAD;
	}
}

/* One frame, and to its caller's; the end, or 0. Global, so that it is verified once and not for
 * each frame of a stack. */
__noinline int unwind_step(struct thread *thread)
{
	struct unwinding *unwinding;
	__u64 packed, count;
	struct rule rule;

	if (!thread)
		return TS_END_BAD;
	unwinding = &thread->unwinding;
	count = thread->frame_count;
	if (count >= settings.stack_depth)
		return TS_END_DEPTH;
	asm volatile("" : "+r"(count));
	if (count >= TS_STACK_FRAMES_MAX)
		return TS_END_DEPTH;
	thread->frame[count] = unwinding->pc;
	thread->frame_count = count + 1;
	unwinding->id = stack_hash_frame(unwinding->id, unwinding->pc);
	if (!unwind_rule(unwinding, &packed)) /* what is missing beyond the depth is not wanted */
		return count + 1 < settings.stack_depth ? TS_END_MISSED : TS_END_DEPTH;
	rule = rule_unpack(packed);
	if (unwinding->returned)
		known_add(thread, unwinding->pc, rule);
	return unwind_by_rule(thread, rule);
}

/* Nothing of the main thread's frames is above what the kernel has put on the stack; and a thread's
 * descriptor is above its stack (glibc). */
static __always_inline __u64 unwind_top(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 ids = bpf_get_current_pid_tgid();

	return (__u32)ids == ids >> 32 ? task->mm->start_stack : task->thread.fsbase;
}

/* The next walk is to need one read: more than enough costs less than another one. */
static __always_inline void unwind_adapt(struct unwinding *unwinding, __u64 span)
{
	if (span >= sizeof(((struct thread *)0)->window))
		return;
	if (span < unwinding->span)
		span = unwinding->span - (unwinding->span - span) / UNWIND_ADAPT;
	unwinding->span = span;
}

/* Returns 1 if a rule is missing; the frames and their id are in the thread. */
__noinline int unwind_walk(struct thread *thread, __u64 pc, __u64 sp, __u64 bp, bool known)
{
	struct unwinding *unwinding;
	int end = 0;

	if (!thread)
		return 0;
	unwinding = &thread->unwinding;
	unwinding->id = 0;
	unwinding->sure_count = 0;
	unwinding->top = unwind_top();
	unwinding->bp = bp;
	thread->linked = 0;
	thread->frame[0] = pc;
	walked_begin(thread, pc, sp, bp);
	/* Nothing but the return address is on the stack at a function's entry. */
	if (!window_word(thread, sp, &unwinding->pc))
		return 0;
	walked_by_word(thread, sp, unwinding->pc);
	thread->frame_count = 1;
	unwinding->sp = sp + 8;
	unwinding->returned = 1;
	unwinding->id = stack_hash_frame(thread->seed, pc);
	for (int i = 0; i < TS_STACK_FRAMES_MAX && !end; i++) {
		end = known ? known_walk(thread) : 0;
		if (!end)
			end = unwind_step(thread);
	}
	unwind_adapt(unwinding, unwinding->sp - sp);
	if (unwinding->sure_count) {
		unwind_take_back(thread);
		if (end != TS_END_MISSED)
			end = TS_END_NO_MAPPING;
	}
	thread->end = end ? end : TS_END_DEPTH;
	unwinding->id = stack_hash_end(unwinding->id, thread->end);
	walked_end(thread);
	return thread->end == TS_END_MISSED;
}

/* The same, by the last walk if that still holds. */
__noinline int unwind_stack(struct thread *thread, __u64 pc, __u64 sp, __u64 bp)
{
	__u64 id;
	int missed;

	if (!thread)
		return 0;
	thread->unwinding.words = 0;
	known_renew(thread);
	if (walked_holds(thread, pc, sp, bp)) {
		COUNT(stacks_held);
		missed = 0;
	} else {
		missed = unwind_walk(thread, pc, sp, bp, true);
	}
	if (!settings.check_walks)
		return missed;
	id = thread->unwinding.id;
	missed |= unwind_walk(thread, pc, sp, bp, false);
	if (!missed && thread->unwinding.id != id)
		COUNT(stacks_wrong);
	return missed;
}

/* Once its stack is copied. */
static __always_inline void unwind_submit(const struct thread *thread, struct probe_miss *miss,
					  __u64 id, const bool lean)
{
	const struct unwinding *unwinding = &thread->unwinding;
	__u64 ids = bpf_get_current_pid_tgid();

	miss->kind = PROBE_MISS;
	miss->frame_count = thread->frame_count;
	miss->tgid = ids >> 32;
	miss->tid = (__u32)ids;
	miss->time_ns = bpf_ktime_get_ns();
	miss->id = id;
	miss->seed = thread->seed;
	miss->rules = unwinding->rules;
	miss->pc = unwinding->pc;
	miss->sp = unwinding->sp;
	miss->bp = unwinding->bp;
	miss->returned = unwinding->returned;
	miss->depth = settings.stack_depth;
	miss->python_count = thread->python_count;
	miss->lean = lean;
	bpf_probe_read_kernel(miss->frame, sizeof(miss->frame), thread->frame);
	if (!lean)
		bpf_probe_read_kernel(miss->python, sizeof(miss->python), thread->python_frame);
	/* The sooner it is answered, the fewer calls miss the same rule. */
	bpf_ringbuf_submit(miss, BPF_RB_FORCE_WAKEUP);
}

/* Sends up to `size` bytes of the stack; a constant, as the ring wants it. */
static __always_inline int unwind_send(struct thread *thread, __u64 id, __u64 wanted,
				       const __u32 size, const bool lean)
{
	const __u32 head = lean ? PROBE_MISS_LEAN : sizeof(struct probe_miss);
	__u64 sp = thread->unwinding.sp;
	struct probe_miss *miss;

	miss = bpf_ringbuf_reserve(&events, head + size, 0);
	if (!miss)
		return -1;
	if (wanted > size)
		wanted = size;
	asm volatile("" : "+r"(wanted));
	if (wanted > size || bpf_probe_read_user((__u8 *)miss + head, wanted, (void *)sp)) {
		bpf_ringbuf_discard(miss, BPF_RB_NO_WAKEUP);
		return -1;
	}
	miss->size = wanted;
	miss->missing = 0;
	miss->at = sp;
	unwind_submit(thread, miss, id, lean);
	return 0;
}

/* Sends what there is: a page of a large array that was never touched is missing, as is one that
 * has been swapped out. */
__noinline int unwind_send_pages(struct thread *thread, __u64 id)
{
	__u64 at, left, size;
	struct probe_miss *miss;

	if (!thread)
		return -1;
	at = thread->unwinding.sp & ~(PROBE_MISS_PAGE - 1ull);
	left = window_readable(thread->unwinding.sp, thread->unwinding.top) +
	       (thread->unwinding.sp - at);
	miss = bpf_ringbuf_reserve(&events, sizeof(*miss) + PROBE_MISS_STACK_MAX, 0);
	if (!miss)
		return -1;
	if (left > PROBE_MISS_STACK_MAX)
		left = PROBE_MISS_STACK_MAX;
	miss->size = left;
	miss->missing = 0;
	miss->at = at;
	for (__u32 i = 0; i < PROBE_MISS_STACK_MAX / PROBE_MISS_PAGE; i++) {
		size = left < PROBE_MISS_PAGE ? left : PROBE_MISS_PAGE;
		left -= size;
		asm volatile("" : "+r"(size));
		if (size > PROBE_MISS_PAGE ||
		    bpf_probe_read_user(miss->stack + i * PROBE_MISS_PAGE, size,
					(void *)(at + i * PROBE_MISS_PAGE)))
			miss->missing |= 1u << i;
	}
	unwind_submit(thread, miss, id, false);
	return 0;
}

__noinline int unwind_send_stack(struct thread *thread, __u64 id)
{
	__u64 size;

	if (!thread)
		return -1;
	size = window_readable(thread->unwinding.sp, thread->unwinding.top);
	/* A small program asks fastest. */
	if (!thread->python_count && size <= 1024)
		return unwind_send(thread, id, size, 1024, true);
	if (!thread->python_count && size <= 4096)
		return unwind_send(thread, id, size, 4096, true);
	if (size <= 4096)
		return unwind_send(thread, id, size, 4096, false);
	if (size <= 8192)
		return unwind_send(thread, id, size, 8192, false);
	if (size <= 12288)
		return unwind_send(thread, id, size, 12288, false);
	if (size <= 20480)
		return unwind_send(thread, id, size, 20480, false);
	return unwind_send(thread, id, size, PROBE_MISS_STACK_MAX, false);
}

/* A process may ask for many stacks at once, as long as few are known, but not for ever: one that
 * compiles code all the time, or jumps to and fro between programs of its own making, has always
 * new ones. And all of them together may not keep the daemon busy. */
static __always_inline bool unwind_may_ask(__u64 now)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct probe_process *process = bpf_map_lookup_elem(&processes, &tgid);
	__u64 more;

	if (!process)
		return false;
	more = (now - process->asked_ns) / (UNWIND_SECOND / PROBE_MISSES_PER_S);
	if (more) {
		more += process->may_ask;
		process->may_ask = more < PROBE_MISSES_MAX ? more : PROBE_MISSES_MAX;
		process->asked_ns = now;
	}
	/* Threads that do this at once may be one too many. */
	if (!process->may_ask)
		return false;
	process->may_ask--;
	if ((__s64)(now - asked_ns) >= UNWIND_SECOND) {
		asked_ns = now;
		asked = 0;
	}
	return __sync_fetch_and_add(&asked, 1) < PROBE_MISSES_HOST_PER_S;
}

/* Asks for a stack to be unwound, and gives it an id for now; 0: not asked. */
static __always_inline __u64 unwind_miss(struct thread *thread)
{
	__u64 id;

	if (bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > ring_bytes / 4 * 3 ||
	    !unwind_may_ask(bpf_ktime_get_ns()))
		return 0;
	id = (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32() | 1;
	if (unwind_send_stack(thread, id) && unwind_send_pages(thread, id))
		return 0;
	return id;
}

#endif
