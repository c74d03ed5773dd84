/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* tensor.bpf.h: reports of small blocks: they change the sums and are no events.
 *
 * A report says the size of what is given back, too: so a block is followed from its first report
 * to its last or not at all, and nothing must be remembered of it.
 */
#ifndef TS_TENSOR_BPF_H
#define TS_TENSOR_BPF_H

#include "bpf/common.bpf.h"

/* By who reports; read by the daemon, which also removes those of processes that have ended. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, PROBE_SUMS_MAX);
	__type(key, struct probe_sums_key);
	__type(value, struct probe_sums);
} sums SEC(".maps");

static __always_inline bool tensor_is_small(struct pt_regs *ctx)
{
	__s64 bytes = PT_REGS_PARM2(ctx);

	return (__u64)(bytes < 0 ? -bytes : bytes) < settings.tensor_bytes;
}

/* The allocator's lock is held, so nobody else writes them. As with events, who only gives back has
 * no sums (mempool.c). */
static __always_inline void tensor_add_up(struct pt_regs *ctx, __u64 now)
{
	struct probe_sums_key key = { .copy = PT_REGS_IP(ctx),
				      .tgid = bpf_get_current_pid_tgid() >> 32,
				      .device = (__u32)PT_REGS_PARM5(ctx) >> 8 & 0xff };
	struct probe_sums none = {}, *of = bpf_map_lookup_elem(&sums, &key);

	if (!of) {
		if ((__s64)PT_REGS_PARM2(ctx) < 0)
			return;
		bpf_map_update_elem(&sums, &key, &none, BPF_NOEXIST);
		of = bpf_map_lookup_elem(&sums, &key);
	}
	if (!of) {
		LOSE(dropped);
		return;
	}
	of->used_bytes = PT_REGS_PARM3(ctx);
	of->bytes = PT_REGS_PARM4(ctx);
	if (of->used_bytes > of->peak_used_bytes)
		of->peak_used_bytes = of->used_bytes;
	if (of->bytes > of->peak_bytes)
		of->peak_bytes = of->bytes;
	of->told_ns = now;
}

#endif
