/* native.h: the native stacks of the threads of another process, which goes on meanwhile.
 *
 * A thread on no CPU is looked at before and after its stack is read; if it has not been on one in
 * between, both are of one moment. One that runs is sampled, which takes registers and stack at
 * once. Nothing read is believed (daemon/unwind/walk.h), and all of it may take as long as the
 * process likes, so it is never done on the loop.
 */
#ifndef TS_NATIVE_H
#define TS_NATIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "daemon/native/look.h"
#include "daemon/unwind/walk.h"

struct native;

struct native_frame {
	uint64_t pc, sp;
	const char *function; /* demangled; NULL: no name was found */
	const char *file;     /* as the process sees its path; NULL: in none */
	uint64_t offset;      /* in the file */
};

struct native_stack {
	uint32_t tid;
	struct native_frame *frame; /* innermost first */
	size_t count;		    /* 0: the thread has ended, or could not be read */
	enum ts_stack_end end;
	bool linked; /* see walk.h */
	bool sampled;
	/* Of a sampled one: its frames at the end. */
	struct native_frame *later;
	size_t later_count; /* 0: it did not run any more, or nobody asked */
	bool changed;	    /* it did not stay as it was while it was read */
};

/* Of one process and what it runs now. The look is the caller's. */
int native_new(uint32_t pid, const struct look *look, struct native **ret);
struct native *native_free(struct native *native);

/* Of these threads, at most LIMIT_NATIVE_THREADS: reads registers and stacks. `sample`: also of
 * those on no CPU, as soon as they are on one. -ESRCH: the process has ended; else as look_at. */
int native_begin(struct native *native, const uint32_t *tid, size_t count, bool sample);
/* Whatever is to be of the same moment has been read by now: looks at them again, and finds the
 * frames and their names. `again`: samples those once more that were. Stacks are in the order of
 * `tid` and valid until the next time. */
int native_end(struct native *native, bool again, const struct native_stack **ret);
/* No file of the process stays open until it is asked for again. */
void native_rest(struct native *native);

CLEANUP_DEFINE(struct native, native_free)

#endif
