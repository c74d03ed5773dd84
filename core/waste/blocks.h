/* blocks.h: which block lies at an address, while blocks come and go. Pure. All addresses at which
 * blocks will start are given beforehand; no two live blocks overlap. */
#ifndef TS_WASTE_BLOCKS_H
#define TS_WASTE_BLOCKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Levels of 64 each: more addresses than anybody keeps. */
#define BLOCKS_LEVELS 4
#define BLOCKS_MAX    (1u << 24)

/* All zero is empty. */
struct blocks {
	uint64_t *address; /* rising */
	uint32_t *block;   /* which one starts there now */
	uint32_t count;
	/* Where one does: of each level, which words of the one before are not 0. */
	uint64_t *live[BLOCKS_LEVELS];
};

/* Takes `count` addresses, at most BLOCKS_MAX, in any order, more than once, and puts them in
 * order. -ENOMEM: no memory, and nothing is taken. */
int blocks_init(struct blocks *blocks, uint64_t *address, size_t count);
void blocks_release(struct blocks *blocks);

/* A block starts at one of the addresses, in place of any other that did. */
void blocks_put(struct blocks *blocks, uint64_t address, uint32_t block);
/* That which starts there, which is then gone. False: none does. */
bool blocks_take(struct blocks *blocks, uint64_t address, uint32_t *ret);
/* The last one that starts at this address or before, and where. False: none does. */
bool blocks_before(const struct blocks *blocks, uint64_t address, uint32_t *ret,
		   uint64_t *ret_start);

#endif
