/* Pool: an object is in use, in the free list, or not yet cut from the newest block. Blocks know
 * nothing of their objects but while the pool is trimmed: a block starts at a multiple of
 * POOL_BLOCK_BYTES, so the free list tells what is free in each. */
#include "core/base/pool.h"

#include <sanitizer/asan_interface.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/base/invariant.h"

#define POOL_BLOCK_BYTES 65536
/* Leaves room for what malloc() adds, so that one block can follow the other. */
#define POOL_BLOCK_ROOM (POOL_BLOCK_BYTES - 64)
#define POOL_KEPT	16 /* blocks, without an object: the next ones mostly come soon */

struct pool_block {
	struct pool_block *next;
	uint32_t free; /* while it is trimmed: objects in the free list */
	bool goes;
	char object[] __attribute__((aligned(16)));
};

static int pool_grow(struct pool *pool)
{
	struct pool_block *block;
	void *memory;

	if (posix_memalign(&memory, POOL_BLOCK_BYTES, POOL_BLOCK_ROOM) != 0)
		return -1;
	block = memory;
	*block = (struct pool_block){ .next = pool->block };
	pool->block = block;
	pool->cut = sizeof(*block);
	pool->blocks++;
	return 0;
}

void *pool_get(struct pool *pool)
{
	void *object = pool->free;

	if (object) {
		ASAN_UNPOISON_MEMORY_REGION(object, pool->object_bytes);
		pool->free = *(void **)object;
	} else {
		if (!pool->block || pool->cut + pool->object_bytes > POOL_BLOCK_ROOM)
			if (pool_grow(pool) < 0)
				return NULL;
		object = (char *)pool->block + pool->cut;
		pool->cut += pool->object_bytes;
	}
	if (++pool->used > pool->most)
		pool->most = pool->used;
	return object;
}

void pool_put(struct pool *pool, void *object)
{
	assert_invariant(pool->used > 0);
	*(void **)object = pool->free;
	pool->free = object;
	ASAN_POISON_MEMORY_REGION(object, pool->object_bytes);
	if (--pool->used == 0 && pool->blocks > POOL_KEPT)
		pool_clear(pool);
}

static size_t block_objects(const struct pool *pool)
{
	return (POOL_BLOCK_ROOM - sizeof(struct pool_block)) / pool->object_bytes;
}

static struct pool_block *block_of(const void *object)
{
	return (struct pool_block *)((uintptr_t)object & ~(uintptr_t)(POOL_BLOCK_BYTES - 1));
}

static void *next_free(const struct pool *pool, const void *object)
{
	void *next;

	ASAN_UNPOISON_MEMORY_REGION(object, sizeof(next));
	next = *(void *const *)object;
	ASAN_POISON_MEMORY_REGION(object, pool->object_bytes);
	return next;
}

static void count_free(const struct pool *pool)
{
	for (struct pool_block *block = pool->block; block; block = block->next)
		block->free = 0;
	for (void *object = pool->free; object; object = next_free(pool, object))
		block_of(object)->free++;
}

/* Puts those of blocks that go out of the free list, and those of emptier blocks behind all others:
 * so what is in use gathers in few blocks, and the next time more of them can go. */
static void sort_free(struct pool *pool)
{
	void *object = pool->free, *next, *last = NULL, **end = &pool->free;

	for (; object; object = next) {
		const struct pool_block *block = block_of(object);

		next = next_free(pool, object);
		if (block->goes)
			continue;
		ASAN_UNPOISON_MEMORY_REGION(object, pool->object_bytes);
		if (block->free > block_objects(pool) / 2) {
			*(void **)object = last;
			last = object;
		} else {
			*end = object;
			end = object;
		}
	}
	*end = last;
	for (object = pool->free; object; object = next) {
		next = *(void **)object;
		ASAN_POISON_MEMORY_REGION(object, pool->object_bytes);
	}
}

static void free_those_that_go(struct pool *pool)
{
	struct pool_block **at = &pool->block, *block;

	while ((block = *at)) {
		if (!block->goes) {
			at = &block->next;
			continue;
		}
		*at = block->next;
		if (at == &pool->block) /* older ones are cut to the end */
			pool->cut = POOL_BLOCK_ROOM;
		ASAN_UNPOISON_MEMORY_REGION(block, POOL_BLOCK_ROOM);
		free(block);
		pool->blocks--;
	}
}

void pool_trim(struct pool *pool)
{
	const size_t objects = block_objects(pool);
	size_t idle = (pool->blocks * objects - pool->most) / objects;
	size_t cut;

	pool->most = pool->used;
	/* To look at each free object takes longer than a few blocks are worth. */
	if (idle <= pool->blocks / 4)
		return;
	count_free(pool);
	cut = (pool->cut - sizeof(struct pool_block)) / pool->object_bytes;
	for (struct pool_block *block = pool->block; block; block = block->next) {
		block->goes = idle && block->free == (block == pool->block ? cut : objects);
		idle -= block->goes;
	}
	sort_free(pool);
	free_those_that_go(pool);
}

void pool_clear(struct pool *pool)
{
	struct pool_block *block;

	while ((block = pool->block)) {
		pool->block = block->next;
		ASAN_UNPOISON_MEMORY_REGION(block, POOL_BLOCK_ROOM);
		free(block);
	}
	*pool = (struct pool){ .object_bytes = pool->object_bytes };
}
