/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* worker.bpf.h: how long work waits for the kernel's per-CPU workers.
 *
 * The first work that is queued for a CPU starts the clock, and the next that its worker takes on
 * stops it: they need not be the same, as a worker takes one after the other. It is a lower bound
 * then, of the delay that the last of them had. Unbound and high-priority workers do not count:
 * they find another CPU, or go first.
 */
#ifndef TS_WORKER_BPF_H
#define TS_WORKER_BPF_H

#include "bpf/common.bpf.h"

#define POOL_BH 1 /* since 6.9: no worker, but a softirq; before, a rare state of a pool */

SEC("raw_tp/workqueue_queue_work")
int worker_queue(struct bpf_raw_tracepoint_args *ctx)
{
	struct pool_workqueue *queue = (void *)ctx->args[1];
	__u32 cpu;

	if (!settings.workers)
		return 0;
	cpu = BPF_CORE_READ(queue, pool, cpu);
	if (cpu >= PROBE_WORKERS_MAX || BPF_CORE_READ(queue, pool, attrs, nice) < 0 ||
	    BPF_CORE_READ(queue, pool, flags) & POOL_BH)
		return 0;
	if (!workers[cpu].waiting_ns) {
		workers[cpu].hits_before = workers[cpu].hits;
		workers[cpu].waiting_ns = bpf_ktime_get_ns();
	}
	return 0;
}

/* "kworker/3:1", of CPU 3; "kworker/3:1H" has high priority, "kworker/u8:1" is unbound. */
static __always_inline bool task_is_worker(void)
{
	char comm[TS_COMM_SIZE];

	if (bpf_get_current_comm(comm, sizeof(comm)) || comm[8] < '0' || comm[8] > '9')
		return false;
	for (int i = 9; i < TS_COMM_SIZE; i++)
		if (comm[i] == 'H')
			return false;
	return true;
}

SEC("raw_tp/workqueue_execute_start")
int worker_start(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 cpu = bpf_get_smp_processor_id();
	__u64 waited;

	if (cpu >= PROBE_WORKERS_MAX || !workers[cpu].waiting_ns || !task_is_worker())
		return 0;
	waited = bpf_ktime_get_ns() - workers[cpu].waiting_ns;
	workers[cpu].waiting_ns = 0;
	if ((__s64)waited > 0 && waited > workers[cpu].longest_ns) {
		workers[cpu].longest_hits = workers[cpu].hits - workers[cpu].hits_before;
		workers[cpu].longest_ns = waited;
	}
	return 0;
}

#endif
