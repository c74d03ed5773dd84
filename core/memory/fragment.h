/* fragment.h: how fragmented a pool of memory is: what lies free between the blocks of its
 * segments. Pure.
 *
 * A pool is what one process has on one device from one allocator; pools are never added up. A
 * segment is memory that the pool holds as a whole; a piece is the free memory between two blocks
 * of a segment, or between a block and the segment's end.
 *
 * The index is the chance that two free bytes of one segment, taken at random, lie in different
 * pieces:
 *
 *	index = 1 - sum over segments (sum of piece^2 / free) / sum of free
 *
 * 0: each segment has its free memory in one piece, or none; it approaches 1 for a checkerboard.
 * Segments are not compared with each other, as no allocator can join two: several that are packed
 * have an index of 0. Empty ones are left out: they can be given back as a whole.
 */
#ifndef TS_MEMORY_FRAGMENT_H
#define TS_MEMORY_FRAGMENT_H

#include <stddef.h>
#include <stdint.h>

/* A block or a segment. */
struct fragment_span {
	uint64_t address, bytes;
	uint64_t start_ns; /* when it was allocated */
	uint64_t owner;	   /* the caller's; not looked at */
};

/* Class n: pieces of 2^n bytes or more, and less than 2^(n + 1). */
#define FRAGMENT_CLASSES 64

struct fragment_class {
	uint64_t pieces, bytes;
};

struct fragment {
	uint64_t segments, blocks; /* blocks: those that lie in a segment, or start there */
	uint64_t segment_bytes;	   /* used and free */
	uint64_t used_bytes, free_bytes;
	uint64_t empty_bytes; /* the part of free_bytes in segments without any block */
	uint64_t pieces, largest_bytes;
	/* Free memory in pieces that are smaller than the size asked about. */
	uint64_t unusable_bytes;
	/* Bytes of blocks that lie in no segment or inside another block: what was read is not of
	 * one moment. They count as neither used nor free. */
	uint64_t stray_bytes;
	uint32_t index_ppm; /* 10^6 times the index */
	struct fragment_class class[FRAGMENT_CLASSES];
};

/* Blocks that lie side by side between two pieces, of which freeing the last one joins both: the
 * oldest of them, and the smaller piece. */
typedef void fragment_divider_fn(void *data, const struct fragment_span *oldest,
				 uint64_t smaller_bytes);

struct fragment_pool {
	/* In order of their addresses: fragment_sort(). Any numbers are accepted: what overlaps
	 * is counted once, for the one that starts first. */
	const struct fragment_span *segment, *block;
	size_t segment_count, block_count;
	/* If not 0, a power of two: there are no segments, but the blocks take whole granules of
	 * this size from the driver, each of which is one segment. */
	uint64_t granule_bytes;
	uint64_t request_bytes;	      /* the size asked about */
	fragment_divider_fn *divider; /* or NULL */
	void *divider_data;
};

void fragment_sort(struct fragment_span *span, size_t count);
void fragment_measure(const struct fragment_pool *pool, struct fragment *ret);

/* Blocks of one size, and how much they are in all. */
struct fragment_size {
	uint64_t bytes, sum_bytes;
};

/* The size such that half of the bytes are in blocks of this size or larger; 0 of none. Changes
 * their order. */
uint64_t fragment_typical(struct fragment_size *size, size_t count);

/* The class of a size other than 0. */
static inline unsigned int fragment_class_of(uint64_t bytes)
{
	return 63 - (unsigned int)__builtin_clzll(bytes);
}

#endif
