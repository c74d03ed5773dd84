/* owner.h: which user answers for a process. In a user namespace a user has many uids; they all
 * count as the one that made the namespace. */
#ifndef TS_OWNER_H
#define TS_OWNER_H

#include <stdint.h>

#include "proto/event.h"

/* Of a process with this uid: itself, or the owner of the outermost user namespace that it is in
 * and we are not. Root's namespaces (containers) make nobody root: there it is the uid. */
uint32_t owner_of(uint32_t pid, uint32_t uid);
/* The same if the uid is not known yet; of a process that is gone, 0. */
uint32_t owner_of_process(uint32_t pid);

/* What makes a process known, as the kernel's programs say it at its first call: TS_EVENT_PROCESS,
 * of that time, with its user, its owner and when it started. -ESRCH: there is none, and nothing of
 * these is known. */
int owner_announcement(uint32_t pid, uint64_t time_ns, struct ts_event *ret);

#endif
