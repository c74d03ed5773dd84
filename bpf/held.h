/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* held.h: what the daemon asks about the memory locks of those who map a file.
 */
#ifndef TS_HELD_BPF_H
#define TS_HELD_BPF_H

#include "proto/event.h"

#define HELD_READERS 64
#define HELD_MAX     16

struct held_process {
	__u64 memory; /* tells two of them apart */
	__u64 owner;  /* who took the lock last */
	__u32 pid;    /* 0: not known */
	__u32 zero;
};

struct held_look {
	__u64 address; /* asked: where the reader maps the file */
	__u32 done;    /* all were looked at */
	__u32 count;   /* of those whose lock somebody has right now, the first ones */
	struct held_process process[HELD_MAX];
};

#endif
