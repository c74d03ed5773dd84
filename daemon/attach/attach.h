/* attach.h: loads the library into a running process, and unloads it again.
 *
 * Each call blocks for milliseconds to seconds, so it belongs on a thread of the pool; the ptrace
 * work is done on a thread that ends with the call. Failures are rolled back: the process continues
 * as if nothing had happened, and `why` says why: one remark, none where there was no memory for
 * it.
 */
#ifndef TS_ATTACH_H
#define TS_ATTACH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/store/query/remark.h"
#include "proto/hello.h"

struct attach_request {
	pid_t pid;
	uint64_t started_ticks; /* of the process that is meant, as in /proc; 0: any */
	int library;		/* descriptor of the library's file */
	struct ts_settings wanted;
	bool seccomp; /* try it although a seccomp filter might kill the process */
	bool limited; /* only while it is a process of `uid`, without further privileges */
	uid_t uid;
	pid_t daemon;	  /* never attached to; 0: the caller */
	const int *leash; /* a socket: when the other end is closed, all is undone; NULL: none */
};

struct attach_result {
	int socket;	     /* our end, connected to the library; the caller's */
	uint64_t handle;     /* of the library in the process, for attach_unload */
	uint64_t stopped_ns; /* the longest time a thread of it was stopped */
	uint32_t stops;	     /* how often */
	uint64_t total_ns;
	bool loaded_before; /* the library was already there from an earlier attach */
};

/* -ECANCELED: the leash; -ESRCH: no such process, or it ended; -EPERM: no permission, or another
 * tracer; -ENOEXEC: not supported for this process; -ENODEV: it does not use CUDA (yet); -EALREADY:
 * carries the library and is connected; -EAGAIN: no thread of it was free, or a lock was held all
 * the time; -EIO: it failed and was rolled back. */
int attach_check(const struct attach_request *request, struct remarks *why);
int attach_run(const struct attach_request *request, struct attach_result *ret,
	       struct remarks *why);

/* `handle` 0: an earlier daemon has loaded it. After the library has reported that it is GONE and
 * unloadable, and its connection has ended. -EAGAIN: as above, or a thread of it was inside. */
int attach_unload(pid_t pid, uint64_t started_ticks, uint64_t handle, struct remarks *why);

/* Where executable memory without a file is ours: left behind, if nobody attaches. */
#define ATTACH_PLACE 0x545300000000ull
/* Removes what was left in a process because the daemon and its helper were killed while they
 * attached. 1: removed; 0: there was nothing, or who made it lives. */
int attach_tidy(pid_t pid, uint64_t started_ticks, struct remarks *why);

#endif
