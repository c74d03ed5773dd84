/* light.h: leads the hot functions of a process to our library in it, and away again.
 *
 * Each call blocks for milliseconds to seconds, so it belongs on a thread of the pool; the process
 * itself stands still for a moment only. It is done in full or not at all.
 */
#ifndef TS_DAEMON_LIGHT_H
#define TS_DAEMON_LIGHT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/store/query/remark.h"
#include "proto/light.h"

struct light_request {
	pid_t pid;
	uint64_t started_ticks; /* as in /proc */
	struct ts_light told;	/* by the library */
	bool limited; /* only while it is a process of `uid`, without further privileges */
	uid_t uid;
	uint64_t *mark; /* gets the time below, before the process runs again; atomic */
};

struct light_result {
	uint64_t time_ns;    /* calls that started before it were led as before */
	uint64_t stopped_ns; /* the longest time that the process was stopped */
	uint32_t stops;
	uint32_t functions;
};

/* -ENOTSUP: a function cannot be led elsewhere; -EAGAIN: no good moment came; -ESRCH, -EPERM, -EIO.
 * `why` says it. */
int light_put(const struct light_request *request, struct light_result *ret, struct remarks *why);
/* The functions are as they were. -EAGAIN with a time in *ret: but a thread is still in the code
 * that they led to, which has to stay. */
int light_take(const struct light_request *request, struct light_result *ret, struct remarks *why);

/* The file behind the library's stub, and where in it the stub is. -ESRCH: a probe there would not
 * see the process; -ENOENT, -EBADMSG: no stub is there. */
int light_stub_open(const struct light_request *request, int *ret_fd, uint64_t *ret_offset);

#endif
