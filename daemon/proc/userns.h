/* userns.h: who made the user namespaces that a process is in. */
#ifndef TS_USERNS_H
#define TS_USERNS_H

#include <stdint.h>

/* For a process of this uid, as owner.h has it. Who asks must be allowed to trace the process. */
uint32_t userns_owner(uint32_t pid, uint32_t uid);

#endif
