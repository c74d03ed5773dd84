/* cache.h: recently found names, by file and offset. */
#ifndef TS_SYMBOL_CACHE_H
#define TS_SYMBOL_CACHE_H

#include <stdbool.h>
#include <stdint.h>

/* A file that is replaced or written in place is another one. */
struct cache_key {
	uint64_t device, inode, size, modified_ns;
	uint64_t offset;
};

struct cache;

struct cache *cache_new(void);
struct cache *cache_free(struct cache *cache);
/* True: known; the name belongs to the cache and may be NULL, if none was found. */
bool cache_find(const struct cache *cache, const struct cache_key *key, const char **ret);
/* Copies the name. */
void cache_add(struct cache *cache, const struct cache_key *key, const char *name);

#endif
