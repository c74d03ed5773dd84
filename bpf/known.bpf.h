/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* known.bpf.h: the rules that a thread's stacks have met, in its own storage.
 *
 * A program comes back to the same few hundred return addresses. Here their rules are together, not
 * spread over an array for all processes, and most frames are passed without a call: what is not
 * usual (a rule that is not here, another piece of the stack, an end) is left to unwind_step().
 */
#ifndef TS_KNOWN_BPF_H
#define TS_KNOWN_BPF_H

#include "bpf/walked.bpf.h"

/* A rule in 8 bytes with the address that it is for, whose low bits follow from its place. */
#define KNOWN_CFA_BITS	15
#define KNOWN_CFA_MASK	((1 << KNOWN_CFA_BITS) - 1)
#define KNOWN_RBP_BITS	8
#define KNOWN_RBP	KNOWN_CFA_BITS
#define KNOWN_RBP_KIND	(KNOWN_RBP + KNOWN_RBP_BITS)
#define KNOWN_BY_BP	(KNOWN_RBP_KIND + 2)
#define KNOWN_ADDRESS	(KNOWN_BY_BP + 1)
#define KNOWN_SET_BITS	9
#define KNOWN_CODE_BITS 47 /* in an address of code */

_Static_assert(KNOWN_SLOTS == 2 << KNOWN_SET_BITS, "sets of two");
_Static_assert(64 - KNOWN_ADDRESS + KNOWN_SET_BITS == KNOWN_CODE_BITS, "no other address fits");

static __always_inline __u64 *known_set(struct thread *thread, __u64 pc)
{
	__u64 set = pc ^ pc >> KNOWN_SET_BITS ^ pc >> 2 * KNOWN_SET_BITS;

	return &thread->known[2 * set & (KNOWN_SLOTS - 2)];
}

static __always_inline bool known_find(struct thread *thread, __u64 pc, __u64 *ret)
{
	const __u64 *set = known_set(thread, pc);

	*ret = set[0];
	if (*ret >> KNOWN_ADDRESS == pc >> KNOWN_SET_BITS)
		return true;
	*ret = set[1];
	return *ret >> KNOWN_ADDRESS == pc >> KNOWN_SET_BITS;
}

static __always_inline __s64 known_signed(__u64 known, __u32 at, __u32 bits)
{
	return (__s64)(known << (64 - at - bits)) >> (64 - bits);
}

/* The outermost function's rule goes nowhere. */
static __always_inline void known_add(struct thread *thread, __u64 pc, struct rule rule)
{
	__u64 *set = known_set(thread, pc), cfa, rbp;

	if (rule.kind == RULE_END)
		rule = (struct rule){ .kind = RULE_RSP };
	else if ((rule.kind != RULE_RSP && rule.kind != RULE_RBP) || !rule.cfa ||
		 rule.rbp_kind == RULE_RBP_LOST)
		return;
	cfa = (__u64)rule.cfa & KNOWN_CFA_MASK;
	rbp = (__u64)rule.rbp & ((1 << KNOWN_RBP_BITS) - 1);
	if (pc >> KNOWN_CODE_BITS || known_signed(cfa, 0, KNOWN_CFA_BITS) != rule.cfa ||
	    known_signed(rbp, 0, KNOWN_RBP_BITS) != rule.rbp)
		return;
	set[1] = set[0];
	set[0] = cfa | rbp << KNOWN_RBP | (__u64)rule.rbp_kind << KNOWN_RBP_KIND |
		 (__u64)(rule.kind == RULE_RBP) << KNOWN_BY_BP |
		 pc >> KNOWN_SET_BITS << KNOWN_ADDRESS;
}

/* Other rules are valid now. */
static __always_inline void known_renew(struct thread *thread)
{
	volatile __u64 *known = thread->known;

	if (thread->known_rules == thread->unwinding.rules)
		return;
	thread->known_rules = thread->unwinding.rules;
	for (__u32 i = 0; i < KNOWN_SLOTS; i++)
		known[i] = 0;
}

static __always_inline bool known_word(struct thread *thread, __u64 at, __u64 *value)
{
	__u64 index = (at - thread->window_at) / sizeof(__u64);

	if (at & 7 || index >= thread->unwinding.words)
		return false;
	*value = thread->window[index & (WINDOW_WORDS - 1)];
	return true;
}

/* Goes on from frame to frame as far as it can; the end, or 0. Where frame pointers are being
 * tried, and where a signal has interrupted code, it does not. */
__noinline int known_walk(struct thread *thread)
{
	struct unwinding *unwinding;
	__u64 pc, sp, bp, id, count, known, kind, cfa, at, caller;
	bool by_bp;
	int end = 0;

	if (!thread || thread->unwinding.sure_count || !thread->unwinding.returned)
		return 0;
	unwinding = &thread->unwinding;
	pc = unwinding->pc;
	sp = unwinding->sp;
	bp = unwinding->bp;
	id = unwinding->id;
	count = thread->frame_count;
	for (__u32 i = 0; i < TS_STACK_FRAMES_MAX && !end; i++, count++) {
		if (count >= settings.stack_depth || !known_find(thread, pc, &known))
			break;
		asm volatile("" : "+r"(count));
		if (count >= TS_STACK_FRAMES_MAX)
			break;
		thread->frame[count] = pc;
		if (!(known & KNOWN_CFA_MASK)) {
			id = stack_hash_frame(id, pc);
			end = TS_END_COMPLETE;
			continue;
		}
		by_bp = known >> KNOWN_BY_BP & 1;
		cfa = (by_bp ? bp : sp) + 8 * known_signed(known, 0, KNOWN_CFA_BITS);
		if (cfa <= sp || !known_word(thread, cfa - 8, &caller) || !caller)
			break;
		kind = known >> KNOWN_RBP_KIND & 3;
		if (by_bp || kind == RULE_RBP_AT_RBP)
			walked_by_bp(thread, bp);
		if (kind != RULE_RBP_SAME) {
			at = (kind == RULE_RBP_AT_CFA ? cfa : bp) +
			     8 * known_signed(known, KNOWN_RBP, KNOWN_RBP_BITS);
			if (!known_word(thread, at, &bp))
				break;
			unwinding->bp_at = at;
		}
		walked_by_word(thread, cfa - 8, caller);
		id = stack_hash_frame(id, pc);
		pc = caller;
		sp = cfa;
	}
	unwinding->pc = pc;
	unwinding->sp = sp;
	unwinding->bp = bp;
	unwinding->id = id;
	thread->frame_count = count;
	return end;
}

#endif
