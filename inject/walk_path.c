/* Walk, paths: walks that have been done before. Nothing is guessed: a path holds if all words that
 * the walk went by are as they were. */
#include <stddef.h>

#include "inject/walk.h"

#define WORD   8
#define LANES  4
#define WAYS   2
#define GOLDEN 0x9e3779b97f4a7c15ull

struct walk_paths *walk_paths_take(struct walker *walker, uint32_t tid)
{
	struct walk_paths *paths = &walker->paths[tid % WALK_PATH_THREADS];

	return __atomic_exchange_n(&paths->busy, 1, __ATOMIC_ACQUIRE) ? NULL : paths;
}

void walk_paths_give(struct walk_paths *paths)
{
	if (paths)
		__atomic_store_n(&paths->busy, 0, __ATOMIC_RELEASE);
}

uint64_t walk_path_key(uint64_t seed, uint64_t pc, const uint64_t *sp)
{
	uint64_t key = stack_hash_frame(stack_hash_frame(seed, pc), *sp);

	return stack_hash_frame(key, (uint64_t)sp) | 1;
}

/* In lanes that do not wait for each other. */
static uint64_t path_hash(const struct walk_path *path, const uint64_t *sp)
{
	uint64_t lane[LANES] = { 1, 2, 3, 4 };

	for (uint32_t i = 0; i < path->count; i += LANES) {
		lane[0] = stack_hash_frame(lane[0], sp[path->word[i]]);
		lane[1] = stack_hash_frame(lane[1], sp[path->word[i + 1]]);
		lane[2] = stack_hash_frame(lane[2], sp[path->word[i + 2]]);
		lane[3] = stack_hash_frame(lane[3], sp[path->word[i + 3]]);
	}
	return (lane[0] ^ lane[1] * GOLDEN) + (lane[2] ^ lane[3] * GOLDEN) * GOLDEN;
}

static uint32_t path_set(uint64_t key)
{
	return (uint32_t)(key >> 32) * WAYS % WALK_PATHS;
}

static bool path_holds(const struct walk_path *path, uint64_t sp, uint64_t top, uint64_t bp)
{
	uint64_t highest = sp + path->word[path->count - 1] * (uint64_t)WORD;

	return highest <= top - WORD && (!path->by_bp || path->bp == bp) &&
	       path_hash(path, (const uint64_t *)sp) == path->hash;
}

const struct walk_path *walk_path_find(const struct walk_paths *paths, uint64_t key, uint64_t sp,
				       uint64_t top, uint64_t bp)
{
	const struct walk_path *set = &paths->path[path_set(key)];

	for (int i = 0; i < WAYS; i++)
		if (set[i].key == key && path_holds(&set[i], sp, top, bp))
			return &set[i];
	return NULL;
}

void walk_path_keep(struct walk_paths *paths, const struct walk_path *path, uint64_t sp)
{
	struct walk_path *to = &paths->path[path_set(path->key) + paths->turn++ % WAYS];
	uint16_t highest = 0;

	if (!path->count || path->count > WALK_WORDS - LANES)
		return;
	to->key = path->key;
	to->id = path->id;
	to->bp = path->bp;
	to->by_bp = path->by_bp;
	to->interpreter = path->interpreter;
	to->count = path->count;
	for (uint32_t i = 0; i < path->count; i++) {
		to->word[i] = path->word[i];
		highest = to->word[i] > highest ? to->word[i] : highest;
	}
	do {
		to->word[to->count++] = highest;
	} while (to->count % LANES);
	to->hash = path_hash(to, (const uint64_t *)sp);
}
