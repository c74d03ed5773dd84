/* child.h: a request that a process of its own answers (daemon/query/helper.h).
 *
 * The caller's thread passes its replies on; the process is killed when its time is over, and
 * nothing of it remains.
 */
#ifndef TS_API_CHILD_H
#define TS_API_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/store/query/query.h"
#include "core/store/query/remark.h"

#define CHILD_TEXT 80

struct child {
	int zygote; /* daemon/helper/spawn.h */
	uint32_t role;
	struct query_job query; /* its database and what stands before `send`; what follows is not
				   used */
	/* A reply in its frame, which it takes over. It may wait for the reader: that time does not
	 * count. -ECANCELED: nobody wants it any more. */
	int (*pass)(void *data, uint8_t *frame, size_t size, bool last);
	/* Its process runs, and may be killed (spawn_kill) by any thread; -1: no longer. */
	void (*running)(void *data, int pidfd);
	void *data;
};

/* 0: the last reply was passed on, or nobody wants it. Otherwise why there is none: a reason, and
 * its argument in `text`. */
Tracesmith__V1__Remark__Reason child_run(const struct child *child, char text[CHILD_TEXT]);

#endif
