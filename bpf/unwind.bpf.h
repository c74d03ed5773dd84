/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* unwind.bpf.h: walks a stack by the rules of its functions, which the daemon has filed by address.
 *
 * A rule that is missing is asked for, with the registers and the stack as they are: the daemon
 * unwinds the rest and files what it has learned. As few addresses are ever on a stack, that soon
 * ends.
 */
#ifndef TS_UNWIND_BPF_H
#define TS_UNWIND_BPF_H

#include "bpf/common.bpf.h"

#define UNWIND_TOP_FAR	(64 << 20) /* a top that is further away is not that of this stack */
#define UNWIND_READ_MIN 1024
#define UNWIND_PAGE	4096
#define UNWIND_SECOND	1000000000

/* How much of the stack may be read at once. A read that fails costs as much as many that do not.
 */
static __always_inline __u64 unwind_readable(const struct unwinding *unwinding, __u64 at)
{
	__u64 left = unwinding->top - at;

	return left < UNWIND_TOP_FAR ? left : UNWIND_PAGE - (at & (UNWIND_PAGE - 1));
}

static __always_inline bool unwind_read(struct thread *thread, __u64 at, __u64 size)
{
	if (size > sizeof(thread->window))
		size = sizeof(thread->window);
	/* The register that was checked is the one that is used. */
	asm volatile("" : "+r"(size));
	if (size > sizeof(thread->window) ||
	    bpf_probe_read_user(thread->window, size, (void *)at)) {
		thread->unwinding.words = 0;
		return false;
	}
	thread->window_at = at;
	thread->unwinding.words = size / sizeof(__u64);
	return true;
}

static __always_inline bool unwind_word(struct thread *thread, __u64 at, __u64 *value)
{
	struct unwinding *unwinding = &thread->unwinding;
	__u64 index = (at - thread->window_at) / sizeof(__u64), size;

	if (at & 7)
		return false;
	if (index >= unwinding->words) {
		size = unwind_readable(unwinding, at);
		if (size > unwinding->span + UNWIND_READ_MIN)
			size = unwinding->span + UNWIND_READ_MIN;
		if (!unwind_read(thread, at, size)) {
			COUNT(unread_stacks);
			if (!unwind_read(thread, at, sizeof(__u64)))
				return false;
		}
		if (!unwinding->words)
			return false;
		index = 0;
	}
	*value = thread->window[index & (WINDOW_WORDS - 1)];
	return true;
}

static __always_inline bool unwind_rule(const struct unwinding *unwinding, __u64 *ret)
{
	__u64 key = rule_key(unwinding->rules, unwinding->pc, unwinding->returned);
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

static __always_inline int unwind_signal(struct thread *thread)
{
	struct unwinding *unwinding = &thread->unwinding;
	__u64 sp = unwinding->sp;

	if (!unwind_word(thread, sp + 8 * RULE_SIGNAL_RBP, &unwinding->bp) ||
	    !unwind_word(thread, sp + 8 * RULE_SIGNAL_PC, &unwinding->pc) ||
	    !unwind_word(thread, sp + 8 * RULE_SIGNAL_RSP, &unwinding->sp))
		return TS_END_UNREADABLE;
	unwinding->returned = 0;
	return 0;
}

/* From a frame to its caller's. */
static __always_inline int unwind_follow(struct thread *thread, struct rule rule)
{
	struct unwinding *unwinding = &thread->unwinding;
	__u64 bp = unwinding->bp, cfa;

	cfa = (rule.kind == RULE_RSP || rule.kind == RULE_AT_RSP ? unwinding->sp : bp) +
	      8 * (__s64)rule.cfa;
	if (rule.kind >= RULE_AT_RSP && !unwind_word(thread, cfa, &cfa))
		return TS_END_UNREADABLE;
	if (cfa <= unwinding->sp)
		return TS_END_BAD;
	if (rule.rbp_kind == RULE_RBP_LOST) {
		unwinding->bp = 0;
	} else if (rule.rbp_kind != RULE_RBP_SAME) {
		if (rule.rbp_kind == RULE_RBP_AT_CFA)
			bp = cfa;
		if (!unwind_word(thread, bp + 8 * (__s64)rule.rbp, &unwinding->bp))
			return TS_END_UNREADABLE;
	}
	if (!unwind_word(thread, cfa - 8, &unwinding->pc))
		return TS_END_UNREADABLE;
	unwinding->sp = cfa;
	unwinding->returned = 1;
	return unwinding->pc ? 0 : TS_END_COMPLETE;
}

/* The end, or 0. Global, so that it is verified once and not for each frame of a stack. */
__noinline int unwind_step(struct thread *thread)
{
	struct rule rule;
	__u64 packed;

	if (!thread)
		return TS_END_BAD;
	if (!unwind_rule(&thread->unwinding, &packed))
		return TS_END_MISSED;
	rule = rule_unpack(packed);
	switch (rule.kind) {
	case RULE_RSP:
	case RULE_RBP:
	case RULE_AT_RSP:
	case RULE_AT_RBP:
		return unwind_follow(thread, rule);
	case RULE_LINK:
		rule = (struct rule){
			.kind = RULE_RBP, .cfa = 2, .rbp_kind = RULE_RBP_AT_CFA, .rbp = -2
		};
		thread->linked = 1;
		return unwind_follow(thread, rule);
	case RULE_SIGNAL:
		return unwind_signal(thread);
	case RULE_END:
		return TS_END_COMPLETE;
	case RULE_NONE:
		return rule.cfa == TS_END_NO_MAPPING ? TS_END_NO_MAPPING : TS_END_NO_RULE;
	default:
		return TS_END_BAD;
	}
}

/* Nothing of the main thread's frames is above what the kernel has put on the stack; and a thread's
 * descriptor is above its stack (glibc). */
static __always_inline __u64 unwind_top(void)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 ids = bpf_get_current_pid_tgid();

	return (__u32)ids == ids >> 32 ? BPF_CORE_READ(task, mm, start_stack)
				       : BPF_CORE_READ(task, thread.fsbase);
}

/* Returns 1 if a rule is missing; the frames and their id are in the thread. */
__noinline int unwind_stack(struct thread *thread, __u64 pc, __u64 sp, __u64 bp)
{
	struct unwinding *unwinding;
	__u32 count = 1, depth = settings.stack_depth;
	int end = 0;
	__u64 hash;

	if (!thread)
		return 0;
	unwinding = &thread->unwinding;
	unwinding->id = 0;
	unwinding->words = 0;
	unwinding->top = unwind_top();
	unwinding->bp = bp;
	thread->linked = 0;
	thread->frame[0] = pc;
	/* Nothing but the return address is on the stack at a function's entry. */
	if (!unwind_word(thread, sp, &unwinding->pc))
		return 0;
	unwinding->sp = sp + 8;
	unwinding->returned = 1;
	hash = probe_hash_frame(thread->seed, pc);
	for (; count < TS_STACK_FRAMES_MAX && count < depth && !end; count++) {
		thread->frame[count] = unwinding->pc;
		hash = probe_hash_frame(hash, unwinding->pc);
		end = unwind_step(thread);
	}
	if (unwinding->sp - sp < sizeof(thread->window))
		unwinding->span = unwinding->sp - sp;
	/* What is missing is not what is asked for. */
	if (!end || (end == TS_END_MISSED && count >= depth))
		end = TS_END_DEPTH;
	thread->frame_count = count;
	thread->end = end;
	unwinding->id = probe_hash_end(hash, end);
	return end == TS_END_MISSED;
}

/* Sends up to `size` bytes of the stack; a constant, as the ring wants it. */
static __always_inline int unwind_send(struct thread *thread, __u64 id, __u64 wanted,
				       const __u32 size)
{
	const struct unwinding *unwinding = &thread->unwinding;
	__u64 ids = bpf_get_current_pid_tgid();
	struct probe_miss *miss;

	miss = bpf_ringbuf_reserve(&events, sizeof(*miss) + size, 0);
	if (!miss)
		return -1;
	if (wanted > size)
		wanted = size;
	asm volatile("" : "+r"(wanted));
	if (wanted > size || bpf_probe_read_user(miss->stack, wanted, (void *)unwinding->sp)) {
		bpf_ringbuf_discard(miss, BPF_RB_NO_WAKEUP);
		return -1;
	}
	miss->kind = PROBE_MISS;
	miss->frame_count = thread->frame_count;
	miss->size = wanted;
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
	bpf_probe_read_kernel(miss->frame, sizeof(miss->frame), thread->frame);
	/* The sooner it is answered, the fewer calls miss the same rule. */
	bpf_ringbuf_submit(miss, BPF_RB_FORCE_WAKEUP);
	return 0;
}

__noinline int unwind_send_stack(struct thread *thread, __u64 id)
{
	__u64 size;

	if (!thread)
		return -1;
	size = unwind_readable(&thread->unwinding, thread->unwinding.sp);
	if (size <= 4096)
		return unwind_send(thread, id, size, 4096);
	if (size <= 12288)
		return unwind_send(thread, id, size, 12288);
	return unwind_send(thread, id, size, PROBE_MISS_STACK_MAX);
}

/* Asks for a stack to be unwound, and gives it an id for now; 0: not asked. Code that is compiled
 * anew all the time has no rules to be learned: each thread asks for a limited number. */
static __always_inline __u64 unwind_miss(struct thread *thread)
{
	struct unwinding *unwinding = &thread->unwinding;
	__u64 now = bpf_ktime_get_ns(), id;

	if (now - unwinding->misses_ns > UNWIND_SECOND) {
		unwinding->misses_ns = now;
		unwinding->misses = 0;
	}
	if (unwinding->misses >= PROBE_MISSES_MAX ||
	    bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > ring_bytes / 2)
		return 0;
	unwinding->misses++;
	id = (__u64)bpf_get_prandom_u32() << 32 | bpf_get_prandom_u32() | 1;
	if (unwind_send_stack(thread, id))
		return 0;
	return id;
}

#endif
