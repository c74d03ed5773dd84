/* extent.h: how many operations a window has, before they are all read. */
#ifndef TS_CLIENT_EXTENT_H
#define TS_CLIENT_EXTENT_H

#include <stdint.h>

#include "client/link/link.h"

/* -E2BIG: more than so many, which it has complained of. `pid` 0: of all processes. */
int extent_check(struct link *link, int64_t pid, uint64_t since_ns, uint64_t until_ns, int64_t max);

#endif
