/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* rule.h: how to get from a frame to its caller's, at one address of a program.
 *
 * The CFA is the stack pointer before the call: the return address is right below it. Of the
 * registers only RSP and RBP are followed. Offsets count words of 8 bytes.
 */
#ifndef TS_RULE_H
#define TS_RULE_H

#include "proto/event.h"

enum rule_kind {
	RULE_NONE,   /* nothing is known of a function here; `cfa` is enum ts_stack_end: why */
	RULE_RSP,    /* CFA = rsp + cfa */
	RULE_RBP,    /* CFA = rbp + cfa */
	RULE_AT_RSP, /* CFA = *(rsp + cfa) */
	RULE_AT_RBP, /* CFA = *(rbp + cfa): a function that aligns its stack */
	RULE_SIGNAL, /* the kernel's frame of a signal: RULE_SIGNAL_* has the interrupted registers
		      */
	RULE_END,    /* the outermost function: it has no caller */
	RULE_BAD,    /* an expression or a register that is not followed, or a damaged file */
	RULE_LINK,   /* RULE_NONE, but its frame pointer led to a function that has a rule */
	RULE_KINDS
};

enum rule_rbp {
	RULE_RBP_SAME,	 /* the caller's is unchanged */
	RULE_RBP_AT_CFA, /* it is saved at CFA + rbp */
	RULE_RBP_AT_RBP, /* at this frame's RBP + rbp */
	RULE_RBP_LOST,	 /* somewhere else */
};

struct rule {
	__u8 kind; /* enum rule_kind */
	__u8 rbp_kind;
	__s16 rbp;
	__s32 cfa; /* 24 bits */
};

#define RULE_CFA_MAX ((1 << 23) - 1) /* in both directions */

/* Where in a signal's frame RBP, RSP and the address are, in words above its RSP. */
#define RULE_SIGNAL_RBP 15
#define RULE_SIGNAL_RSP 20
#define RULE_SIGNAL_PC	21

/* Rules that were needed so far, of all processes, in sets of two. Only the daemon writes: while
 * the key is 0 the rule changes. */
struct rule_slot {
	__u64 key; /* rule_key(), 0: free */
	__u64 rule;
};
#define RULE_SLOTS 65536

/* `seed`: of the process and what it maps; nobody can predict it. An address where a program was
 * interrupted may have another rule than the same one as a return address. */
static inline __u64 rule_key(__u64 seed, __u64 pc, __u32 returned)
{
	__u64 key = seed ^ (pc << 1 | returned);

	key = (key ^ key >> 32) * 0xff51afd7ed558ccd;
	key = (key ^ key >> 32) * 0xc4ceb9fe1a85ec53;
	key ^= key >> 32;
	return key ? key : 1;
}

/* Of all addresses in a page of code that has no rules at all. */
static inline __u64 rule_page_key(__u64 seed, __u64 pc)
{
	return rule_key(seed, ~(pc >> 12), 0);
}

/* `epoch`: how often the rules of the process have become void. All its epochs have other seeds. */
static inline __u64 rule_seed(__u64 process, __u64 secret, __u32 epoch)
{
	return rule_key(process ^ secret, epoch, 0);
}

static inline __u32 rule_set(__u64 key)
{
	return (__u32)key & (RULE_SLOTS - 2);
}

/* In 8 bytes that can be read at once, with bits of the key that it belongs to. */
static inline __u64 rule_pack(struct rule rule, __u16 check)
{
	return (__u64)rule.kind | (__u64)rule.rbp_kind << 4 | (__u64)check << 8 |
	       (__u64)(__u16)rule.rbp << 24 | (__u64)(__u32)rule.cfa << 40;
}

static inline __u16 rule_check(__u64 packed)
{
	return (__u16)(packed >> 8);
}

static inline struct rule rule_unpack(__u64 packed)
{
	return (struct rule){
		.kind = packed & 15,
		.rbp_kind = packed >> 4 & 15,
		.rbp = (__s16)(packed >> 24),
		.cfa = (__s32)((__s64)packed >> 40),
	};
}

/* 0: none is filed. On any thread, while rules are written; `mask`: of the sets that are used. */
static inline int rule_find(const struct rule_slot *slots, __u32 mask, __u64 key, struct rule *ret)
{
	const struct rule_slot *set = &slots[rule_set(key) & mask];
	__u64 packed;

	for (int i = 0; i < 2; i++) {
		if (__atomic_load_n(&set[i].key, __ATOMIC_ACQUIRE) != key)
			continue;
		packed = __atomic_load_n(&set[i].rule, __ATOMIC_RELAXED);
		*ret = rule_unpack(packed);
		return rule_check(packed) == (__u16)(key >> 48);
	}
	return 0;
}

#endif
