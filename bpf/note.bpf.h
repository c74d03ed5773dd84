/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* note.bpf.h: reads arguments at a place that a library's code names itself (USDT): in each build
 * they are somewhere else, so the daemon says where (daemon/probe/note.h). */
#ifndef TS_NOTE_BPF_H
#define TS_NOTE_BPF_H

#include "bpf/common.bpf.h"

#define REGISTER_WORDS (sizeof(struct pt_regs) / sizeof(__u64))

/* By PROBE_NOTE_KEY; written by the daemon before there is a probe. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, PROBE_COPIES_MAX *PROBE_NOTES_MAX);
	__type(key, __u32);
	__type(value, struct probe_note);
} notes SEC(".maps");

static __always_inline __u64 note_register(const struct thread *thread, __u32 n)
{
	const __u64 *word = (const __u64 *)&thread->copied;

	/* One register for the check and the use: a 6.1 verifier does not link copies. */
	asm volatile("" : "+r"(n));
	return n < REGISTER_WORDS ? word[n] : 0;
}

/* The upper bits of a register or of memory are somebody else's. */
static __always_inline __u64 note_narrow(const struct probe_operand *operand, __u64 value)
{
	__u32 unused = 64 - 8 * (operand->width & 15);

	if (unused >= 64)
		return value;
	value <<= unused;
	return operand->is_signed ? (__u64)((__s64)value >> unused) : value >> unused;
}

/* Registers are in the thread. False: memory that it is in cannot be read. */
static __always_inline bool note_read(const struct thread *thread,
				      const struct probe_operand *operand, __u64 *ret)
{
	__u64 value = (__u64)operand->value;

	if (operand->from == PROBE_OPERAND_CONSTANT) {
		*ret = value;
		return true;
	}
	if (operand->from == PROBE_OPERAND_REGISTER) {
		value = note_register(thread, operand->base);
	} else {
		value += note_register(thread, operand->base);
		value += note_register(thread, operand->index) * operand->scale;
		if (bpf_probe_read_user(&value, sizeof(value), (void *)value))
			return false;
	}
	*ret = note_narrow(operand, value);
	return true;
}

#endif
