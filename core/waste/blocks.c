/* Blocks: a set of the places at which one is live, as bits in a tree of words, beside the sorted
 * addresses of all places. */
#include "core/waste/blocks.h"

#include <errno.h>
#include <stdlib.h>

#define BITS 6
#define WORD (1u << BITS)

static int compare(const void *a, const void *b)
{
	uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

	return left < right ? -1 : left > right;
}

static uint32_t unique(uint64_t *address, size_t count)
{
	uint32_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (!kept || address[i] != address[kept - 1])
			address[kept++] = address[i];
	return kept;
}

int blocks_init(struct blocks *blocks, uint64_t *address, size_t count)
{
	uint32_t words;

	*blocks = (struct blocks){ 0 };
	if (count > BLOCKS_MAX)
		return -ENOMEM;
	qsort(address, count, sizeof(*address), compare);
	blocks->count = words = unique(address, count);
	blocks->block = calloc(words + 1u, sizeof(*blocks->block));
	if (!blocks->block)
		return -ENOMEM;
	for (int level = 0; level < BLOCKS_LEVELS; level++) {
		words = words / WORD + 1;
		blocks->live[level] = calloc(words, sizeof(**blocks->live));
		if (!blocks->live[level]) {
			blocks_release(blocks);
			return -ENOMEM;
		}
	}
	blocks->address = address;
	return 0;
}

void blocks_release(struct blocks *blocks)
{
	free(blocks->address);
	free(blocks->block);
	for (int level = 0; level < BLOCKS_LEVELS; level++)
		free(blocks->live[level]);
	*blocks = (struct blocks){ 0 };
}

/* How many addresses are not larger. */
static uint32_t up_to(const struct blocks *blocks, uint64_t address)
{
	uint32_t low = 0, high = blocks->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (blocks->address[middle] <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool place_of(const struct blocks *blocks, uint64_t address, uint32_t *ret)
{
	uint32_t count = up_to(blocks, address);

	if (!count || blocks->address[count - 1] != address)
		return false;
	*ret = count - 1;
	return true;
}

static uint64_t bit(uint32_t place)
{
	return 1ull << (place % WORD);
}

static bool is_live(const struct blocks *blocks, uint32_t place)
{
	return blocks->live[0][place / WORD] & bit(place);
}

void blocks_put(struct blocks *blocks, uint64_t address, uint32_t block)
{
	uint32_t place;

	if (!place_of(blocks, address, &place))
		return;
	blocks->block[place] = block;
	for (int level = 0; level < BLOCKS_LEVELS; level++, place /= WORD)
		blocks->live[level][place / WORD] |= bit(place);
}

bool blocks_take(struct blocks *blocks, uint64_t address, uint32_t *ret)
{
	uint32_t place;

	if (!place_of(blocks, address, &place) || !is_live(blocks, place))
		return false;
	*ret = blocks->block[place];
	for (int level = 0; level < BLOCKS_LEVELS; level++, place /= WORD) {
		blocks->live[level][place / WORD] &= ~bit(place);
		if (blocks->live[level][place / WORD])
			break;
	}
	return true;
}

static uint32_t highest(uint64_t word)
{
	return WORD - 1 - (uint32_t)__builtin_clzll(word);
}

/* The last live place up to this one: up the tree to a word with an earlier bit, then down. */
static bool place_before(const struct blocks *blocks, uint32_t place, uint32_t *ret)
{
	for (int level = 0; level < BLOCKS_LEVELS; level++) {
		uint64_t below = bit(place) - 1;
		uint64_t word =
			blocks->live[level][place / WORD] & (level ? below : below | bit(place));

		if (!word) {
			place /= WORD;
			continue;
		}
		place = place / WORD * WORD + highest(word);
		while (level-- > 0)
			place = place * WORD + highest(blocks->live[level][place]);
		*ret = place;
		return true;
	}
	return false;
}

bool blocks_before(const struct blocks *blocks, uint64_t address, uint32_t *ret,
		   uint64_t *ret_start)
{
	uint32_t count = up_to(blocks, address), place;

	if (!count || !place_before(blocks, count - 1, &place))
		return false;
	*ret = blocks->block[place];
	*ret_start = blocks->address[place];
	return true;
}
