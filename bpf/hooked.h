/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* hooked.h: what the daemon asks about the code of those who map a file. Lists and code are in the
 * memory of the reader, where it maps the file as well.
 */
#ifndef TS_HOOKED_BPF_H
#define TS_HOOKED_BPF_H

#include "proto/event.h"

#define HOOKED_READERS 64
#define HOOKED_CODE    16   /* bytes of a function that are compared, at most */
#define HOOKED_RANGES  2048 /* at least as many as fit an iterator's buffer, 32 KiB */

/* A mapping with a page of its own: what it has there may not be what the file has. */
struct hooked_range {
	__u64 start;
	__u32 pid;
	__u32 zero;
};

/* What the file has where a probe goes, from the function's start on. */
struct hooked_code {
	__u64 offset; /* in the file */
	__u32 size;
	__u8 byte[HOOKED_CODE];
	__u32 zero;
};

/* A process whose code differs, or could not be looked at now. */
struct hooked_found {
	__u32 pid;
	__u32 busy;
};

struct hooked_look {
	__u64 address; /* where the reader maps the file */
	__u64 range;   /* an array of them, ascending by pid */
	__u64 code;    /* the same */
	__u32 ranges, codes;
	__u32 done; /* answered: all mappings were seen */
	__u32 zero;
};

#endif
