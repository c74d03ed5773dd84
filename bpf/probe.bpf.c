/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Probe: sees every call of a probed driver function, in every process, and sends it to the daemon.
 *
 * A call becomes one event, sent at its entry or, if the result is wanted, at its return. One enter
 * and one exit program serve all functions; the attach cookie says which function was hit.
 */
#include "bpf/common.bpf.h"
#include "bpf/hit.bpf.h"
#include "bpf/note.bpf.h"
#include "bpf/process.bpf.h"
#include "bpf/stack.bpf.h"
#include "bpf/tensor.bpf.h"
#include "bpf/worker.bpf.h"

_Static_assert(sizeof(struct ts_registers) == sizeof(struct pt_regs) &&
		       __builtin_offsetof(struct ts_registers, ip) ==
			       __builtin_offsetof(struct pt_regs, ip) &&
		       __builtin_offsetof(struct ts_registers, bp) ==
			       __builtin_offsetof(struct pt_regs, bp),
	       "the stub's registers are in the kernel's order");

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define REGISTER_ARGS 6
#define SPILLED_ARGS  3	 /* as many as cuLaunchKernel needs */
#define ARGS_SIZE     16 /* both and PROBE_ARG_SELF, so that an index can be masked */

static __always_inline void slot_put(struct ts_event *ev, __u32 to, __u32 width, __u64 value)
{
	void *api = &ev->api;

	if (width == sizeof(__u32) && to <= sizeof(struct ts_api) - sizeof(__u32))
		*(__u32 *)(api + to) = value;
	else if (width == sizeof(__u64) && to <= sizeof(struct ts_api) - sizeof(__u64))
		*(__u64 *)(api + to) = value;
}

static __always_inline void call_read_args(struct pt_regs *ctx, const struct probe_desc *desc,
					   struct ts_event *ev)
{
	__u64 args[ARGS_SIZE] = { PT_REGS_PARM1(ctx), PT_REGS_PARM2(ctx), PT_REGS_PARM3(ctx),
				  PT_REGS_PARM4(ctx), PT_REGS_PARM5(ctx), ctx->r9 };
	__u32 unread = 0;

	args[PROBE_ARG_SELF] = PT_REGS_IP(ctx);
	/* The return address lies below them. */
	if (desc->flags & PROBE_SPILLED)
		unread |= !!bpf_probe_read_user(&args[REGISTER_ARGS], SPILLED_ARGS * sizeof(__u64),
						(void *)(PT_REGS_SP(ctx) + sizeof(__u64)));
	for (__u32 i = 0; i < PROBE_SLOTS_MAX && i < desc->slot_count; i++) {
		const struct probe_slot *slot = &desc->slot[i];
		__u64 value = args[slot->arg & (ARGS_SIZE - 1)];

		if (slot->from == PROBE_FIELD) {
			__u64 field = 0;

			/* NULL is a caller's mistake, which the driver refuses. */
			if (value)
				unread |= !!bpf_probe_read_user(&field, sizeof(field),
								(void *)(value + slot->offset));
			value = field;
		}
		slot_put(ev, slot->to, slot->width, value);
	}
	if (unread) {
		ev->flags |= TS_EVENT_UNREAD;
		LOSE(unread);
	}
}

static __always_inline void call_fill(struct thread *thread, __u16 fn, __u16 flags, __u64 now,
				      __u64 stack_id, struct ts_event *ev)
{
	__u64 id = bpf_get_current_pid_tgid();

	__builtin_memset(ev, 0, sizeof(*ev));
	ev->kind = TS_EVENT_API;
	ev->fn = fn;
	ev->flags = flags | (thread->own ? TS_EVENT_OWN : 0);
	ev->cpu = bpf_get_smp_processor_id();
	ev->tgid = id >> 32;
	ev->tid = (__u32)id;
	ev->start_ns = now;
	ev->ns_tid = thread->ns_tid;
	ev->stack_id = stack_id;
}

static __always_inline void call_begin(struct pt_regs *ctx, struct thread *thread,
				       const struct probe_desc *desc, __u64 cookie, __u64 now,
				       __u64 stack_id, __u16 stack_flags, struct ts_event *ev)
{
	__u16 flags = (__u16)(cookie >> 16) | stack_flags;

	call_fill(thread, (__u16)cookie, flags, now, stack_id, ev);
	call_read_args(ctx, desc, ev);
}

/* A unique id of NCCL tells the communicator apart, on all hosts. It is as good as a password to
 * its job, so no more than a hash goes further. */
static __always_inline __u64 call_hash_id(struct pt_regs *ctx, const struct probe_desc *desc,
					  struct ts_event *ev)
{
	__u64 one = 0x9e3779b97f4a7c15, other = 0xc2b2ae3d27d4eb4f;
	__u64 stack = PT_REGS_SP(ctx), fifth = PT_REGS_PARM5(ctx), at;

	/* Both are loaded: the verifier refuses one load from an address that depends. */
	asm volatile("" : "+r"(stack), "+r"(fifth));
	at = desc->id_at == PROBE_ID_ON_STACK ? stack + sizeof(__u64) : fifth;

	for (int i = 0; i < PROBE_ID_WORDS; i++) {
		__u64 word = 0;

		if (bpf_probe_read_user(&word, sizeof(word), (void *)(at + i * sizeof(word)))) {
			ev->flags |= TS_EVENT_UNREAD;
			LOSE(unread);
			return 0;
		}
		one = (one ^ word) * 0xff51afd7ed558ccd;
		one ^= one >> 32;
		other = (other + word) * 0xd6e8feb86659fd93;
		other ^= other >> 29;
	}
	return (one ^ other) ?: 1;
}

/* A call still in progress has its frame above ours. One that has none will never return here: its
 * return probe was removed in the meantime, or somebody jumped out of it. */
static __always_inline __u32 thread_depth(struct thread *thread, __u64 sp)
{
	__u32 depth = thread->depth;

	for (int i = 0; i < PROBE_DEPTH_MAX; i++) {
		if (depth - 1 >= PROBE_DEPTH_MAX || thread->call_sp[depth - 1] > sp)
			break;
		depth--;
		LOSE(lost_calls);
	}
	return depth;
}

/* Frameworks report memory of the host, too. */
static __always_inline bool call_is_meant(struct pt_regs *ctx, const struct probe_desc *desc)
{
	return !desc->device_type || (__u8)PT_REGS_PARM5(ctx) == desc->device_type;
}

/* Whose memory it is says the stack that took it. */
static __always_inline bool call_gives_back(struct pt_regs *ctx, const struct probe_desc *desc)
{
	return desc->device_type && (__s64)PT_REGS_PARM2(ctx) < 0;
}

SEC("uprobe")
int enter(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now, stack_id = 0, wake;
	__u32 fn = (__u16)cookie, depth;
	struct probe_desc *desc = bpf_map_lookup_elem(&descs, &fn);
	struct thread *thread;
	struct ts_event *ev;
	__u16 stack_flags = 0;

	thread = desc ? thread_get() : NULL;
	if (!thread || !hit_counts(cookie, &thread->entered))
		return 0;
	now = bpf_ktime_get_ns();
	hit_add(thread, PROBE_GROUP_OF(cookie), now);
	if (!call_is_meant(ctx, desc) || !thread_is_watched(thread))
		return 0;
	if (desc->device_type && !call_gives_back(ctx, desc))
		thread->given = tensor_is_small(ctx) ? 0 : PT_REGS_PARM1(ctx);
	if (desc->device_type && tensor_is_small(ctx)) {
		tensor_add_up(ctx, now);
		return 0;
	}
	if (!call_gives_back(ctx, desc) && stack_wanted(ctx, thread, desc, fn, now)) {
		stack_id = stack_take(ctx, thread, desc->flags & PROBE_KEEP, &stack_flags);
		walk_add(thread, desc->walk, now);
		if (!stack_id) {
			stack_flags = TS_EVENT_STACK_LOST;
			LOSE(stacks_lost);
		}
	}
	if (desc->flags & PROBE_RETURN) {
		depth = thread_depth(thread, PT_REGS_SP(ctx));
		/* One register for the check and the use: a 6.1 verifier does not link copies. */
		asm volatile("" : "+r"(depth));
		if (depth >= PROBE_DEPTH_MAX) {
			LOSE(lost_calls);
			return 0;
		}
		thread->call_sp[depth] = PT_REGS_SP(ctx);
		ev = &thread->call[depth];
		call_begin(ctx, thread, desc, cookie, now, stack_id, stack_flags, ev);
		if (desc->id_at)
			ev->api.source = call_hash_id(ctx, desc, ev);
		thread->depth = depth + 1;
		return 0;
	}
	ev = event_reserve(desc->flags, now, &wake);
	if (!ev)
		return 0;
	call_begin(ctx, thread, desc, cookie, now, stack_id, stack_flags, ev);
	bpf_ringbuf_submit(ev, wake);
	return 0;
}

static __always_inline void note_read_args(const struct thread *thread,
					   const struct probe_desc *desc,
					   const struct probe_note *note, struct ts_event *ev)
{
	bool unread = false;

	for (__u32 i = 0; i < PROBE_OPERANDS_MAX && i < desc->slot_count; i++) {
		const struct probe_slot *slot = &desc->slot[i];
		__u32 arg = slot->arg;
		__u64 value = 0;

		asm volatile("" : "+r"(arg));
		if (arg >= PROBE_OPERANDS_MAX)
			return;
		unread |= !note_read(thread, &note->operand[arg], &value);
		slot_put(ev, slot->to, slot->width, value);
	}
	if (unread) {
		ev->flags |= TS_EVENT_UNREAD;
		LOSE(unread);
	}
}

/* A place that the code of a library names: where its arguments are was read from the file. */
SEC("uprobe")
int note(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now, wake;
	__u32 fn = (__u16)cookie;
	__u32 key = PROBE_NOTE_KEY(PROBE_COPY_OF(cookie), PROBE_NOTE_OF(cookie));
	struct probe_desc *desc = bpf_map_lookup_elem(&descs, &fn);
	struct probe_note *places = bpf_map_lookup_elem(&notes, &key);
	struct ts_event *ev, *made;
	struct thread *thread;

	thread = desc && places ? thread_get() : NULL;
	if (!thread || !hit_counts(cookie, &thread->entered))
		return 0;
	now = bpf_ktime_get_ns();
	hit_add(thread, PROBE_GROUP_OF(cookie), now);
	if (!thread_is_watched(thread))
		return 0;
	if (bpf_probe_read_kernel(&thread->copied, sizeof(thread->copied), ctx)) {
		LOSE(lost_calls);
		return 0;
	}
	made = &thread->noted;
	call_fill(thread, fn, 0, now, 0, made);
	note_read_args(thread, desc, places, made);
	/* A block that is too small to be followed has no event here, either. */
	if (settings.tensor_bytes && made->api.address != thread->given)
		return 0;
	ev = event_reserve(desc->flags, now, &wake);
	if (!ev)
		return 0;
	__builtin_memcpy(ev, made, sizeof(*ev));
	bpf_ringbuf_submit(ev, wake);
	return 0;
}

/* A call that our library in the process reports, with the registers as they were at its entry: it
 * has chosen it to have a stack. All it says is its process's own claim. */
SEC("uprobe")
int inside(struct pt_regs *ctx)
{
	__u64 cookie = PT_REGS_PARM2(ctx), now = bpf_ktime_get_ns(), began, stack_id, wake, seed;
	__u32 fn = (__u16)cookie;
	struct probe_desc *desc = bpf_map_lookup_elem(&descs, &fn);
	struct pt_regs *regs;
	struct thread *thread;
	struct ts_event *ev;
	__u16 stack_flags = 0;

	if (!desc || desc->flags & PROBE_RETURN)
		return 0;
	thread = thread_get();
	if (!thread)
		return 0;
	hit_add(thread, PROBE_HOT, now);
	seed = thread->seed;
	if (!thread_is_watched(thread))
		return 0;
	regs = &thread->copied;
	if (bpf_probe_read_user(regs, sizeof(*regs), (void *)PT_REGS_PARM1(ctx))) {
		LOSE(lost_calls);
		return 0;
	}
	began = bpf_ktime_get_ns();
	/* Of a sample it is not known what the calls before this one belong to. */
	if (thread->choice != PROBE_CHOICE_ALL)
		thread->autograd.role = AUTOGRAD_NONE;
	else if (regs->r15 == TS_STUB_UNKNOWN)
		autograd_look(thread);
	else
		autograd_told(thread, regs->r15, regs->r14, regs->r13, regs->r12);
	/* Ids that have just become others are none of the library's yet. */
	thread->claimed = thread->seed == seed ? regs->orig_ax : 0;
	stack_id = stack_take(regs, thread, false, &stack_flags);
	thread->claimed = 0;
	walk_add(thread, PROBE_WALK_SAMPLED, began);
	if (!stack_id) {
		stack_flags = TS_EVENT_STACK_LOST;
		LOSE(stacks_lost);
	}
	ev = event_reserve(desc->flags, now, &wake);
	if (!ev)
		return 0;
	call_begin(regs, thread, desc, fn | (cookie & 0xffff0000), now, stack_id, stack_flags, ev);
	ev->flags |= TS_EVENT_INSIDE;
	bpf_ringbuf_submit(ev, wake);
	return 0;
}

static __always_inline void call_send(const struct ts_event *call, __u16 flags)
{
	struct ts_event *ev;
	__u64 wake;

	ev = event_reserve(flags, bpf_ktime_get_ns(), &wake);
	if (!ev)
		return;
	__builtin_memcpy(ev, call, sizeof(*ev));
	bpf_ringbuf_submit(ev, wake);
}

/* Reads what an out-parameter points to; the 8-byte field kept the pointer since the entry. */
static __always_inline void call_read_outs(const struct probe_desc *desc, struct ts_event *call,
					   bool done)
{
	for (__u32 i = 0; i < PROBE_OUTS_MAX && i < desc->out_count; i++) {
		const struct probe_slot *out = &desc->out[i];
		__u64 value = 0, *place;
		__u32 to = out->to;

		if (to > sizeof(struct ts_api) - sizeof(__u64))
			return;
		place = (void *)&call->api + to;
		if (done && *place && bpf_probe_read_user(&value, sizeof(value), (void *)*place)) {
			call->flags |= TS_EVENT_UNREAD;
			LOSE(unread);
		}
		*place = out->width == sizeof(__u32) ? (__u32)value : value;
	}
}

SEC("uprobe")
int leave(struct pt_regs *ctx)
{
	__u64 cookie = bpf_get_attach_cookie(ctx), now;
	__u32 fn = (__u16)cookie, depth;
	struct probe_desc *desc = bpf_map_lookup_elem(&descs, &fn);
	struct thread *thread;
	struct ts_event *call;

	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), NULL, 0);
	if (!desc || !thread || !hit_counts(cookie, &thread->returned))
		return 0;
	now = bpf_ktime_get_ns();
	hit_add(thread, PROBE_GROUP_OF(cookie), now);
	/* Calls above ours never returned (a longjmp out of a callback): count them as lost. */
	for (int i = 0; i < PROBE_DEPTH_MAX; i++) {
		depth = thread->depth - 1;
		if (depth >= PROBE_DEPTH_MAX)
			return 0;
		thread->depth = depth;
		call = &thread->call[depth];
		if (call->fn == (__u16)cookie) {
			call->end_ns = now;
			call->result = (__s32)PT_REGS_RC(ctx);
			call->flags |= TS_EVENT_RETURNED;
			call_read_outs(desc, call, call->result == 0);
			call_send(call, desc->flags);
			return 0;
		}
		LOSE(lost_calls);
	}
	return 0;
}

/* On the function by which a Python frees code objects, in the process whose place the cookie is.
 */
SEC("uprobe")
int freed(struct pt_regs *ctx)
{
	__u64 place = bpf_get_attach_cookie(ctx);

	if (place < PROBE_FREED_MAX)
		__sync_fetch_and_add(&codes_freed[place].count, 1);
	return 0;
}

/* A thread that ends inside calls will not return from them. */
static __always_inline void thread_end(struct task_struct *task)
{
	struct thread *thread = bpf_task_storage_get(&threads, task, NULL, 0);

	if (!thread)
		return;
	for (__u32 i = 0; i < PROBE_DEPTH_MAX && i < thread->depth; i++) {
		struct ts_event *call = &thread->call[i];
		__u32 fn = call->fn;
		struct probe_desc *desc = bpf_map_lookup_elem(&descs, &fn);

		if (!desc)
			continue;
		call->flags |= TS_EVENT_UNFINISHED;
		call_read_outs(desc, call, false);
		call_send(call, PROBE_KEEP);
	}
	thread->depth = 0;
	hits_add_up(thread, bpf_ktime_get_ns());
}

SEC("raw_tp/sched_process_exit")
int process_exit(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct probe_process *process;

	/* By the count below, two threads may both be the last one: each sends its own calls
	 * first.
	 */
	thread_end(task);
	process = bpf_map_lookup_elem(&processes, &tgid);
	if (!process || BPF_CORE_READ(task, signal, live.counter) != 0)
		return 0;
	if (process->announced)
		process_send_exit(task);
	bpf_map_delete_elem(&processes, &tgid);
	bpf_map_delete_elem(&hits, &tgid);
	bpf_map_delete_elem(&mappings, &tgid);
	bpf_map_delete_elem(&pythons, &tgid);
	return 0;
}

/* The entry stays, undecided, so that the end of the next program is reported too. */
SEC("raw_tp/sched_process_exec")
int process_exec(struct bpf_raw_tracepoint_args *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	struct probe_process *process = bpf_map_lookup_elem(&processes, &tgid);

	if (!process)
		return 0;
	if (process->announced)
		process_announce(TS_EVENT_EXEC, task);
	process->generation = 0;
	bpf_map_delete_elem(&pythons, &tgid);
	bpf_task_storage_delete(&threads, task);
	return 0;
}
