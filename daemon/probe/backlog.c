/* backlog: an allocation for each record. There are few at most times, and up to 10,000 while a
 * process starts whose mappings are being looked at. */
#include "daemon/probe/backlog.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct waiting {
	struct list link;
	size_t size;
	_Alignas(max_align_t) char record[];
};

static struct waiting *backlog_oldest(const struct backlog *backlog)
{
	return list_item(backlog->records.next, struct waiting, link);
}

void backlog_init(struct backlog *backlog, size_t max)
{
	*backlog = (struct backlog){ .max = max };
	list_init(&backlog->records);
}

void backlog_clear(struct backlog *backlog)
{
	while (!backlog_is_empty(backlog))
		backlog_drop_first(backlog);
}

bool backlog_is_full(const struct backlog *backlog)
{
	return backlog->bytes >= backlog->max;
}

int backlog_put(struct backlog *backlog, const void *record, size_t size)
{
	struct waiting *waiting = malloc(sizeof(*waiting) + size);

	if (!waiting)
		return -ENOMEM;
	waiting->size = size;
	memcpy(waiting->record, record, size);
	list_append(&backlog->records, &waiting->link);
	backlog->bytes += size;
	return 0;
}

const void *backlog_first(const struct backlog *backlog, size_t *ret_size)
{
	const struct waiting *waiting;

	if (backlog_is_empty(backlog))
		return NULL;
	waiting = backlog_oldest(backlog);
	*ret_size = waiting->size;
	return waiting->record;
}

void backlog_drop_first(struct backlog *backlog)
{
	struct waiting *waiting = backlog_oldest(backlog);

	list_remove(&waiting->link);
	backlog->bytes -= waiting->size;
	free(waiting);
}
