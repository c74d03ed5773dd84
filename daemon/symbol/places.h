/* places.h: what is known of the source lines in files, by file and offset. Pure. */
#ifndef TS_PLACES_H
#define TS_PLACES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/arena.h"
#include "core/base/map.h"
#include "daemon/symbol/cache.h"

/* A function at an offset, and where it is there. */
struct place {
	const char *function, *file; /* "": unknown */
	uint32_t line;		     /* 0: unknown */
};

/* All of them, the innermost first: each but the last is compiled into the next one. */
struct places_at {
	uint32_t count; /* 0: it is known that nothing is known */
	struct place place[];
};

/* Zeroed: nothing is known. */
struct places {
	struct map at;
	struct arena arena;
};

/* Valid until places_bound() or places_clear(). NULL: nobody has looked. */
const struct places_at *places_get(const struct places *places, const struct cache_key *key);
/* As text, a line in decimal, a function and a file for each, all with a NUL, from whoever looked:
 * nothing of it is believed. -EBADMSG, -ENOMEM: they stay unknown. */
int places_read(struct places *places, const struct cache_key *key, uint32_t count,
		const char *text, size_t size);
/* Nothing is known of this offset, or of the whole file. */
void places_put_none(struct places *places, const struct cache_key *key);
void places_put_no_file(struct places *places, const struct cache_key *key);
/* Forgets everything if it is too much. */
void places_bound(struct places *places);
void places_clear(struct places *places);

#endif
