/* Pool: an object is in use, in the free list, or not yet cut from the newest block. */
#include "core/base/pool.h"

#include <sanitizer/asan_interface.h>
#include <stdlib.h>

#include "core/base/invariant.h"

#define POOL_BLOCK_BYTES 65536

struct pool_block {
	struct pool_block *next;
	size_t reserved; /* aligns objects to 16 bytes */
	char object[];
};

static int pool_grow(struct pool *pool)
{
	struct pool_block *block = malloc(POOL_BLOCK_BYTES);

	if (!block)
		return -1;
	block->next = pool->block;
	pool->block = block;
	pool->cut = sizeof(*block);
	return 0;
}

void *pool_get(struct pool *pool)
{
	void *object = pool->free;

	if (object) {
		ASAN_UNPOISON_MEMORY_REGION(object, pool->object_bytes);
		pool->free = *(void **)object;
	} else {
		if (!pool->block || pool->cut + pool->object_bytes > POOL_BLOCK_BYTES)
			if (pool_grow(pool) < 0)
				return NULL;
		object = (char *)pool->block + pool->cut;
		pool->cut += pool->object_bytes;
	}
	pool->used++;
	return object;
}

void pool_put(struct pool *pool, void *object)
{
	assert_invariant(pool->used > 0);
	*(void **)object = pool->free;
	pool->free = object;
	ASAN_POISON_MEMORY_REGION(object, pool->object_bytes);
	if (--pool->used == 0 && pool->block->next)
		pool_clear(pool);
}

void pool_clear(struct pool *pool)
{
	struct pool_block *block;

	while ((block = pool->block)) {
		pool->block = block->next;
		ASAN_UNPOISON_MEMORY_REGION(block, POOL_BLOCK_BYTES);
		free(block);
	}
	*pool = (struct pool){ .object_bytes = pool->object_bytes };
}
