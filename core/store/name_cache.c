/* Name_cache: one slot per hash of ids; the latest stays. A slot without a text is for an id that
 * has none, so that it is not looked up again for every op. */
#include "core/store/name_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/store/sql.h"

#define SLOTS 4096 /* of 4 KiB at most */

struct slot {
	uint64_t id; /* 0: empty */
	char *text;
	int size;
};

struct name_cache {
	sqlite3 *db;
	sqlite3_stmt *find;
	struct slot slot[SLOTS];
};

int name_cache_new(sqlite3 *db, struct name_cache **ret)
{
	struct name_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	cache->db = db;
	*ret = cache;
	return 0;
}

struct name_cache *name_cache_free(struct name_cache *cache)
{
	for (int i = 0; cache && i < SLOTS; i++)
		free(cache->slot[i].text);
	if (cache)
		sqlite3_finalize(cache->find);
	free(cache);
	return NULL;
}

static int read_text(struct name_cache *cache, struct slot *slot)
{
	int r = 0;

	if (!cache->find)
		r = sql_prepare(cache->db, "SELECT text FROM name WHERE id = ?", &cache->find);
	if (r < 0)
		return r;
	sql_bind(cache->find, (int64_t)slot->id);
	if (sqlite3_step(cache->find) == SQLITE_ROW) {
		const char *text = (const char *)sqlite3_column_text(cache->find, 0);

		slot->text = text ? strdup(text) : NULL;
		slot->size = slot->text ? (int)strlen(slot->text) : 0;
	}
	sqlite3_reset(cache->find);
	return 0;
}

const char *name_cache_get(struct name_cache *cache, uint64_t id, int *ret_size)
{
	struct slot *slot = &cache->slot[(id ^ id >> 32) % SLOTS];

	if (!id)
		return NULL;
	if (slot->id != id) {
		free(slot->text);
		*slot = (struct slot){ .id = id };
		if (read_text(cache, slot) < 0)
			slot->id = 0;
	}
	*ret_size = slot->size;
	return slot->text;
}
