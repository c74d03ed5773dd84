/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Task: tells the registers of a process's threads, whoever reads the iterator, without stopping
 * any. The kernel has them since the thread's last entry to it; so they are those of a thread that
 * is on no CPU. A reader finds by the counts whether it has been on one since the last time.
 */
#include "bpf/vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/task.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* The tgid that a thread asks for, by its tid. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, TASK_READERS);
	__type(key, __u32);
	__type(value, __u32);
} wanted SEC(".maps");

static __always_inline __u64 switches(const struct task_struct *task)
{
	return task->nvcsw + task->nivcsw;
}

SEC("iter/task")
int task_registers(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct task_registers out = {};
	__u32 reader = (__u32)bpf_get_current_pid_tgid();
	const struct pt_regs *regs;
	const __u32 *tgid;

	if (!task)
		return 0;
	tgid = bpf_map_lookup_elem(&wanted, &reader);
	if (!tgid || (__u32)task->tgid != *tgid)
		return 0;
	regs = (const struct pt_regs *)bpf_task_pt_regs(task);
	out.tid = task->pid;
	out.switches_before = switches(task);
	out.on_cpu = task->on_cpu;
	out.pc = regs->ip;
	out.sp = regs->sp;
	out.bp = regs->bp;
	out.switches_after = switches(task);
	bpf_seq_write(ctx->meta->seq, &out, sizeof(out));
	return 0;
}
