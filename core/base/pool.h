/* pool.h: objects of one size, cut from blocks, not zeroed. The blocks are freed with the last
 * object, but for a megabyte of them; those that are not needed any more, by pool_trim(). */
#ifndef TS_POOL_H
#define TS_POOL_H

#include <stddef.h>

struct pool_block;

struct pool {
	size_t object_bytes; /* a multiple of 8 */
	size_t used;
	size_t most; /* that were in use at a time, since the last pool_trim() */
	size_t blocks;
	size_t cut; /* bytes of the newest block already cut */
	void *free;
	struct pool_block *block; /* newest first */
};

#define POOL_OF(type) ((struct pool){ .object_bytes = (sizeof(type) + 7) & ~(size_t)7 })

void *pool_get(struct pool *pool); /* NULL: no memory */
void pool_put(struct pool *pool, void *object);
/* Frees blocks that were not needed since the last call, if these are many. Looks at each free
 * object then. */
void pool_trim(struct pool *pool);
void pool_clear(struct pool *pool); /* with all objects, even those in use */

#endif
