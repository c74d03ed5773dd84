/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* freed.bpf.h: what was read of a code object of Python holds until the process frees one.
 *
 * A probe on the interpreter's function for that counts before the memory can be that of another.
 * While there is one, a thread keeps what it has read until the count has changed. It looks at it
 * before the walk: code objects that its own frames are in are not freed meanwhile.
 */
#ifndef TS_FREED_BPF_H
#define TS_FREED_BPF_H

#include "bpf/common.bpf.h"

#define GOLDEN 0x9e3779b97f4a7c15

/* A link to a process sees none of its calls when the first thread has ended. */
static __always_inline bool freed_is_seen(void)
{
	const struct task_struct *task = bpf_get_current_task_btf();

	return task->group_leader->mm != NULL;
}

static __always_inline void freed_look(struct thread *thread)
{
	struct known_codes *known = &thread->codes;
	__u32 place = thread->python.freed - 1, tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 owner, count;

	known->hold = 0;
	if (place >= PROBE_FREED_MAX || !freed_is_seen())
		return;
	owner = *(volatile __u64 *)&codes_freed[place].owner;
	count = *(volatile __u64 *)&codes_freed[place].count;
	if ((__u32)owner != tgid)
		return;
	known->hold = 1;
	if (known->owner == owner && known->count == count)
		return;
	known->owner = owner;
	known->count = count;
	for (__u32 i = 0; i < CODE_SETS; i++)
		for (__u32 k = 0; k < CODE_WAYS; k++)
			known->code[i][k].code = 0;
}

static __always_inline struct known_code *freed_set(struct thread *thread, __u64 code)
{
	return thread->codes.code[code * GOLDEN >> 32 & (CODE_SETS - 1)];
}

static __always_inline bool freed_knows(struct thread *thread, struct ts_python_frame *frame)
{
	const struct known_code *set = freed_set(thread, frame->code);

	if (!thread->codes.hold || !frame->code)
		return false;
	for (__u32 i = 0; i < CODE_WAYS; i++) {
		if (set[i].code != frame->code)
			continue;
		frame->check = set[i].check;
		return true;
	}
	return false;
}

/* In place of the one that came first. */
static __always_inline void freed_keep(struct thread *thread, const struct ts_python_frame *frame)
{
	struct known_code *set = freed_set(thread, frame->code);

	if (!thread->codes.hold)
		return;
	for (__u32 i = CODE_WAYS - 1; i > 0; i--)
		set[i] = set[i - 1];
	set[0].code = frame->code;
	set[0].check = frame->check;
}

#endif
