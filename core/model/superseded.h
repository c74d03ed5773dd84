/* superseded.h: allocations whose address was allocated again before their free was reported. Pure.
 */
#ifndef TS_CORE_SUPERSEDED_H
#define TS_CORE_SUPERSEDED_H

#include <stdint.h>

#include "core/base/list.h"
#include "core/base/map.h"

struct superseded {
	struct map_key key;
	struct list link;
	uint64_t bytes;	    /* of the latest at this address */
	uint64_t before_ns; /* a free that started earlier is for it */
	uint64_t expires_ns;
	uint32_t frees; /* still to come */
	int16_t device;
	uint8_t kind;
};

struct superseded_all {
	struct map by_address;
	struct list list; /* oldest first */
};

void superseded_init(struct superseded_all *all);
/* That of the address, with one more free to come. NULL: no memory. */
struct superseded *superseded_add(struct superseded_all *all, struct map_key key, uint64_t now_ns);
/* NULL: none. */
struct superseded *superseded_find(const struct superseded_all *all, struct map_key key);
/* One of its frees has come. */
void superseded_freed(struct superseded_all *all, struct superseded *superseded);
/* Forgets those whose frees come no more. */
void superseded_tick(struct superseded_all *all, uint64_t now_ns);
void superseded_clear(struct superseded_all *all);

#endif
