/* Places: a file that was replaced or written is another one. A file without debug information has
 * an entry at NOWHERE, which answers for all of its offsets. */
#include "daemon/symbol/places.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "daemon/limits.h"
#include "daemon/symbol/dwarf.h"

#define NOWHERE UINT64_MAX

static const struct places_at nothing;

static struct map_key key_at(const struct cache_key *key, uint64_t offset)
{
	struct cache_key at = *key;

	at.offset = offset;
	return map_key_of(&at, sizeof(at), 0);
}

const struct places_at *places_get(const struct places *places, const struct cache_key *key)
{
	const struct places_at *at = map_get(&places->at, key_at(key, NOWHERE));

	return at ? at : map_get(&places->at, key_at(key, key->offset));
}

/* The next text, which ends with a NUL, or NULL. */
static const char *next_text(const char **at, const char *end)
{
	const char *text = *at, *nul = memchr(text, '\0', (size_t)(end - text));

	if (nul)
		*at = nul + 1;
	return nul && nul - text < LIMIT_SYMBOL_NAME ? text : NULL;
}

static int read_place(struct arena *arena, struct place *ret, const char **at, const char *end)
{
	const char *line = next_text(at, end), *function = NULL, *file = NULL;

	if (line)
		function = next_text(at, end);
	if (function)
		file = next_text(at, end);
	if (!file)
		return -EBADMSG;
	*ret = (struct place){
		.function = arena_text(arena, function, strlen(function)),
		.file = arena_text(arena, file, strlen(file)),
		.line = (uint32_t)strtoul(line, NULL, 10),
	};
	return ret->function && ret->file ? 0 : -ENOMEM;
}

int places_read(struct places *places, const struct cache_key *key, uint32_t count,
		const char *text, size_t size)
{
	const char *at = text, *end = text + size;
	struct places_at *found;
	int r = 0;

	if (count == 0 || count > DWARF_DEPTH_MAX)
		return -EBADMSG;
	found = arena_get(&places->arena, sizeof(*found) + count * sizeof(found->place[0]));
	if (!found)
		return -ENOMEM;
	found->count = count;
	for (uint32_t i = 0; r == 0 && i < count; i++)
		r = read_place(&places->arena, &found->place[i], &at, end);
	return r < 0 ? r : map_put(&places->at, key_at(key, key->offset), found);
}

void places_put_none(struct places *places, const struct cache_key *key)
{
	map_put(&places->at, key_at(key, key->offset), (void *)&nothing);
}

void places_put_no_file(struct places *places, const struct cache_key *key)
{
	map_put(&places->at, key_at(key, NOWHERE), (void *)&nothing);
}

void places_bound(struct places *places)
{
	if (places->at.count > LIMIT_PLACES || places->arena.total > LIMIT_PLACES_BYTES)
		places_clear(places);
}

void places_clear(struct places *places)
{
	map_clear(&places->at);
	arena_clear(&places->arena);
}
