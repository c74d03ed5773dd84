/* history.h: the last records of processes that nobody follows, in a fixed number of bytes, to know
 * the mappings of a process that is gone before it could be looked at.
 */
#ifndef TS_MAPS_HISTORY_H
#define TS_MAPS_HISTORY_H

#include <stddef.h>
#include <stdint.h>

#include "daemon/maps/record.h"

/* Two halves: when one is full, the other, older one is forgotten. */
struct maps_history {
	size_t size; /* of a half */
	uint8_t *half[2];
	size_t used[2];
	unsigned int current;
};

int maps_history_init(struct maps_history *history, size_t size);
void maps_history_free(struct maps_history *history);
void maps_history_add(struct maps_history *history, const struct maps_record *record);
/* Calls for each record of the process, oldest first. */
void maps_history_each(const struct maps_history *history, uint32_t pid,
		       void (*call)(void *data, const struct maps_record *record), void *data);

#endif
