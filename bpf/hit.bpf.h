/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* hit.bpf.h: which hits of a probe count, and how many each process has had.
 *
 * While links for all processes and links for single ones change places, a function has both, and
 * each hit runs a program for either. The first one counts it. The kernel runs those of newer links
 * first, so a run for the same function, but for an older link than the run before it in the
 * thread, is of the same hit; any other is of a new one. It does not depend on when links change: a
 * thread may stop between two programs for as long as it takes to attach a link or to remove one.
 */
#ifndef TS_HIT_BPF_H
#define TS_HIT_BPF_H

#include "bpf/common.bpf.h"

static __always_inline bool hit_counts(__u64 cookie, __u64 *last)
{
	__u64 before = *last;

	*last = cookie;
	return PROBE_COOKIE_PLACE(before) != PROBE_COOKIE_PLACE(cookie) ||
	       !probe_epoch_is_newer(PROBE_EPOCH_OF(before), PROBE_EPOCH_OF(cookie));
}

/* Seldom: the map is shared by all threads, and finding the process in it takes its time. */
__noinline int hits_add_up(struct thread *thread, __u64 now)
{
	__u32 tgid = bpf_get_current_pid_tgid() >> 32;
	__u64 cpu = bpf_get_smp_processor_id();
	struct probe_hits none = {}, *process;

	if (!thread || tgid == settings.calibrated)
		return 0;
	process = bpf_map_lookup_elem(&hits, &tgid);
	if (!process) {
		bpf_map_update_elem(&hits, &tgid, &none, BPF_NOEXIST);
		process = bpf_map_lookup_elem(&hits, &tgid);
	}
	for (__u32 group = 0; process && group < PROBE_GROUPS; group++) {
		__sync_fetch_and_add(&process->hits[group], thread->hits[group]);
		/* Most of them were here, as a batch takes no time. */
		if (cpu < PROBE_WORKERS_MAX) {
			/* A 6.1 verifier does not link copies, and may have checked another. */
			asm volatile("" : "+r"(cpu));
			__sync_fetch_and_add(&workers[cpu & (PROBE_WORKERS_MAX - 1)].hits,
					     thread->hits[group]);
		}
		thread->hits[group] = 0;
	}
	for (__u32 kind = 0; process && kind < PROBE_WALKS; kind++) {
		__sync_fetch_and_add(&process->walks[kind], thread->walks[kind]);
		__sync_fetch_and_add(&process->walk_ns[kind], thread->walk_ns[kind]);
		thread->walks[kind] = thread->walk_ns[kind] = 0;
	}
	thread->hits_ns = now;
	return 0;
}

static __always_inline void hit_add(struct thread *thread, __u32 group, __u64 now)
{
	group &= THREAD_COUNTS - 1;
	thread->hits[group]++;
	if (thread->hits[group] >= PROBE_HITS_BATCH || now - thread->hits_ns >= PROBE_HITS_NS)
		hits_add_up(thread, now);
}

/* With the next hit they are added up. */
static __always_inline void walk_add(struct thread *thread, __u32 kind, __u64 began_ns)
{
	kind &= THREAD_COUNTS - 1;
	thread->walks[kind]++;
	thread->walk_ns[kind] += bpf_ktime_get_ns() - began_ns;
}

#endif
