/* Set: chains, at most as many things as buckets. */
#include "core/base/set.h"

#include <errno.h>
#include <stdlib.h>

#define SET_SIZE_MIN 16

static struct set_node **set_chain(const struct set *set, struct map_key key)
{
	return &set->bucket[map_key_hash(key, set->seed) & (set->size - 1)];
}

static void set_link(struct set *set, struct set_node *node)
{
	struct set_node **chain = set_chain(set, set->key(node));

	node->next = *chain;
	*chain = node;
}

static int set_resize(struct set *set, size_t size)
{
	struct set other = { .key = set->key, .size = size, .count = set->count };
	struct set_node *node;

	other.bucket = calloc(size, sizeof(*other.bucket));
	if (!other.bucket)
		return -ENOMEM;
	other.seed = (uintptr_t)other.bucket * 0x9e3779b97f4a7c15ull;
	for (size_t i = 0; i < set->size; i++)
		while ((node = set->bucket[i])) {
			set->bucket[i] = node->next;
			set_link(&other, node);
		}
	free(set->bucket);
	*set = other;
	return 0;
}

struct set_node *set_get(const struct set *set, struct map_key key)
{
	struct set_node *node = set->count ? *set_chain(set, key) : NULL;

	for (; node; node = node->next) {
		struct map_key other = set->key(node);

		if (other.a == key.a && other.b == key.b)
			return node;
	}
	return NULL;
}

int set_add(struct set *set, struct set_node *node)
{
	if (set->count >= set->size &&
	    set_resize(set, set->size ? set->size * 2 : SET_SIZE_MIN) < 0)
		return -ENOMEM;
	set_link(set, node);
	set->count++;
	return 0;
}

bool set_remove(struct set *set, struct set_node *node)
{
	struct set_node **at = set->count ? set_chain(set, set->key(node)) : NULL;

	while (at && *at && *at != node)
		at = &(*at)->next;
	if (!at || !*at)
		return false;
	*at = node->next;
	set->count--;
	/* After a burst the memory is freed; if that fails the set is merely large. */
	if (set->size > SET_SIZE_MIN && set->count < set->size / 8)
		(void)set_resize(set, set->size / 2);
	return true;
}

void set_clear(struct set *set)
{
	free(set->bucket);
	*set = (struct set){ .key = set->key };
}
