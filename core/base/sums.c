/* Sums: rows in one array, found through a chained hash table of fixed size. */
#include "core/base/sums.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#define SUMS_ROOM_MIN 256

int sums_init(struct sums *sums, uint64_t rows)
{
	uint32_t buckets = SUMS_ROOM_MIN;

	while (buckets < rows * 2)
		buckets *= 2;
	sums->bucket = calloc(buckets, sizeof(*sums->bucket));
	if (!sums->bucket)
		return -ENOMEM;
	sums->bucket_mask = buckets - 1;
	return 0;
}

static uint32_t *sums_bucket(const struct sums *sums, const void *key)
{
	/* The seed is an address, which nobody who could make keys knows. */
	uint64_t hash = XXH3_64bits_withSeed(key, sums->key_bytes, (uintptr_t)sums->bucket);

	return &sums->bucket[hash & sums->bucket_mask];
}

static int sums_grow(struct sums *sums)
{
	uint32_t room = sums->room ? sums->room * 2 : SUMS_ROOM_MIN;
	char *row = realloc(sums->row, room * sums->row_bytes);
	uint32_t *next;

	if (!row)
		return -ENOMEM;
	sums->row = row;
	next = realloc(sums->next, room * sizeof(*next));
	if (!next)
		return -ENOMEM;
	sums->next = next;
	sums->room = room;
	return 0;
}

void *sums_get(struct sums *sums, const void *key, uint64_t max)
{
	uint32_t *bucket = sums_bucket(sums, key);
	void *row;

	for (uint32_t i = *bucket; i; i = sums->next[i - 1])
		if (memcmp(sums_row(sums, i - 1), key, sums->key_bytes) == 0)
			return sums_row(sums, i - 1);
	if (sums->count >= max)
		return NULL;
	if (sums->count == sums->room && sums_grow(sums) < 0)
		return NULL;
	row = sums_row(sums, sums->count);
	memset(row, 0, sums->row_bytes);
	memcpy(row, key, sums->key_bytes);
	sums->next[sums->count++] = *bucket;
	*bucket = sums->count;
	return row;
}

void sums_empty(struct sums *sums)
{
	if (sums->count)
		memset(sums->bucket, 0, (sums->bucket_mask + 1ull) * sizeof(*sums->bucket));
	sums->count = 0;
}

void sums_release(struct sums *sums)
{
	free(sums->row);
	free(sums->next);
	free(sums->bucket);
}
