/* target.h: whether a user may act on a process, by the kernel's rules. */
#ifndef TS_API_TARGET_H
#define TS_API_TARGET_H

#include <stdint.h>
#include <sys/types.h>

#include "proto/control.pb-c.h"

#define TARGET_PID_MAX (1u << 22) /* PID_MAX_LIMIT of the kernel */

/* Root may do everything, another user may act on a process that is entirely their own: all its
 * user ids are theirs, and its program has no extra privileges (set-uid, capabilities). The checked
 * process is identified by `ret_started_ticks`.
 * -ESRCH: there is none; -EACCES: no permission; each with a reason, whose argument is the pid. */
int target_check(uint32_t pid, uid_t uid, uint64_t *ret_started_ticks,
		 Tracesmith__V1__Remark__Reason *ret_why);

#endif
