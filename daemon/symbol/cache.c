/* cache: recently found names. Each key has one slot; the newest takes it. */
#include "daemon/symbol/cache.h"

#include <string.h>
#include <xxhash.h>

#include "core/base/cleanup.h"
#include "daemon/limits.h"

struct slot {
	struct cache_key key;
	char *name;
	bool used;
};

struct cache {
	struct slot slot[LIMIT_SYMBOL_CACHE];
};

static uint64_t slot_of(const struct cache_key *key)
{
	return XXH3_64bits(key, sizeof(*key)) % LIMIT_SYMBOL_CACHE;
}

struct cache *cache_new(void)
{
	return calloc(1, sizeof(struct cache));
}

struct cache *cache_free(struct cache *cache)
{
	size_t i;

	for (i = 0; cache && i < LIMIT_SYMBOL_CACHE; i++)
		free(cache->slot[i].name);
	free(cache);
	return NULL;
}

bool cache_find(const struct cache *cache, const struct cache_key *key, const char **ret)
{
	const struct slot *slot = &cache->slot[slot_of(key)];

	if (!slot->used || memcmp(&slot->key, key, sizeof(*key)) != 0)
		return false;
	*ret = slot->name;
	return true;
}

void cache_add(struct cache *cache, const struct cache_key *key, const char *name)
{
	struct slot *slot = &cache->slot[slot_of(key)];

	free(slot->name);
	slot->name = name ? strdup(name) : NULL;
	slot->key = *key;
	slot->used = !name || slot->name;
}
