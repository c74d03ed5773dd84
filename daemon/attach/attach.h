/* attach.h: puts our library into a process that runs already, and takes it out again.
 *
 * Each call blocks for some milliseconds to seconds, so it belongs on a thread of the pool; the
 * ptrace work is done on a thread that ends with the call. What goes wrong is rolled back: the
 * process goes on as if nothing had been, and `why` has a sentence that says what to do.
 */
#ifndef TS_ATTACH_H
#define TS_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proto/hello.h"

#define ATTACH_WHY_MAX 256

struct attach_request {
	pid_t pid;
	uint64_t started_ticks; /* of the process that is meant, as in /proc; 0: whoever it is */
	int library;		/* descriptor of our library's file */
	struct ts_settings wanted;
	bool seccomp; /* try it although a seccomp filter might kill the process */
	bool limited; /* only while it is a process of `uid`, with no rights beside those */
	uid_t uid;
};

struct attach_result {
	int socket;	     /* our end, connected to the library; the caller's */
	uint64_t handle;     /* of the library in the process, for attach_unload */
	uint64_t stopped_ns; /* how long a thread of it stood still, at the longest */
	uint32_t stops;	     /* how often */
	uint64_t total_ns;
	bool loaded_before; /* the library was still there from an earlier time */
};

/* -ESRCH: no such process, or it ended; -EPERM: not the rights, or another tracer; -ENOEXEC: a
 * process that this cannot be done to; -ENODEV: it does not use CUDA (yet); -EALREADY: carries the
 * library and is connected; -EAGAIN: no thread of it could be used now; -EIO: it failed and was
 * rolled back. */
int attach_check(const struct attach_request *request, char *why);
int attach_run(const struct attach_request *request, struct attach_result *ret, char *why);

/* After the library has said that it is GONE and unloadable, and its connection has ended. */
int attach_unload(pid_t pid, uint64_t started_ticks, uint64_t handle, char *why);

#endif
