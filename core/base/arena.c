/* Arena: cuts pieces from blocks. A piece that does not fit gets a block of its own. */
#include "core/base/arena.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES (64 << 10)
#define ALIGNMENT   alignof(max_align_t)

struct arena_block {
	struct arena_block *next;
	alignas(max_align_t) char data[];
};

void *arena_get(struct arena *arena, size_t size)
{
	struct arena_block *block;
	size_t room = (size + ALIGNMENT - 1) & ~(ALIGNMENT - 1);

	if (!arena->block || arena->size - arena->used < room) {
		arena->size = room > BLOCK_BYTES ? room : BLOCK_BYTES;
		block = malloc(sizeof(*block) + arena->size);
		if (!block) {
			arena->size = arena->used;
			return NULL;
		}
		block->next = arena->block;
		arena->block = block;
		arena->used = 0;
	}
	arena->used += room;
	arena->total += room;
	return arena->block->data + arena->used - room;
}

char *arena_text(struct arena *arena, const char *text, size_t size)
{
	char *copy = arena_get(arena, size + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, size);
	copy[size] = '\0';
	return copy;
}

void arena_clear(struct arena *arena)
{
	struct arena_block *block;

	while ((block = arena->block)) {
		arena->block = block->next;
		free(block);
	}
	*arena = (struct arena){ 0 };
}
