/* Pool: a block starts at a multiple of POOL_BLOCK_BYTES, so an object's address tells its block. A
 * block is in one of three lists: full, partly used, or empty. */
#include "core/base/pool.h"

#include <sanitizer/asan_interface.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/invariant.h"

#define POOL_BLOCK_BYTES 65536
/* Leaves room for what malloc() adds, so that one block can follow the other. */
#define POOL_BLOCK_ROOM (POOL_BLOCK_BYTES - 64)

struct pool_block {
	struct list link;
	void *free;	    /* objects that were in use */
	uint32_t used, cut; /* objects in use; bytes that were ever used */
	char object[];	    /* aligned to 16 bytes */
};

static bool block_full(const struct pool *pool, const struct pool_block *block)
{
	return !block->free && block->cut + pool->object_bytes > POOL_BLOCK_ROOM;
}

static struct pool_block *block_of(const void *object)
{
	return (struct pool_block *)((uintptr_t)object & ~(uintptr_t)(POOL_BLOCK_BYTES - 1));
}

static void block_move(struct pool_block *block, struct list *to)
{
	list_remove(&block->link);
	list_append(to, &block->link);
}

static void free_blocks(struct pool *pool, struct list *list, size_t count)
{
	struct pool_block *block;

	while (count-- && (block = list_first(list, struct pool_block, link))) {
		list_remove(&block->link);
		ASAN_UNPOISON_MEMORY_REGION(block, POOL_BLOCK_ROOM);
		free(block);
		pool->blocks--;
	}
}

static struct pool_block *pool_grow(struct pool *pool)
{
	struct pool_block *block;
	void *memory;

	if (posix_memalign(&memory, POOL_BLOCK_BYTES, POOL_BLOCK_ROOM) != 0)
		return NULL;
	if (!pool->blocks++) {
		list_init(&pool->full);
		list_init(&pool->part);
		list_init(&pool->empty);
	}
	block = memory;
	*block = (struct pool_block){ .cut = sizeof(*block) };
	list_append(&pool->part, &block->link);
	return block;
}

/* A block with room, NULL: no memory. The one that has had room for longest: in those that were
 * full until now, older objects go first, and they may be empty soon. */
static struct pool_block *pool_room(struct pool *pool)
{
	struct pool_block *block;

	if (!pool->blocks)
		return pool_grow(pool);
	block = list_first(&pool->part, struct pool_block, link);
	if (block)
		return block;
	block = list_last(&pool->empty, struct pool_block, link);
	if (!block)
		return pool_grow(pool);
	block_move(block, &pool->part);
	if (--pool->empty_blocks < pool->idle_blocks)
		pool->idle_blocks = pool->empty_blocks;
	return block;
}

void *pool_get(struct pool *pool)
{
	struct pool_block *block = pool_room(pool);
	void *object;

	if (!block)
		return NULL;
	object = block->free;
	if (object) {
		ASAN_UNPOISON_MEMORY_REGION(object, pool->object_bytes);
		block->free = *(void **)object;
	} else {
		object = (char *)block + block->cut;
		block->cut += (uint32_t)pool->object_bytes;
	}
	block->used++;
	pool->used++;
	if (block_full(pool, block))
		block_move(block, &pool->full);
	return object;
}

void pool_put(struct pool *pool, void *object)
{
	struct pool_block *block = block_of(object);

	assert_invariant(pool->used > 0 && block->used > 0);
	if (block_full(pool, block))
		block_move(block, &pool->part);
	*(void **)object = block->free;
	block->free = object;
	ASAN_POISON_MEMORY_REGION(object, pool->object_bytes);
	if (--block->used == 0) {
		block_move(block, &pool->empty);
		pool->empty_blocks++;
	}
	if (--pool->used == 0 && pool->blocks > 1)
		pool_clear(pool);
}

void pool_trim(struct pool *pool)
{
	if (pool->idle_blocks)
		free_blocks(pool, &pool->empty, pool->idle_blocks);
	pool->empty_blocks -= pool->idle_blocks;
	pool->idle_blocks = pool->empty_blocks;
}

void pool_clear(struct pool *pool)
{
	if (pool->blocks) {
		free_blocks(pool, &pool->full, SIZE_MAX);
		free_blocks(pool, &pool->part, SIZE_MAX);
		free_blocks(pool, &pool->empty, SIZE_MAX);
	}
	*pool = (struct pool){ .object_bytes = pool->object_bytes };
}
