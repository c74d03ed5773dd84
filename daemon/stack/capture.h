/* capture.h: the frames of threads, native ones and those of Python, each thread's of one moment as
 * far as can be told. */
#ifndef TS_STACK_CAPTURE_H
#define TS_STACK_CAPTURE_H

#include "daemon/native/native.h"
#include "daemon/python/python.h"
#include "daemon/stack/task.h"

struct captured_frame {
	const struct python_frame *python; /* or */
	const struct native_frame *native;
	int64_t interpreter; /* of Python's */
};

/* A thread's. Valid during the call. */
struct captured {
	const struct task *task;
	struct captured_frame *frame; /* innermost first */
	size_t count;
	bool has_python;		   /* an interpreter knows it */
	bool moving, cut, broken;	   /* see python.h; moving: or the native stack */
	const struct native_stack *native; /* NULL: none */
};

/* Where they are read from; either may be NULL. */
struct capture {
	struct python *python;
	struct native *native;
	int (*each)(void *data, const struct captured *captured);
	void *data;
};

/* Calls `each` for every thread, in any order. *ret_cut: Python may have more. -ESRCH: the process
 * has ended; else as python_take, native_begin and `each`. */
int capture_threads(const struct capture *capture, const struct tasks *tasks, bool *ret_cut);

#endif
