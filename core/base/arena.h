/* arena.h: memory that is freed all at once. */
#ifndef TS_ARENA_H
#define TS_ARENA_H

#include <stddef.h>

struct arena_block;

/* All zero is empty. */
struct arena {
	struct arena_block *block; /* newest first */
	size_t used, size;	   /* of the newest */
	size_t total;		   /* handed out */
};

/* Aligned for anything, not zeroed; NULL: no memory. */
void *arena_get(struct arena *arena, size_t size);
char *arena_text(struct arena *arena, const char *text, size_t size); /* adds a NUL */
void arena_clear(struct arena *arena);

#endif
