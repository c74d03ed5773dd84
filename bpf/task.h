/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* task.h: what the daemon reads about a thread from the task iterator. */
#ifndef TS_TASK_BPF_H
#define TS_TASK_BPF_H

#include "proto/event.h"

#define TASK_READERS 1024

struct task_registers {
	__u32 tid;
	__u32 on_cpu;	       /* it runs, and the registers are old */
	__u64 switches_before; /* how often it left a CPU, read before all else and after it */
	__u64 switches_after;
	__u64 pc, sp, bp; /* of the program */
};

#endif
