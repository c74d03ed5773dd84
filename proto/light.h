/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* light.h: what the daemon and the library agree on for light mode.
 *
 * In light mode the library reports calls of hot functions itself, where a probe of the kernel
 * would cost ten times as much. It maps a region near the driver library and tells the daemon where
 * (struct ts_light). The daemon stops the process, fills the region and makes each hot function
 * jump into it: not at the first instruction, which belongs to probes of the kernel, but at the
 * second. There it saves registers and calls the library's hook; then the instructions that the
 * jump has displaced run, and the function goes on behind them.
 *
 *   data: struct ts_light_head, then a struct ts_light_call for each site
 *   code: TS_LIGHT_CODE bytes for each site
 *
 * A call that is to have a stack goes another way: the hook calls the library's stub with the
 * registers that it found, and a probe of the kernel there reports the call. The daemon allows it
 * (struct ts_light_stacks) while the probe is on.
 */
#ifndef TS_LIGHT_H
#define TS_LIGHT_H

#include <stdint.h>

#define TS_LIGHT_SITES	     160
#define TS_LIGHT_CODE	     128
#define TS_LIGHT_SLOTS	     10
#define TS_LIGHT_DATA_BYTES  (20u << 10)
#define TS_LIGHT_CODE_BYTES  (TS_LIGHT_SITES * TS_LIGHT_CODE)
#define TS_LIGHT_BYTES	     (TS_LIGHT_DATA_BYTES + TS_LIGHT_CODE_BYTES)
#define TS_LIGHT_HOOK_SYMBOL "tracesmith_light"

/* library to daemon */
struct ts_light {
	uint32_t message;  /* TS_MESSAGE_LIGHT */
	uint32_t in_place; /* 1: an earlier daemon has led the functions here */
	uint64_t region;   /* TS_LIGHT_BYTES, private and anonymous: data, then code */
	uint64_t hook;	   /* void (const struct ts_light_call *, const uint64_t saved[]) */
	uint64_t stub;	   /* void (const struct ts_registers *, uint32_t fn | flags << 16) */
	char text[128];	   /* region 0: why light mode is impossible, a sentence */
};

/* daemon to library: hot functions lead to it now, or will not; and back, when it was to answer and
 * no thread takes other stacks any more */
struct ts_light_stacks {
	uint32_t message;   /* TS_MESSAGE_STACKS */
	uint32_t stacks;    /* enum ts_stacks, that it takes; not TS_STACKS_DEFAULT */
	uint64_t sample_ns; /* mean time between two samples of a thread */
};

/* Beside the stacks: it is to answer. */
#define TS_STACKS_ANSWER 0x100u

/* library to daemon, while it walks stacks itself (walk.h), once a second at most: how long some of
 * its walks took since the last time, whether their stacks were known or not */
struct ts_light_walks {
	uint32_t message; /* TS_MESSAGE_WALKS */
	uint32_t count;
	uint64_t ns; /* of all of them */
};

/* No walk takes longer, unless its thread has lost its processor. */
#define TS_LIGHT_WALK_MAX_NS 50000u

/* The code of the stub: nop, ret. */
#define TS_LIGHT_STUB                                                                              \
	{                                                                                          \
		0x90, 0xc3                                                                         \
	}

enum ts_light_from { TS_LIGHT_ARG = 1, TS_LIGHT_FIELD };

/* A value of a call: `width` bytes (4 or 8) go to byte `to` of struct ts_api. */
struct ts_light_slot {
	uint8_t from; /* enum ts_light_from */
	uint8_t arg;  /* argument, counted from 0 */
	uint8_t width;
	uint8_t to;
	uint16_t offset; /* FIELD: into what the argument points to */
	uint16_t reserved;
};

struct ts_light_call {
	uint16_t fn;
	uint16_t flags;	    /* enum ts_event_flag */
	uint8_t slot_count; /* at most TS_LIGHT_SLOTS */
	uint8_t frame;	    /* words from saved[0] up to the return address */
	uint8_t sampled;    /* 1: stacks of its calls may be taken */
	uint8_t kernel_arg; /* 1 + the argument with the handle of the kernel or graph; 0: none */
	uint64_t entry;	    /* address of its first instruction behind endbr64 */
	struct ts_light_slot slot[TS_LIGHT_SLOTS];
};

struct ts_light_head {
	uint64_t hook;	/* as in struct ts_light */
	uint32_t sites; /* functions that lead here; 0: none does, and the region can go */
	uint32_t reserved;
};

/* What the code of a site saves before it calls the hook, lowest address first. */
enum ts_light_saved {
	TS_LIGHT_RBP,
	TS_LIGHT_RBX,
	TS_LIGHT_R11,
	TS_LIGHT_R10,
	TS_LIGHT_R9,
	TS_LIGHT_R8,
	TS_LIGHT_RCX,
	TS_LIGHT_RDX,
	TS_LIGHT_RSI,
	TS_LIGHT_RDI,
	TS_LIGHT_STATUS,
	TS_LIGHT_RAX,
	TS_LIGHT_SAVED
};

_Static_assert(sizeof(struct ts_light_head) + TS_LIGHT_SITES * sizeof(struct ts_light_call) <=
		       TS_LIGHT_DATA_BYTES,
	       "the data has room for all sites");
_Static_assert(sizeof(struct ts_light) == 160 && sizeof(struct ts_light_stacks) == 16 &&
		       sizeof(struct ts_light_walks) == 16,
	       "messages have one size for all compilers");
_Static_assert(TS_LIGHT_DATA_BYTES % 4096 == 0, "code starts on a page of its own");

#endif
