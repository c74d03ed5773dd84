/* map.h: a hash table from 16-byte keys to pointers. It owns its slots, never the values.
 *
 * Zeroed memory is an empty map. Keys come from other processes, so the hash is seeded with an
 * address that they do not know. */
#ifndef TS_MAP_H
#define TS_MAP_H

#include <stddef.h>
#include <stdint.h>

struct map_key {
	uint64_t a, b;
};

struct map_slot {
	struct map_key key;
	void *value; /* NULL: free */
};

struct map {
	struct map_slot *slot;
	size_t size; /* slots, a power of two, or 0 */
	size_t count;
	uint64_t seed;
};

/* One multiplication to 128 bits, folded, as in wyhash (Wang Yi): whoever makes keys knows neither
 * factor. */
static inline uint64_t map_key_hash(struct map_key key, uint64_t seed)
{
	uint64_t other = (seed << 32 | seed >> 32) ^ 0xa0761d6478bd642f;
	unsigned __int128 product = (unsigned __int128)(key.a ^ seed) * (key.b ^ other);

	return (uint64_t)(product ^ product >> 64);
}

void *map_get(const struct map *map, struct map_key key);
/* The key for bytes of any size: a hash of them, which no two happen to share. What others could
 * craft gets a seed that they do not know, or is compared. */
struct map_key map_key_of(const void *bytes, size_t size, uint64_t seed);
/* Replaces the value of the key. -ENOMEM: nothing is changed. */
int map_put(struct map *map, struct map_key key, void *value);
void *map_remove(struct map *map, struct map_key key);
/* Removes all. The memory is kept for about as many again. */
void map_empty(struct map *map);
void map_clear(struct map *map);

#endif
