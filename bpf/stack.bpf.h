/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* stack.bpf.h: takes a thread's stack at a function's entry, and computes its id. */
#ifndef TS_STACK_BPF_H
#define TS_STACK_BPF_H

#include "bpf/autograd.bpf.h"
#include "bpf/common.bpf.h"
#include "bpf/python.bpf.h"
#include "bpf/unwind.bpf.h"

#define CODE_MIN	  0x10000      /* nothing is mapped below */
#define CODE_MAX	  (1ull << 47) /* the kernel starts here */
#define STACK_SPAN	  (8 << 20)    /* maximum stack size of the main thread */

#define LINK_WORDS	  128 /* of the window, for frame pointers */
#define PYTHON_FEW	  32  /* frames of Python; most stacks have no more */

#define SAMPLE_STALE	  4	    /* after this many times the mean, calls have become rare */
#define SAMPLE_STRIDE_MAX (1 << 24) /* calls */

struct stack_record {
	__u64 head[sizeof(struct ts_stack) / sizeof(__u64)];
	__u64 frame[TS_STACK_FRAMES_MAX];
	struct ts_python_frame python[];
};

/* With room for `python` frames of Python; a constant, as the ring wants it. */
static __always_inline int stack_put(struct thread *thread, __u64 id, __u64 wake,
				     const __u32 python)
{
	__u32 count = thread->frame_count;
	__u64 size = python * sizeof(struct ts_python_frame);
	struct stack_record *record;
	struct ts_stack head = {
		.kind = TS_EVENT_STACK,
		.frame_count = count,
		.end = thread->end,
		.linked = thread->linked,
		.time_ns = bpf_ktime_get_ns(),
		.id = id,
	};

	if (count > TS_STACK_FRAMES_MAX)
		return -1;
	record = bpf_ringbuf_reserve(&events, sizeof(*record) + size, 0);
	if (!record)
		return -1;
	head.tgid = bpf_get_current_pid_tgid() >> 32;
	head.tid = (__u32)bpf_get_current_pid_tgid();
	head.python_count = python ? thread->python_count : 0;
	__builtin_memcpy(record->head, &head, sizeof(head));
	bpf_probe_read_kernel(record->frame, count * sizeof(__u64) & 1023, thread->frame);
	if (python)
		bpf_probe_read_kernel(record->python, size, thread->python_frame);
	bpf_ringbuf_submit(record, wake);
	return 0;
}

/* Global, as others here, so that it is verified once and not for each way that leads to it. */
__noinline int stack_send(struct thread *thread, __u64 id, bool keep)
{
	__u64 wake;
	int r;

	if (!thread || !ring_has_room(keep, &wake))
		return -1;
	/* The sooner it is read, the more of its code is still there. */
	if (thread->python_count)
		wake = BPF_RB_FORCE_WAKEUP;
	if (!thread->python_count)
		r = stack_put(thread, id, wake, 0);
	else if (thread->python_count <= PYTHON_FEW)
		r = stack_put(thread, id, wake, PYTHON_FEW);
	else
		r = stack_put(thread, id, wake, TS_STACK_PYTHON_MAX);
	if (!r)
		sent_keep(id);
	return r;
}

struct link {
	__u64 next; /* frame pointer of the caller */
	__u64 address;
};

/* Reading user memory is the main cost of a walk, so the stack is read a window at a time: a frame
 * is usually in the window of the previous one. Where a whole window is unreadable, only the link
 * is read.
 */
static __always_inline bool stack_read(struct thread *thread, __u64 at, struct link *link)
{
	__u64 index = (at - thread->window_at) / sizeof(__u64);

	if (index > LINK_WORDS - 2) {
		index = 0;
		thread->window_at = at;
		if (bpf_probe_read_user(thread->window, LINK_WORDS * sizeof(__u64), (void *)at)) {
			thread->window_at = ~0ull;
			if (bpf_probe_read_user(thread->window, sizeof(*link), (void *)at))
				return false;
		}
	}
	link->next = thread->window[index & (LINK_WORDS - 1)];
	link->address = thread->window[(index + 1) & (LINK_WORDS - 1)];
	return true;
}

/* Code built without frame pointers leaves anything in %rbp, and the walk runs into data. It stops
 * at any value that cannot be code, so that data does not make every stack a new one. Above the
 * main thread's frames there is only stack (`span`); stacks of other threads may be right below a
 * library, and have no span. */
static __always_inline bool stack_is_code(__u64 address, __u64 at, __u64 span)
{
	return address >= CODE_MIN && address < CODE_MAX && address - at > span;
}

/* Walks the frame pointers itself: bpf_get_stack() is slower, and before 6.11 it misses the caller,
 * because at a function's first instruction %rbp is still the caller's. The return address is on
 * top of the stack there. The frames and their id are in the thread. */
__noinline int stack_by_links(struct thread *thread, __u64 pc, __u64 sp, __u64 bp)
{
	__u32 count = 2, depth = settings.stack_depth;
	__u64 at = sp, next = bp, id;
	__u64 ids = bpf_get_current_pid_tgid();
	__u64 span = (__u32)ids == ids >> 32 ? STACK_SPAN : 0;
	struct link link = {};

	if (!thread)
		return 0;
	thread->unwinding.id = 0;
	thread->window_at = ~0ull;
	if (at & 7 || !stack_read(thread, at, &link))
		return 0;
	thread->frame[0] = pc;
	thread->frame[1] = link.next;
	id = stack_hash_frame(stack_hash_frame(thread->seed, pc), link.next);
	for (; count < TS_STACK_FRAMES_MAX && count < depth; count++) {
		/* The stack grows down, so callers are above; anything else is not a frame. */
		if (next <= at || next & 7)
			break;
		at = next;
		if (!stack_read(thread, at, &link) || !stack_is_code(link.address, at, span))
			break;
		thread->frame[count] = link.address;
		id = stack_hash_frame(id, link.address);
		next = link.next;
	}
	thread->frame_count = count;
	thread->end = TS_END_LINKS;
	thread->linked = 0;
	thread->unwinding.id = id ? id : 1;
	return 0;
}

/* The id of the stack, 0: it could not be taken. `flags`: PROBE_EVENT_MISSED, if it is yet to be
 * unwound. */
static __always_inline __u64 stack_take(struct pt_regs *ctx, struct thread *thread, bool keep,
					__u16 *flags)
{
	__u64 pc = PT_REGS_IP(ctx), sp = PT_REGS_SP(ctx), bp = PT_REGS_FP(ctx), id;
	bool missed;

	missed = settings.unwind ? unwind_stack(thread, pc, sp, bp)
				 : stack_by_links(thread, pc, sp, bp);
	id = thread->unwinding.id;
	python_take(thread);
	if (missed) {
		__u64 asked = unwind_miss(thread);

		if (asked) {
			*flags |= PROBE_EVENT_MISSED;
			return asked;
		}
		LOSE(stacks_cut);
	}
	if (!id)
		return 0;
	id = python_id(thread, id);
	if (settings.check_walks && !missed && thread->claimed && thread->claimed != id)
		COUNT(stacks_wrong);
	if (thread->sent[id % SENT_SLOTS] != id && !bpf_map_lookup_elem(&stacks_sent, &id) &&
	    stack_send(thread, id, keep))
		return 0;
	thread->sent[id % SENT_SLOTS] = id;
	if (thread->autograd.role == AUTOGRAD_NONE)
		return id;
	thread->autograd.stack = id;
	autograd_join(thread);
	return thread->autograd.stack;
}

/* Every call of a thread is equally likely to be sampled. Taking the first call after a fixed time
 * would show a loop at one place only, right after its wait. So the sampler counts calls and draws
 * the number to skip at random around a mean that follows the call rate. The mean at most doubles
 * each time, because a burst says little about the rate; when calls become rare, the next one is
 * taken without waiting for the count. */
static __always_inline bool sampler_due(struct sampler *sampler, __u64 now)
{
	__u64 elapsed = now - sampler->last_ns, mean;
	__u32 most = 2 * sampler->stride;

	if (settings.sample_ns == ~0ull)
		return false;
	sampler->calls++;
	if (sampler->left > 1 && elapsed > SAMPLE_STALE * settings.sample_ns)
		sampler->left /= 2;
	if (sampler->left > 1) {
		sampler->left--;
		return false;
	}
	mean = (sampler->calls * settings.sample_ns + elapsed) / (elapsed + 1);
	sampler->stride = mean < most ? mean : most;
	if (sampler->stride == 0)
		sampler->stride = 1;
	if (sampler->stride > SAMPLE_STRIDE_MAX)
		sampler->stride = SAMPLE_STRIDE_MAX;
	sampler->left = 1 + bpf_get_prandom_u32() % (2 * sampler->stride - 1);
	sampler->calls = 0;
	sampler->last_ns = now;
	return true;
}

/* A kernel that is launched rarely may run most of the time, so the first launch of each is sampled
 * too, as is the first copy or set of each function, within a separate limit. */
static __always_inline bool work_is_new(struct pt_regs *ctx, struct thread *thread, __u32 fn,
					__u8 arg, __u64 now)
{
	__u64 first = PT_REGS_PARM1(ctx), second = PT_REGS_PARM2(ctx), bit, mask, *word;

	/* Read both, or the compiler chooses the address and the verifier refuses it. */
	asm volatile("" : "+r"(first), "+r"(second));
	bit = (arg == 1 ? first : arg == 2 ? second : fn) * 0x9e3779b97f4a7c15 >> 32;
	word = &thread->work_seen[bit / 64 % SEEN_WORDS];
	mask = 1ull << bit % 64;
	if (*word & mask || settings.sample_ns == ~0ull ||
	    now - thread->work_ns < settings.sample_ns)
		return false;
	*word |= mask;
	thread->work_ns = now;
	return true;
}

/* Work and waits are sampled separately, or work would take all the samples. */
static __always_inline bool stack_wanted(struct pt_regs *ctx, struct thread *thread,
					 const struct probe_desc *desc, __u32 fn, __u64 now)
{
	bool wait = desc->flags & PROBE_WAIT;

	if (!(desc->flags & PROBE_STACK) &&
	    (!(desc->flags & PROBE_SAMPLE) || thread->choice == PROBE_CHOICE_NONE))
		return false;
	autograd_look(thread);
	if (desc->flags & PROBE_STACK || thread->choice == PROBE_CHOICE_ALL ||
	    thread->autograd.role == AUTOGRAD_BACKWARD)
		return true;
	if (thread->autograd.role != AUTOGRAD_PASSED_BY && sampler_due(&thread->sampler[wait], now))
		return true;
	return !wait && work_is_new(ctx, thread, fn, desc->kernel_arg, now);
}

#endif
