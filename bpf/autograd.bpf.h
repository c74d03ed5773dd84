/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* autograd.bpf.h: joins what PyTorch's backward pass launches to the stack of the forward pass that
 * it belongs to.
 *
 * A call of the forward pass makes its node before it launches anything, and the node gets the
 * thread's next number, and that of the thread. So the first launch after that belongs to the node;
 * later ones may be of calls that have none. If that launch is sampled, its stack is kept under
 * both numbers, and under those of the nodes without a launch before it, as that of one that passed
 * them by: they were made before it. If a node of these is run, its launches are sampled, and no
 * others: then all of them are as likely as those of the forward pass.
 */
#ifndef TS_AUTOGRAD_BPF_H
#define TS_AUTOGRAD_BPF_H

#include "bpf/common.bpf.h"

#define AUTOGRAD_NODES	   16384
#define AUTOGRAD_NO_NUMBER ~0ull /* of nodes that no call has made */
#define AUTOGRAD_PASSED	   8	 /* nodes without a launch that are remembered at once */
#define AUTOGRAD_TRIES	   64	 /* calls until a thread without variables is looked at again */

struct autograd_key {
	__u64 seed; /* of the process */
	__u64 thread, number;
};

/* Under AUTOGRAD_NO_NUMBER: the first one of the thread whose fate was decided. */
struct autograd_made {
	__u64 stack;
	__u64 passed; /* 1: by a launch after that of the node's call, if there was one */
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, AUTOGRAD_NODES);
	__type(key, struct autograd_key);
	__type(value, struct autograd_made);
} nodes SEC(".maps");

/* The library's thread-local variables; 0: the thread has none yet (glibc: the vector has the
 * number of its blocks before it, and -1 for one that is not there). */
static __always_inline __u64 autograd_block(struct thread *thread)
{
	const struct task_struct *task = bpf_get_current_task_btf();
	__u64 base = BPF_CORE_READ(task, thread.fsbase), vector = 0, blocks = 0, block = 0;
	__u64 module = thread->python.autograd.module;

	if (thread->autograd.block || thread->autograd.tries++ % AUTOGRAD_TRIES)
		return thread->autograd.block;
	if (bpf_probe_read_user(&vector, sizeof(vector), (void *)(base + 8)) ||
	    bpf_probe_read_user(&blocks, sizeof(blocks), (void *)(vector - 16)) ||
	    module > blocks ||
	    bpf_probe_read_user(&block, sizeof(block), (void *)(vector + 16 * module)) ||
	    block == ~0ull)
		return 0;
	thread->autograd.block = block;
	return block;
}

static __always_inline bool autograd_made(struct autograd *autograd, const struct autograd_key *key)
{
	const struct autograd_made *made = bpf_map_lookup_elem(&nodes, key);

	if (!made)
		return false;
	autograd->forward = made->stack;
	autograd->passed = made->passed;
	autograd->role = AUTOGRAD_BACKWARD;
	return true;
}

static __always_inline void autograd_look_back(struct thread *thread, __u64 node)
{
	struct autograd_key key = { .seed = thread->seed };
	struct autograd *autograd = &thread->autograd;
	const struct autograd_made *first;
	__u64 word[TS_AUTOGRAD_WORDS];

	if (bpf_probe_read_user(word, sizeof(word),
				(void *)(node + thread->python.autograd.number)) ||
	    word[TS_AUTOGRAD_NUMBER] == AUTOGRAD_NO_NUMBER)
		return;
	key.thread = word[TS_AUTOGRAD_THREAD];
	key.number = word[TS_AUTOGRAD_NUMBER];
	if (autograd_made(autograd, &key))
		return;
	autograd->number = key.number;
	key.number = AUTOGRAD_NO_NUMBER;
	first = bpf_map_lookup_elem(&nodes, &key);
	if (first && autograd->number >= first->stack)
		autograd->role = AUTOGRAD_PASSED_BY;
}

static __always_inline void autograd_look_forward(struct thread *thread, __u64 block, __u64 next)
{
	struct autograd_key key = { .seed = thread->seed, .number = AUTOGRAD_NO_NUMBER };
	struct autograd *autograd = &thread->autograd;
	struct autograd_made first = { .stack = next };

	if (next == autograd->next)
		return;
	/* It has its number since its first node. */
	if (!autograd->thread &&
	    (bpf_probe_read_user(&autograd->thread, sizeof(autograd->thread),
				 (void *)(block + thread->python.autograd.thread)) ||
	     !autograd->thread))
		return;
	key.thread = autograd->thread;
	autograd->number = autograd->next;
	autograd->next = next;
	if (!autograd->known) {
		autograd->known = 1;
		bpf_map_update_elem(&nodes, &key, &first, BPF_NOEXIST);
		return;
	}
	if (next > autograd->number)
		autograd->role = AUTOGRAD_FORWARD;
}

/* At each call that submits work: what it is to the node that its thread makes or runs. */
__noinline int autograd_look(struct thread *thread)
{
	__u64 block, node = 0, next = 0;

	if (!thread)
		return 0;
	thread->autograd.role = AUTOGRAD_NONE;
	if (!thread->python.autograd.module || !settings.autograd)
		return 0;
	block = autograd_block(thread);
	if (!block || bpf_probe_read_user(&node, sizeof(node),
					  (void *)(block + thread->python.autograd.node)))
		return 0;
	if (node)
		autograd_look_back(thread, node);
	else if (!bpf_probe_read_user(&next, sizeof(next),
				      (void *)(block + thread->python.autograd.next)))
		autograd_look_forward(thread, block, next);
	return 0;
}

/* What the library has found out, as it alone sees every call of the thread: an enum ts_stub_role,
 * and what goes with it. A stack of the forward pass that was not sent for this process is none:
 * from any other, whoever chooses it could make any id. */
static __always_inline void autograd_told(struct thread *thread, __u64 role, __u64 first,
					  __u64 second, __u64 third)
{
	struct autograd_key key = { .seed = thread->seed, .thread = first, .number = second };
	struct autograd *autograd = &thread->autograd;

	autograd->role = AUTOGRAD_NONE;
	autograd->known = 0;
	if (role == TS_STUB_FORWARD) {
		autograd->thread = first;
		autograd->next = second;
		autograd->number = third;
		autograd->role = AUTOGRAD_FORWARD;
	} else if (role == TS_STUB_BACKWARD) {
		if (!sent_is_own(first))
			return;
		autograd->forward = first;
		autograd->passed = second != 0;
		autograd->role = AUTOGRAD_BACKWARD;
	} else if (role == TS_STUB_LOOK_BACK) {
		autograd_made(autograd, &key);
	}
}

/* Global, like others here, so that it is verified once. */
__noinline int autograd_keep(__u64 seed, __u64 thread, __u64 number, __u64 stack, __u64 passed)
{
	struct autograd_key key = { .seed = seed, .thread = thread, .number = number };
	struct autograd_made made = { .stack = stack, .passed = passed };

	return bpf_map_update_elem(&nodes, &key, &made, BPF_ANY);
}

static __always_inline int autograd_send(__u64 id, const struct autograd *autograd)
{
	__u64 ids = bpf_get_current_pid_tgid(), wake;
	struct ts_event *ev;

	if (!ring_has_room(false, &wake))
		return -1;
	ev = bpf_ringbuf_reserve(&events, sizeof(*ev), 0);
	if (!ev)
		return -1;
	__builtin_memset(ev, 0, sizeof(*ev));
	ev->kind = TS_EVENT_BACKWARD;
	ev->cpu = bpf_get_smp_processor_id();
	ev->tgid = ids >> 32;
	ev->tid = (__u32)ids;
	ev->start_ns = bpf_ktime_get_ns();
	ev->stack_id = id;
	ev->backward.stack = autograd->stack;
	ev->backward.forward = autograd->forward;
	ev->backward.passed = autograd->passed;
	bpf_ringbuf_submit(ev, wake);
	sent_keep(id);
	return 0;
}

/* With the stack that was just taken: the id of both, in the backward pass. */
__noinline int autograd_join(struct thread *thread)
{
	struct autograd *autograd;
	__u64 id, number;

	if (!thread)
		return 0;
	autograd = &thread->autograd;
	if (autograd->role == AUTOGRAD_FORWARD) {
		number = autograd->next - 1;
		autograd_keep(thread->seed, autograd->thread, number, autograd->stack, 0);
		for (int i = 0; i < AUTOGRAD_PASSED && number > autograd->number; i++)
			autograd_keep(thread->seed, autograd->thread, --number, autograd->stack, 1);
	} else if (autograd->role == AUTOGRAD_BACKWARD) {
		id = stack_id_backward(autograd->stack, autograd->forward, autograd->passed);
		if (!id)
			return 0;
		if (thread->sent[id % SENT_SLOTS] != id &&
		    !bpf_map_lookup_elem(&stacks_sent, &id) && autograd_send(id, autograd))
			return 0;
		thread->sent[id % SENT_SLOTS] = id;
		autograd->stack = id;
	}
	return 0;
}

#endif
