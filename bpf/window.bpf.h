/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* window.bpf.h: the piece of a thread's stack that has been read last.
 *
 * Reading user memory is the main cost of a walk, and one that fails costs as much as many that do
 * not: so as much is read at once as the last walk needed, and nothing above the stack's top.
 */
#ifndef TS_WINDOW_BPF_H
#define TS_WINDOW_BPF_H

#include "bpf/common.bpf.h"

#define WINDOW_TOP_FAR	(64 << 20) /* a top that is further away is not that of this stack */
#define WINDOW_READ_MIN 1024
#define WINDOW_PAGE	4096

static __always_inline __u64 window_readable(__u64 at, __u64 top)
{
	__u64 left = top - at;

	return left < WINDOW_TOP_FAR ? left : WINDOW_PAGE - (at & (WINDOW_PAGE - 1));
}

static __always_inline bool window_read(struct thread *thread, __u64 at, __u64 size)
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

/* Has the word at `at` in the window, at its start, and up to `most` bytes, but nothing above
 * `top`. Where a page was never touched, as in a large array, windows end from then on. */
static __always_inline bool window_fill(struct thread *thread, __u64 at, __u64 top, __u64 most)
{
	__u64 size = window_readable(at, top), hole = thread->window_hole - at;

	if (size > most)
		size = most;
	if (hole && size > hole)
		size = hole;
	if (window_read(thread, at, size))
		return thread->unwinding.words;
	COUNT(unread_stacks);
	hole = WINDOW_PAGE - (at & (WINDOW_PAGE - 1));
	thread->window_hole = at + hole;
	return window_read(thread, at, hole) && thread->unwinding.words;
}

static __always_inline bool window_word(struct thread *thread, __u64 at, __u64 *value)
{
	struct unwinding *unwinding = &thread->unwinding;
	__u64 index = (at - thread->window_at) / sizeof(__u64);

	if (at & 7)
		return false;
	if (index >= unwinding->words) {
		if (!window_fill(thread, at, unwinding->top, unwinding->span + WINDOW_READ_MIN))
			return false;
		index = 0;
	}
	*value = thread->window[index & (WINDOW_WORDS - 1)];
	return true;
}

#endif
