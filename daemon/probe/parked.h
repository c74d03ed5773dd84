/* parked.h: processes whose records wait, because a stack among them does: the mappings of the
 * process are not known yet. Records of others go on. Each process has a lane of its own in the
 * intake meanwhile, so other inputs wait for what it has parked, as long as they wait for anybody.
 *
 * A parked process's records leave in the order in which they came, and before any that come later.
 * One that got no memory waits for what others have parked before.
 * It waits for a limited time, and for a share of the room that its user has; after that it goes on
 * as it is (`in_vain`).
 */
#ifndef TS_PROBE_PARKED_H
#define TS_PROBE_PARKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/list.h"
#include "core/base/quota.h"
#include "daemon/intake/intake.h"
#include "daemon/probe/backlog.h"

struct parked {
	struct list link;
	struct intake_lane lane;
	struct backlog backlog;
	uint32_t tgid, uid;
	uint64_t since_ns;
	bool goes_on; /* it waits no longer */
	bool in_vain; /* and what it has waited for is not there */
};

struct parking {
	struct list parked; /* the one that has waited longest first */
	uint32_t count;
	uint64_t wait_ns; /* how long a process waits */
	struct quota bytes;
};

/* For `max` bytes of records of processes that wait `wait_ns` at most. */
void parking_init(struct parking *parking, uint64_t max, uint64_t wait_ns);
void parking_clear(struct parking *parking);

/* NULL: it is not parked. */
struct parked *parking_find(const struct parking *parking, uint32_t tgid);
/* Parks a process of `uid` whose oldest record is of `time_ns`. Its lane is open; the caller sets
 * its receiver. NULL: no room. */
struct parked *parking_begin(struct parking *parking, uint32_t tgid, uint32_t uid,
			     struct intake *intake, uint32_t input, uint64_t time_ns,
			     uint64_t now_ns);
/* Keeps a copy. Beyond the room of its user the process goes on, and what came is still kept.
 * -ENOMEM: the record is lost. */
int parking_put(struct parking *parking, struct parked *parked, const void *record, size_t size);
/* Too much has come of processes that go on: nothing more should. */
bool parking_is_full(const struct parking *parking);
/* What the process waited for is there, or (`in_vain`) does not come. */
void parking_go_on(struct parking *parking, uint32_t tgid, bool in_vain);
void parking_all_go_on(struct parking *parking);
/* Those that have waited too long do so in vain. */
void parking_look(struct parking *parking, uint64_t now_ns);

/* Its oldest record, which leaves with the next function, if it may go now. NULL: none may. */
const void *parked_first(const struct parked *parked, size_t *ret_size);
void parked_drop_first(struct parking *parking, struct parked *parked);
/* Unless records of it are left. */
void parked_end_if_done(struct parking *parking, struct parked *parked);

#endif
