/* backlog.h: records that were taken out of the ring of BPF, so that it does not fill up, and have
 * to wait, because what is before them does. They leave in the order in which they came.
 */
#ifndef TS_PROBE_BACKLOG_H
#define TS_PROBE_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>

#include "core/base/list.h"

struct backlog {
	struct list records;
	size_t bytes, max;
};

/* For `max` bytes of records. */
void backlog_init(struct backlog *backlog, size_t max);
void backlog_clear(struct backlog *backlog);

static inline bool backlog_is_empty(const struct backlog *backlog)
{
	return list_empty(&backlog->records);
}

/* There may be no room for another record. */
bool backlog_is_full(const struct backlog *backlog);
/* Takes a copy. -ENOMEM: it is lost. */
int backlog_put(struct backlog *backlog, const void *record, size_t size);
/* The oldest one, which leaves the backlog with its next function. NULL: there is none. */
const void *backlog_first(const struct backlog *backlog, size_t *ret_size);
void backlog_drop_first(struct backlog *backlog);

#endif
