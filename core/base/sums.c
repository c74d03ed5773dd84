/* Sums: rows in one array, and a map from their keys to their numbers. */
#include "core/base/sums.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/vector.h"

static void *sums_add(struct sums *sums, const void *key, struct map_key place)
{
	char *row;

	if (VECTOR_ROOM(sums->row, sums->room, (sums->count + 1ull) * sums->row_bytes) < 0 ||
	    map_put(&sums->index, place, (void *)(sums->count + 1ull)) < 0)
		return NULL;
	sums->last = sums->count++;
	row = sums_row(sums, sums->last);
	memset(row, 0, sums->row_bytes);
	memcpy(row, key, sums->key_bytes);
	return row;
}

void *sums_get(struct sums *sums, const void *key, uint64_t max)
{
	struct map_key place;
	uintptr_t number;

	/* The next thing to add is often like the last. */
	if (sums->count && memcmp(sums_row(sums, sums->last), key, sums->key_bytes) == 0)
		return sums_row(sums, sums->last);
	/* The seed is an address, which nobody who could make keys knows. */
	place = map_key_of(key, sums->key_bytes, (uintptr_t)sums);
	number = (uintptr_t)map_get(&sums->index, place);
	if (!number)
		return sums->count < max ? sums_add(sums, key, place) : NULL;
	sums->last = (uint32_t)number - 1;
	return sums_row(sums, sums->last);
}

void sums_empty(struct sums *sums)
{
	map_empty(&sums->index);
	sums->count = 0;
}

void sums_release(struct sums *sums)
{
	map_clear(&sums->index);
	free(sums->row);
	*sums = (struct sums){ .row_bytes = sums->row_bytes, .key_bytes = sums->key_bytes };
}
