/* light.h: leads the hot functions of a process to our library in it, and away again.
 *
 * Each call blocks for milliseconds to seconds, or as long as the process likes, so it belongs in a
 * helper; the process itself stands still for a moment only. It is done in full or not at all.
 */
#ifndef TS_DAEMON_LIGHT_H
#define TS_DAEMON_LIGHT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/store/query/remark.h"
#include "proto/light.h"

/* A change happens or is withdrawn, whichever is decided first. */
enum light_change { LIGHT_OPEN, LIGHT_BEGUN, LIGHT_WITHDRAWN };

/* Memory that whoever asks for a change shares with whoever makes it; all of it is atomic. The
 * library reports what starts while the functions are led to it. */
struct light_span {
	uint64_t from_ns, until_ns; /* written while the process is stopped; 0: not yet */
	uint32_t put, take;	    /* enum light_change */
};

struct light_request {
	pid_t pid;
	uint64_t started_ticks; /* as in /proc */
	struct ts_light told;	/* by the library */
	bool limited; /* only while it is a process of `uid`, without further privileges */
	uid_t uid;
	struct light_span *span;
	const int *leash; /* a socket: once the other end is closed, nothing begins; NULL: none */
};

struct light_result {
	uint64_t stopped_ns; /* the longest time that the process was stopped */
	uint32_t stops;
	uint32_t functions;
};

/* -ENOTSUP: a function cannot be led elsewhere; -EAGAIN: no good moment came; -ECANCELED: it
 * was withdrawn; -ESRCH, -EPERM, -EIO. `why` says it. */
int light_put(const struct light_request *request, struct light_result *ret, struct remarks *why);
/* The functions are as they were. -EAGAIN with an end of the span: but a thread is still in the
 * code that they led to, which has to stay. */
int light_take(const struct light_request *request, struct light_result *ret, struct remarks *why);

/* The file behind the library's stub, and where in it the stub is. -ESRCH: a probe there would not
 * see the process; -ENOENT, -EBADMSG: no stub is there. */
int light_stub_open(const struct light_request *request, int *ret_fd, uint64_t *ret_offset);

#endif
