/* maps_history: the last records of processes that nobody follows. A record is stored with its path
 * after it; records of both halves are in order of time.
 */
#include "daemon/maps/history.h"

#include <errno.h>
#include <string.h>

#include "core/base/cleanup.h"

struct entry {
	size_t size;
	struct maps_record record;
	char path[];
};

int maps_history_init(struct maps_history *history, size_t size)
{
	_cleanup_(freep) uint8_t *first = malloc(size), *second = malloc(size);

	if (!first || !second)
		return -ENOMEM;
	*history = (struct maps_history){ .size = size, .half = { TAKE(first), TAKE(second) } };
	return 0;
}

void maps_history_free(struct maps_history *history)
{
	free(history->half[0]);
	free(history->half[1]);
	*history = (struct maps_history){ 0 };
}

void maps_history_add(struct maps_history *history, const struct maps_record *record)
{
	const char *path = record->path ?: "";
	size_t length = strlen(path) + 1, align = _Alignof(struct entry);
	size_t size = (sizeof(struct entry) + length + align - 1) / align * align;
	struct entry *entry;

	if (size > history->size)
		return;
	if (history->used[history->current] + size > history->size) {
		history->current ^= 1;
		history->used[history->current] = 0;
	}
	entry = (void *)(history->half[history->current] + history->used[history->current]);
	entry->size = size;
	entry->record = *record;
	entry->record.path = entry->path;
	memcpy(entry->path, path, length);
	history->used[history->current] += size;
}

void maps_history_each(const struct maps_history *history, uint32_t pid,
		       void (*call)(void *data, const struct maps_record *record), void *data)
{
	unsigned int i;

	for (i = 0; i < 2; i++) {
		unsigned int half = history->current ^ 1 ^ i;
		const struct entry *entry;
		size_t at;

		for (at = 0; at < history->used[half]; at += entry->size) {
			entry = (const void *)(history->half[half] + at);
			if (entry->record.pid == pid)
				call(data, &entry->record);
		}
	}
}
