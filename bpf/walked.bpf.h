/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* walked.bpf.h: the last walk of a thread, and whether another one would be the same.
 *
 * Where a walk by rules leads depends on nothing but its registers, the rules, and the words of the
 * stack that it went by: return addresses, and those of the saved frame pointers that a frame was
 * found with. As long as these are as they were, so is the stack. All of them are compared, so
 * this is never a guess. What a walk did not find may be there by now: it does not count.
 */
#ifndef TS_WALKED_BPF_H
#define TS_WALKED_BPF_H

#include "bpf/window.bpf.h"

#define WALKED_REGISTER 1 /* as `bp_at`: no address of a word */

static __always_inline void walked_begin(struct thread *thread, __u64 pc, __u64 sp, __u64 bp)
{
	struct walked *walked = &thread->walked;

	walked->pc = pc;
	walked->sp = sp;
	walked->bp = bp;
	walked->by_bp = 0;
	walked->count = 0;
	walked->generation = 0;
	thread->unwinding.bp_at = WALKED_REGISTER;
}

static __always_inline void walked_by_word(struct thread *thread, __u64 at, __u64 value)
{
	struct walked *walked = &thread->walked;
	__u64 n = walked->count;

	walked->count = n + 1;
	asm volatile("" : "+r"(n));
	if (n >= WALKED_WORDS)
		return;
	walked->word[n].at = at;
	walked->word[n].value = value;
}

/* A frame is found with RBP. Most values of it are none of a frame, and change. */
static __always_inline void walked_by_bp(struct thread *thread, __u64 bp)
{
	struct unwinding *unwinding = &thread->unwinding;
	__u64 at = unwinding->bp_at;

	if (at == WALKED_REGISTER)
		thread->walked.by_bp = 1;
	else if (at)
		walked_by_word(thread, at, bp);
	unwinding->bp_at = 0;
}

static __always_inline void walked_end(struct thread *thread)
{
	struct walked *walked = &thread->walked;

	if (walked->count <= WALKED_WORDS &&
	    (thread->end == TS_END_COMPLETE || thread->end == TS_END_DEPTH)) {
		walked->end = thread->unwinding.sp;
		walked->generation = thread->generation;
	}
}

/* Global, so that it is verified once and not for each word. */
__noinline int walked_fill(struct thread *thread, __u64 at)
{
	return thread && window_fill(thread, at, thread->walked.end, sizeof(thread->window));
}

static __always_inline bool walked_holds(struct thread *thread, __u64 pc, __u64 sp, __u64 bp)
{
	const struct walked *walked = &thread->walked;
	__u64 index;

	if (walked->generation != thread->generation || walked->pc != pc || walked->sp != sp ||
	    (walked->by_bp && walked->bp != bp))
		return false;
	for (__u32 i = 0; i < WALKED_WORDS && i < walked->count; i++) {
		index = (walked->word[i].at - thread->window_at) / sizeof(__u64);
		if (index >= thread->unwinding.words) {
			if (!walked_fill(thread, walked->word[i].at))
				return false;
			index = 0;
		}
		if (thread->window[index & (WINDOW_WORDS - 1)] != walked->word[i].value)
			return false;
	}
	return true;
}

#endif
