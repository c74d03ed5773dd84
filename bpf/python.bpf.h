/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* python.bpf.h: the frames of Python of the thread that is in a probe.
 *
 * A thread's state is found through the key of PyGILState, which has it also while the thread does
 * not hold the GIL. From there on frames are linked. Nothing that is read is believed: an address
 * is only ever read from, and the frames are at most TS_STACK_PYTHON_MAX.
 */
#ifndef TS_PYTHON_BPF_H
#define TS_PYTHON_BPF_H

#include "bpf/freed.bpf.h"

#define PYTHON_PAGE 4096

/* Frames lie behind each other, innermost last, so they are read a page at a time, up to the one
 * that is needed: behind that there may be nothing. */
static __always_inline bool python_read(struct python_walk *walk, __u64 at, __u64 size)
{
	__u64 end = at + size, from = at & ~(PYTHON_PAGE - 1ull), bytes;

	if (end - from > sizeof(walk->window))
		from = end - sizeof(walk->window);
	bytes = end - from;
	/* The register that was checked is the one that is used. */
	asm volatile("" : "+r"(bytes));
	if (bytes > sizeof(walk->window) ||
	    bpf_probe_read_user(walk->window, bytes, (void *)from)) {
		walk->words = 0;
		return false;
	}
	walk->window_at = from;
	walk->words = bytes / sizeof(__u64);
	return true;
}

static __always_inline bool python_check(struct thread *thread, struct ts_python_frame *frame)
{
	__u64 *word = thread->python_walk.code;

	if (freed_knows(thread, frame))
		return true;
	if (bpf_probe_read_user(word, sizeof(thread->python_walk.code),
				(void *)(frame->code + thread->python.check)))
		return false;
	frame->check = stack_hash_code(word);
	freed_keep(thread, frame);
	return true;
}

/* The frame that has been added last is where the interpreter was entered, or none has been since
 * then: it has left the function, and is about to return to who entered it. */
static __always_inline void python_add_entry(struct thread *thread)
{
	__u32 count = thread->python_count;
	struct ts_python_frame *frame =
		&thread->python_frame[(count - 1) & (TS_STACK_PYTHON_MAX - 1)];

	if (count && !(frame->position & TS_PYTHON_ENTRY)) {
		frame->position |= TS_PYTHON_ENTRY;
		return;
	}
	frame = &thread->python_frame[count & (TS_STACK_PYTHON_MAX - 1)];
	frame->code = frame->check = 0;
	frame->position = TS_PYTHON_ENTRY;
	thread->python_count = count + 1;
	thread->python_walk.hash = stack_hash_python(thread->python_walk.hash, frame);
}

static __always_inline bool python_add(struct thread *thread, __u64 code, __u64 position,
				       bool entry)
{
	const struct ts_python *python = &thread->python;
	__u32 count = thread->python_count;
	struct ts_python_frame *frame = &thread->python_frame[count & (TS_STACK_PYTHON_MAX - 1)];

	frame->code = code;
	frame->position = python->index ? (__u32)position : position & ~TS_PYTHON_FLAGS;
	if (entry)
		frame->position |= TS_PYTHON_ENTRY;
	if (!python_check(thread, frame))
		return false;
	thread->python_count = count + 1;
	thread->python_walk.hash = stack_hash_python(thread->python_walk.hash, frame);
	return true;
}

/* Adds a frame, and goes to its caller. False: there is none, or it cannot be read, and `at` stays.
 * Global, so that it is verified once and not for each frame. */
__noinline int python_step(struct thread *thread)
{
	const struct ts_python *python;
	struct python_walk *walk;
	__u64 index, at, code, mark;

	if (!thread)
		return 0;
	python = &thread->python;
	walk = &thread->python_walk;
	at = walk->at;
	index = (at - walk->window_at) / sizeof(__u64);
	if (at & 7)
		return 0;
	if (index + python->size > walk->words || index > walk->words) {
		if (!python_read(walk, at, (__u64)python->size * sizeof(__u64)))
			return 0;
		index = (at - walk->window_at) / sizeof(__u64);
	}
	code = walk->window[(index + python->code) & (PYTHON_WORDS - 1)] & ~(__u64)python->tags;
	mark = walk->window[(index + python->mark) & (PYTHON_WORDS - 1)] >>
		       (python->mark_shift & 63) &
	       255;
	walk->at = walk->window[(index + python->previous) & (PYTHON_WORDS - 1)];
	if (python->marks == TS_PYTHON_SHIMS && mark == TS_PYTHON_SHIM) {
		python_add_entry(thread);
		return 1;
	}
	if (python_add(thread, code, walk->window[(index + python->position) & (PYTHON_WORDS - 1)],
		       python->marks == TS_PYTHON_ALL ||
			       (python->marks == TS_PYTHON_ENTERED && mark)))
		return 1;
	walk->at = at;
	return 0;
}

/* The innermost frame of the thread. In some versions a variable of the interpreter's loop points
 * to it, which lies in the stack that has just been read. */
static __always_inline bool python_innermost(struct thread *thread, __u64 *ret)
{
	const struct ts_python *python = &thread->python;
	const struct task_struct *task = bpf_get_current_task_btf();
	__u64 base = BPF_CORE_READ(task, thread.fsbase), at = 0, index;

	if (bpf_probe_read_user(&at, sizeof(at), (void *)(base + python->state)) || !at)
		return false;
	if (bpf_probe_read_user(&at, sizeof(at), (void *)(at + python->frame)) || !at)
		return false;
	if (python->indirect != TS_PYTHON_DIRECT) {
		at += python->indirect;
		index = (at - thread->window_at) / sizeof(__u64);
		if (!(at & 7) && settings.unwind && index < thread->unwinding.words)
			at = thread->window[index & (WINDOW_WORDS - 1)];
		else if (bpf_probe_read_user(&at, sizeof(at), (void *)at))
			return false;
	}
	*ret = at;
	return at != 0;
}

__noinline int python_walk(struct thread *thread)
{
	__u32 depth = settings.python_depth;

	if (!thread)
		return 0;
	thread->python_walk.words = 0;
	thread->python_walk.hash = TS_PYTHON_SEED;
	for (__u32 i = 0; i < TS_STACK_PYTHON_MAX && i < depth; i++) {
		if (thread->python_count >= TS_STACK_PYTHON_MAX || !thread->python_walk.at)
			break;
		if (!python_step(thread))
			break;
	}
	return 0;
}

/* Behind the walk over the native frames. */
__noinline int python_take(struct thread *thread)
{
	__u32 count;

	if (!thread)
		return 0;
	thread->python_count = 0;
	if (!thread->python.size || !settings.python_depth ||
	    !python_innermost(thread, &thread->python_walk.at))
		return 0;
	freed_look(thread);
	python_walk(thread);
	count = thread->python_count;
	/* There are more. */
	if (count && thread->python_walk.at)
		thread->python_frame[(count - 1) & (TS_STACK_PYTHON_MAX - 1)].position |=
			TS_PYTHON_CUT;
	return 0;
}

/* The id of the stack, by that of its native frames. */
static __always_inline __u64 python_id(const struct thread *thread, __u64 id)
{
	if (thread->python_count)
		id = stack_hash_frame(id, thread->python_walk.hash);
	return id ? id : 1;
}

#endif
