/* name_cache.h: the texts of the table `name` by their ids, for one connection.
 */
#ifndef TS_NAME_CACHE_H
#define TS_NAME_CACHE_H

#include <sqlite3.h>
#include <stdint.h>

struct name_cache;

int name_cache_new(sqlite3 *db, struct name_cache **ret);
struct name_cache *name_cache_free(struct name_cache *cache);

/* The text, or NULL if there is none or it cannot be read; valid until the next call. */
const char *name_cache_get(struct name_cache *cache, uint64_t id, int *ret_size);

#endif
