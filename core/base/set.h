/* set.h: a hash table of things that know their keys: 8 bytes for each, and 8 to 16 for its node.
 * It owns its buckets, never the things. Zeroed but for `key`, it is empty; the hash is seeded, as
 * a map's is. */
#ifndef TS_SET_H
#define TS_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/map.h"

struct set_node {
	struct set_node *next;
};

struct set {
	struct map_key (*key)(const struct set_node *node);
	struct set_node **bucket;
	size_t size; /* buckets, a power of two, or 0 */
	size_t count;
	uint64_t seed;
};

/* NULL: none has the key. */
struct set_node *set_get(const struct set *set, struct map_key key);
/* None may have its key. -ENOMEM */
int set_add(struct set *set, struct set_node *node);
/* While it has the key that it was added with. Whether it was there. */
bool set_remove(struct set *set, struct set_node *node);
void set_clear(struct set *set);

#endif
