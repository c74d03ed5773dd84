/* Map: open addressing with linear probing. At most two thirds of the slots are taken, and no free
 * slot is between a key and the slot that its hash selects. */
#include "core/base/map.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "core/base/invariant.h"

#define MAP_SIZE_MIN 16

static size_t map_home(const struct map *map, struct map_key key)
{
	return map_key_hash(key, map->seed) & (map->size - 1);
}

/* The slot of the key, or the free one where it belongs. */
static struct map_slot *map_seek(const struct map *map, struct map_key key)
{
	size_t i = map_home(map, key);

	while (map->slot[i].value && (map->slot[i].key.a != key.a || map->slot[i].key.b != key.b))
		i = (i + 1) & (map->size - 1);
	return &map->slot[i];
}

static int map_resize(struct map *map, size_t size)
{
	struct map wider = { .size = size, .count = map->count };

	wider.slot = calloc(size, sizeof(*wider.slot));
	if (!wider.slot)
		return -ENOMEM;
	wider.seed = (uintptr_t)wider.slot * 0x9e3779b97f4a7c15ull;
	for (size_t i = 0; i < map->size; i++)
		if (map->slot[i].value)
			*map_seek(&wider, map->slot[i].key) = map->slot[i];
	free(map->slot);
	*map = wider;
	return 0;
}

struct map_key map_key_of(const void *bytes, size_t size, uint64_t seed)
{
	XXH128_hash_t hash = XXH3_128bits_withSeed(bytes, size, seed);

	return (struct map_key){ hash.low64, hash.high64 };
}

void *map_get(const struct map *map, struct map_key key)
{
	return map->count ? map_seek(map, key)->value : NULL;
}

int map_put(struct map *map, struct map_key key, void *value)
{
	struct map_slot *slot;
	int r;

	if (map->count >= map->size / 3 * 2) {
		r = map_resize(map, map->size ? map->size * 2 : MAP_SIZE_MIN);
		if (r < 0)
			return r;
	}
	slot = map_seek(map, key);
	if (!slot->value)
		map->count++;
	assert_invariant(map->count <= map->size / 3 * 2);
	*slot = (struct map_slot){ key, value };
	return 0;
}

/* Moves back what probing carried past the slot that becomes free. */
static void map_close_gap(struct map *map, size_t gap)
{
	size_t mask = map->size - 1;

	for (size_t i = (gap + 1) & mask; map->slot[i].value; i = (i + 1) & mask) {
		size_t home = map_home(map, map->slot[i].key);

		if (((i - home) & mask) < ((i - gap) & mask))
			continue;
		map->slot[gap] = map->slot[i];
		gap = i;
	}
	map->slot[gap].value = NULL;
}

void *map_remove(struct map *map, struct map_key key)
{
	struct map_slot *slot;
	void *value;

	if (!map->count)
		return NULL;
	slot = map_seek(map, key);
	value = slot->value;
	if (!value)
		return NULL;
	map_close_gap(map, (size_t)(slot - map->slot));
	map->count--;
	/* After a burst the memory is freed; if that fails the map is merely large. */
	if (map->size > MAP_SIZE_MIN && map->count < map->size / 8)
		(void)map_resize(map, map->size / 2);
	return value;
}

void map_empty(struct map *map)
{
	bool large = map->size > MAP_SIZE_MIN && map->count < map->size / 8;

	if (map->count)
		memset(map->slot, 0, map->size * sizeof(*map->slot));
	map->count = 0;
	if (large)
		(void)map_resize(map, map->size / 2);
}

void map_clear(struct map *map)
{
	free(map->slot);
	*map = (struct map){ 0 };
}
