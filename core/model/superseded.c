/* Superseded: each waits for its free, for some time. */
#include "core/model/superseded.h"

#include <stdlib.h>

/* How late a free may be, and how many may be late at one time. */
#define WAIT_NS	       5000000000ull
#define SUPERSEDED_MAX 4096

static void superseded_forget(struct superseded_all *all, struct superseded *superseded)
{
	map_remove(&all->by_address, superseded->key);
	list_remove(&superseded->link);
	free(superseded);
}

void superseded_init(struct superseded_all *all)
{
	list_init(&all->list);
}

struct superseded *superseded_find(const struct superseded_all *all, struct map_key key)
{
	return map_get(&all->by_address, key);
}

static struct superseded *superseded_new(struct superseded_all *all, struct map_key key)
{
	struct superseded *superseded;

	if (all->by_address.count >= SUPERSEDED_MAX)
		superseded_forget(all, list_first(&all->list, struct superseded, link));
	superseded = calloc(1, sizeof(*superseded));
	if (!superseded)
		return NULL;
	if (map_put(&all->by_address, key, superseded) < 0) {
		free(superseded);
		return NULL;
	}
	superseded->key = key;
	list_append(&all->list, &superseded->link);
	return superseded;
}

struct superseded *superseded_add(struct superseded_all *all, struct map_key key, uint64_t now_ns)
{
	struct superseded *superseded = superseded_find(all, key);

	if (!superseded)
		superseded = superseded_new(all, key);
	if (!superseded)
		return NULL;
	superseded->expires_ns = now_ns + WAIT_NS;
	superseded->frees++;
	list_remove(&superseded->link);
	list_append(&all->list, &superseded->link);
	return superseded;
}

void superseded_freed(struct superseded_all *all, struct superseded *superseded)
{
	if (--superseded->frees == 0)
		superseded_forget(all, superseded);
}

void superseded_tick(struct superseded_all *all, uint64_t now_ns)
{
	struct superseded *superseded;

	while ((superseded = list_first(&all->list, struct superseded, link)) &&
	       superseded->expires_ns <= now_ns)
		superseded_forget(all, superseded);
}

void superseded_clear(struct superseded_all *all)
{
	struct superseded *superseded;

	list_for_each(superseded, &all->list, link)
		superseded_forget(all, superseded);
	map_clear(&all->by_address);
}
