/* target.h: whether a user may have something done to a process, as the kernel would decide it. */
#ifndef TS_API_TARGET_H
#define TS_API_TARGET_H

#include <stdint.h>
#include <sys/types.h>

#define TARGET_PID_MAX (1u << 22) /* PID_MAX_LIMIT of the kernel */
#define TARGET_WHY_MAX 256

/* Root may everything, another user what is done to a process that is wholly his own: all its user
 * ids are his, and it is no program with rights that he has not (set-uid, capabilities). The
 * process that was looked at is `ret_started_ticks`.
 * -ESRCH: there is none; -EACCES: he may not; each with a sentence in `why`. */
int target_check(uint32_t pid, uid_t uid, uint64_t *ret_started_ticks, char *why);

#endif
