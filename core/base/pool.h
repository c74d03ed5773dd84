/* pool.h: objects of one size, cut from blocks, not zeroed. The blocks are freed with the last
 * object; those that stay empty, by pool_trim(). */
#ifndef TS_POOL_H
#define TS_POOL_H

#include <stddef.h>

#include "core/base/list.h"

struct pool {
	size_t object_bytes; /* a multiple of 8 */
	size_t used;
	size_t blocks, empty_blocks;
	size_t idle_blocks;	       /* that were empty since the last pool_trim() */
	struct list full, part, empty; /* of blocks, if there are any */
};

#define POOL_OF(type) ((struct pool){ .object_bytes = (sizeof(type) + 7) & ~(size_t)7 })

void *pool_get(struct pool *pool); /* NULL: no memory */
void pool_put(struct pool *pool, void *object);
/* Frees the blocks that were not needed since the last call. */
void pool_trim(struct pool *pool);
void pool_clear(struct pool *pool); /* with all objects, even those in use */

#endif
