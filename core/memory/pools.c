/* Pools: PyTorch's rules, by which the size of a segment says what it is for: kSmallBuffer of
 * c10/cuda/CUDACachingAllocator.cpp is for blocks up to kSmallSize, and no other segment has that
 * size. */
#include "core/memory/pools.h"

#include <stdlib.h>

#define SMALL_SEGMENT (2ull << 20)

static int compare_held(const void *a, const void *b)
{
	const struct pools_held *x = a, *y = b;

	return (x->span.address > y->span.address) - (x->span.address < y->span.address);
}

static int compare_range(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static bool pools_starts_range(const struct pools *pools, uint64_t address)
{
	return pools->range_count && bsearch(&address, pools->range, pools->range_count,
					     sizeof(*pools->range), compare_range);
}

static void pools_join(struct pools *pools)
{
	size_t count = 0;

	for (size_t i = 0; i < pools->held_count; i++) {
		struct pools_held *held = &pools->held[i];
		struct pools_held *last = count ? &pools->held[count - 1] : NULL;

		held->pool = MEMORY_POOL_NONE;
		if (last && last->mapped && held->mapped &&
		    held->span.bytes <= UINT64_MAX - held->span.address &&
		    last->span.address + last->span.bytes == held->span.address &&
		    !pools_starts_range(pools, held->span.address))
			last->span.bytes += held->span.bytes;
		else
			pools->held[count++] = *held;
	}
	pools->held_count = count;
}

static enum memory_pool pools_of(const struct pools_held *held)
{
	if (held->mapped)
		return MEMORY_POOL_EXPANDABLE;
	return held->span.bytes == SMALL_SEGMENT ? MEMORY_POOL_SMALL : MEMORY_POOL_LARGE;
}

void pools_find(struct pools *pools)
{
	size_t at = 0;

	if (pools->range_count)
		qsort(pools->range, pools->range_count, sizeof(*pools->range), compare_range);
	if (pools->held_count)
		qsort(pools->held, pools->held_count, sizeof(*pools->held), compare_held);
	fragment_sort(pools->block, pools->block_count);
	pools_join(pools);
	for (size_t i = 0; i < pools->held_count; i++) {
		struct pools_held *held = &pools->held[i];

		while (at < pools->block_count && pools->block[at].address < held->span.address)
			at++;
		if ((held->framework && pools->reports) ||
		    (at < pools->block_count &&
		     pools->block[at].address - held->span.address < held->span.bytes))
			held->pool = (uint8_t)pools_of(held);
	}
}

static bool pools_take_driver(const struct pools *pools, struct fragment_span *block,
			      struct fragment_pool *ret)
{
	for (size_t i = 0; i < pools->held_count; i++)
		if (!pools->held[i].mapped)
			block[ret->block_count++] = pools->held[i].span;
	ret->granule_bytes = POOLS_GRANULE_BYTES;
	return ret->block_count;
}

bool pools_take(const struct pools *pools, enum memory_pool which, struct fragment_span *segment,
		struct fragment_span *block, struct fragment_pool *ret)
{
	size_t at = 0;

	*ret = (struct fragment_pool){ .segment = segment, .block = block };
	if (which == MEMORY_POOL_DRIVER)
		return pools_take_driver(pools, block, ret);
	for (size_t i = 0; i < pools->held_count; i++) {
		const struct pools_held *held = &pools->held[i];

		if (held->pool != which)
			continue;
		segment[ret->segment_count++] = held->span;
		while (at < pools->block_count && pools->block[at].address < held->span.address)
			at++;
		while (at < pools->block_count &&
		       pools->block[at].address - held->span.address < held->span.bytes)
			block[ret->block_count++] = pools->block[at++];
	}
	return ret->segment_count;
}

bool pools_serves(enum memory_pool which, uint64_t bytes)
{
	if (which == MEMORY_POOL_SMALL)
		return bytes <= POOLS_SMALL_BYTES;
	return which != MEMORY_POOL_LARGE || bytes > POOLS_SMALL_BYTES;
}
