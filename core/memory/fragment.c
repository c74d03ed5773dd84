/* Fragment: walks along blocks and segments once, by address. What was walked over is never walked
 * over again, so whatever the numbers are, the sums are of disjoint ranges and do not overflow. */
#include "core/memory/fragment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

struct walk {
	const struct fragment_pool *pool;
	struct fragment *sum;
	uint64_t at;	    /* what lies below is done */
	size_t block;	    /* the next one */
	double one_piece;   /* bytes, each by the chance that another one is in its piece */
	double free, chunk; /* of this segment: free bytes, and the sum of piece^2 */
	uint64_t left;	    /* the piece before `oldest`; 0: none in this segment */
	const struct fragment_span *oldest; /* since that piece */
	bool empty;
};

static uint64_t end_of(const struct fragment_span *span)
{
	uint64_t end;

	return __builtin_add_overflow(span->address, span->bytes, &end) ? UINT64_MAX : end;
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t sooner(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void walk_piece(struct walk *walk, uint64_t end)
{
	struct fragment *sum = walk->sum;
	uint64_t bytes = end - walk->at;
	struct fragment_class *class;

	if (end <= walk->at)
		return;
	class = &sum->class[fragment_class_of(bytes)];
	class->pieces++;
	class->bytes += bytes;
	sum->pieces++;
	sum->free_bytes += bytes;
	sum->largest_bytes = later(sum->largest_bytes, bytes);
	if (bytes < walk->pool->request_bytes)
		sum->unusable_bytes += bytes;
	walk->free += (double)bytes;
	walk->chunk += (double)bytes * (double)bytes;
	if (walk->left && walk->oldest && walk->pool->divider)
		walk->pool->divider(walk->pool->divider_data, walk->oldest,
				    sooner(walk->left, bytes));
	walk->left = bytes;
	walk->oldest = NULL;
	walk->at = end;
}

static void walk_used(struct walk *walk, const struct fragment_span *block, uint64_t end)
{
	walk->empty = false;
	if (end <= walk->at)
		return;
	walk->sum->used_bytes += end - walk->at;
	walk->at = end;
	if (!walk->oldest || block->start_ns < walk->oldest->start_ns)
		walk->oldest = block;
}

static void walk_segment_begin(struct walk *walk, uint64_t address)
{
	walk->at = later(walk->at, address);
	walk->free = walk->chunk = 0;
	walk->left = 0;
	walk->oldest = NULL;
	walk->empty = true;
	walk->sum->segments++;
}

static void walk_segment_end(struct walk *walk, uint64_t end)
{
	uint64_t before = walk->sum->free_bytes;

	walk_piece(walk, end);
	if (walk->empty)
		walk->sum->empty_bytes += walk->sum->free_bytes - before;
	else if (walk->free > 0)
		walk->one_piece += walk->chunk / walk->free;
}

/* A block whose part from `from` to `to` is counted. */
static void walk_stray(struct walk *walk, uint64_t from, uint64_t to)
{
	uint64_t *stray = &walk->sum->stray_bytes;

	if (to > from && __builtin_add_overflow(*stray, to - from, stray))
		*stray = UINT64_MAX;
}

/* Blocks before `end`; one that reaches further is cut there. */
static void walk_segment(struct walk *walk, uint64_t end)
{
	const struct fragment_pool *pool = walk->pool;

	for (; walk->block < pool->block_count; walk->block++) {
		const struct fragment_span *block = &pool->block[walk->block];
		uint64_t block_end = end_of(block);

		if (block->address >= end)
			break;
		walk_stray(walk, block->address, sooner(block_end, walk->at));
		if (!block->bytes || block_end <= walk->at)
			continue;
		walk->sum->blocks++;
		walk_piece(walk, later(block->address, walk->at));
		walk_used(walk, block, sooner(block_end, end));
		walk_stray(walk, end, block_end);
	}
	walk_segment_end(walk, end);
}

static void walk_segments(struct walk *walk)
{
	const struct fragment_pool *pool = walk->pool;

	for (size_t i = 0; i < pool->segment_count; i++) {
		const struct fragment_span *segment = &pool->segment[i];
		uint64_t end = end_of(segment);

		if (end <= walk->at || !segment->bytes)
			continue;
		walk_segment_begin(walk, segment->address);
		walk_segment(walk, end);
	}
	for (; walk->block < pool->block_count; walk->block++)
		walk_stray(walk, pool->block[walk->block].address,
			   end_of(&pool->block[walk->block]));
}

static uint64_t granule_end(uint64_t address, uint64_t mask)
{
	return (address | mask) < UINT64_MAX ? (address | mask) + 1 : UINT64_MAX;
}

/* `end` is that of the granule that the walk is in. Returns that in which the block ends. */
static uint64_t walk_over_granules(struct walk *walk, const struct fragment_span *block,
				   uint64_t block_end, uint64_t end)
{
	uint64_t granule = walk->pool->granule_bytes, last = (block_end - 1) & ~(granule - 1);

	walk_used(walk, block, end);
	walk_segment_end(walk, end);
	walk->sum->segments += (last - end) / granule;
	walk_used(walk, block, last);
	walk_segment_begin(walk, last);
	return granule_end(last, granule - 1);
}

/* A block larger than a granule fills those in its middle. */
static void walk_granules(struct walk *walk)
{
	const struct fragment_pool *pool = walk->pool;
	uint64_t mask = pool->granule_bytes - 1, end = 0;

	for (size_t i = 0; i < pool->block_count; i++) {
		const struct fragment_span *block = &pool->block[i];
		uint64_t block_end = end_of(block), from = later(block->address, walk->at);

		walk_stray(walk, block->address, sooner(block_end, walk->at));
		if (!block->bytes || block_end <= walk->at)
			continue;
		walk->sum->blocks++;
		if (from >= end) {
			if (end)
				walk_segment_end(walk, end);
			walk_segment_begin(walk, from & ~mask);
			end = granule_end(from, mask);
		}
		walk_piece(walk, from);
		if (block_end > end)
			end = walk_over_granules(walk, block, block_end, end);
		walk_used(walk, block, block_end);
	}
	if (end)
		walk_segment_end(walk, end);
}

void fragment_measure(const struct fragment_pool *pool, struct fragment *ret)
{
	struct walk walk = { .pool = pool, .sum = ret };

	memset(ret, 0, sizeof(*ret));
	if (pool->granule_bytes)
		walk_granules(&walk);
	else
		walk_segments(&walk);
	ret->segment_bytes = ret->used_bytes + ret->free_bytes;
	if (ret->free_bytes > ret->empty_bytes) {
		double index = 1 - walk.one_piece / (double)(ret->free_bytes - ret->empty_bytes);

		ret->index_ppm = index > 0 ? (uint32_t)(index * 1e6 + 0.5) : 0;
	}
}

static int compare_address(const void *a, const void *b)
{
	const struct fragment_span *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

#define DIGIT_BITS 11
#define DIGITS	   (1u << DIGIT_BITS)
#define FEW	   512 /* spans, which qsort() has in order sooner */

static unsigned int digit_of(const struct fragment_span *span, unsigned int shift)
{
	return (span->address >> shift) % DIGITS;
}

/* By one digit; spans with the same one stay in order. */
static void sort_by_digit(const struct fragment_span *from, struct fragment_span *to, size_t count,
			  unsigned int shift)
{
	size_t place[DIGITS] = { 0 }, sum = 0;

	for (size_t i = 0; i < count; i++)
		place[digit_of(&from[i], shift)]++;
	for (size_t i = 0; i < DIGITS; i++) {
		size_t next = sum + place[i];

		place[i] = sum;
		sum = next;
	}
	for (size_t i = 0; i < count; i++)
		to[place[digit_of(&from[i], shift)]++] = from[i];
}

/* By the bits in which addresses differ: those of blocks have few, as they are near each other, and
 * aligned. */
void fragment_sort(struct fragment_span *span, size_t count)
{
	struct fragment_span *other = count > FEW ? malloc(count * sizeof(*span)) : NULL;
	struct fragment_span *from = span, *to = other;
	uint64_t differ = 0;

	if (!other) {
		if (count)
			qsort(span, count, sizeof(*span), compare_address);
		return;
	}
	for (size_t i = 1; i < count; i++)
		differ |= span[i].address ^ span[0].address;
	for (unsigned int shift = differ ? (unsigned int)__builtin_ctzll(differ) : 64;
	     shift < 64 && differ >> shift; shift += DIGIT_BITS) {
		struct fragment_span *sorted = to;

		sort_by_digit(from, to, count, shift);
		to = from;
		from = sorted;
	}
	if (from != span)
		memcpy(span, from, count * sizeof(*span));
	free(other);
}

static int compare_size(const void *a, const void *b)
{
	const struct fragment_size *x = a, *y = b;

	return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

uint64_t fragment_typical(struct fragment_size *size, size_t count)
{
	double all = 0, sum = 0;

	if (!count)
		return 0;
	qsort(size, count, sizeof(*size), compare_size);
	for (size_t i = 0; i < count; i++)
		all += (double)size[i].sum_bytes;
	for (size_t i = 0; i < count; i++) {
		sum += (double)size[i].sum_bytes;
		if (sum >= all / 2)
			return size[i].bytes;
	}
	return 0;
}
