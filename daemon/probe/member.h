/* member.h: of the links to a library: a process that maps it; for links.c and links_state.c. */
#ifndef TS_MEMBER_H
#define TS_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/base/map.h"
#include "core/base/time.h"
#include "daemon/probe/owned.h"

#define MEMBER_LOOK_NS NS_PER_S /* whether those with a link still have a first thread */

struct member {
	struct list link;
	uint32_t pid;
	bool open, whole; /* as wanted, while it is not left out */
	bool out;
	struct owned_link *own;	    /* NULL: no link of its own */
	struct owned_link *closing; /* the last one, until it is off */
	uint64_t
		unseen_ns; /* since then it should be watched and is not, 0: it is, or should not */
	bool told;
	bool doubt;    /* that since a try that failed, perhaps as it has ended */
	bool outdated; /* a link that is being made now is to a program that it runs no more */
	bool hooked;   /* so the last try failed */
	uint32_t failures;
	uint64_t retry_ns; /* not before that */
};

static inline struct member *member_find(const struct map *by_pid, uint32_t pid)
{
	return map_get(by_pid, (struct map_key){ pid, 0 });
}

static inline bool member_is_open(const struct member *member)
{
	return member->open && !member->out;
}

#endif
