/* Blocks: the last word on each place says what is live; of what led there, only what fits is kept.
 */
#include "client/export/blocks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "client/trace/show.h"
#include "core/base/vector.h"

#define LIBRARY "libc10" /* and what follows, as libc10_cuda.so */

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int by_time(const void *a, const void *b)
{
	const struct block *x = a, *y = b;
	int r = compare(x->at_ns, y->at_ns);

	return r ? r : y->freed - x->freed;
}

static int by_place(const void *a, const void *b)
{
	const struct block *x = a, *y = b;
	int r = compare(x->process, y->process);

	if (r == 0)
		r = compare(x->kind, y->kind);
	if (r == 0)
		r = compare(x->address, y->address);
	return r ? r : by_time(a, b);
}

static bool is_one_place(const struct block *a, const struct block *b)
{
	return a->process == b->process && a->kind == b->kind && a->address == b->address;
}

/* A block that is both held and given out by an event: only the former may know what was asked for.
 */
static void join_requests(struct block *a, struct block *b)
{
	if (a->at_ns != b->at_ns || a->bytes != b->bytes || a->freed || b->freed)
		return;
	if (!b->requested_bytes)
		b->requested_bytes = a->requested_bytes;
}

/* What is held after these events: of each place the last word stands. */
static int settle(struct blocks *blocks, size_t count)
{
	size_t all = blocks->held_count + count, kept = 0;

	if (VECTOR_ROOM(blocks->held, blocks->held_room, all) < 0)
		return -ENOMEM;
	if (count > 0)
		memcpy(blocks->held + blocks->held_count, blocks->event,
		       count * sizeof(*blocks->event));
	if (all > 0)
		qsort(blocks->held, all, sizeof(*blocks->held), by_place);
	for (size_t i = 0; i < all; i++) {
		struct block *block = &blocks->held[i];

		if (i + 1 < all && is_one_place(block, block + 1))
			join_requests(block, block + 1);
		else if (!block->freed)
			blocks->held[kept++] = *block;
	}
	blocks->held_count = kept;
	return 0;
}

static void sort_events(struct blocks *blocks)
{
	if (blocks->event_count > 0)
		qsort(blocks->event, blocks->event_count, sizeof(*blocks->event), by_time);
}

static int forget_earlier(struct blocks *blocks)
{
	size_t half = blocks->event_count / 2;
	int r;

	sort_events(blocks);
	r = settle(blocks, half);
	if (r < 0)
		return r;
	blocks->event_count -= half;
	memmove(blocks->event, blocks->event + half, blocks->event_count * sizeof(*blocks->event));
	blocks->earlier += half;
	return 0;
}

/* Sizes are far from where sums overflow, whatever a recording says. */
static bool is_plausible(uint64_t address, uint64_t bytes)
{
	return bytes > 0 && bytes <= INT64_MAX && address <= INT64_MAX - bytes;
}

int blocks_hold(struct blocks *blocks, const struct meta_held *held)
{
	if ((held->kind != MEMORY_TENSOR && held->kind != MEMORY_DEVICE &&
	     held->kind != MEMORY_MAPPED) ||
	    !is_plausible(held->address, held->bytes))
		return 0;
	if (VECTOR_ROOM(blocks->held, blocks->held_room, blocks->held_count + 1) < 0)
		return -ENOMEM;
	blocks->held[blocks->held_count++] = (struct block){
		.at_ns = held->at_ns,
		.address = held->address,
		.bytes = held->bytes,
		.stack_id = held->stack_id,
		.requested_bytes = held->requested_bytes,
		.process = held->process,
		.device = held->device,
		.kind = held->kind,
	};
	return 0;
}

int blocks_add(struct blocks *blocks, const struct op *op)
{
	bool freed = op->kind == OP_FREE;

	if ((op->kind != OP_ALLOC && !freed) || op->result != 0 ||
	    (op->detail != MEMORY_TENSOR && op->detail != MEMORY_DEVICE) ||
	    !is_plausible(op->address, op->bytes))
		return 0;
	if (blocks->event_count == BLOCKS_EVENTS_MAX && forget_earlier(blocks) < 0)
		return -ENOMEM;
	if (VECTOR_ROOM(blocks->event, blocks->event_room, blocks->event_count + 1) < 0)
		return -ENOMEM;
	blocks->event[blocks->event_count++] = (struct block){
		.at_ns = freed ? op->start_ns : show_end_ns(op),
		.address = op->address,
		.bytes = op->bytes,
		.stack_id = op->stack_id,
		.process = op->process,
		.device = op->device,
		.kind = op->detail,
		.freed = freed,
	};
	return 0;
}

static int note_process(uint32_t process, uint32_t *ret)
{
	if (*ret != 0 && *ret != process)
		return -E2BIG;
	*ret = process;
	return 0;
}

int blocks_process(const struct blocks *blocks, uint32_t *ret)
{
	int r = 0;

	*ret = 0;
	for (size_t i = 0; i < blocks->event_count && r == 0; i++)
		if (blocks->event[i].kind == MEMORY_TENSOR)
			r = note_process(blocks->event[i].process, ret);
	for (size_t i = 0; i < blocks->held_count && r == 0; i++)
		if (blocks->held[i].kind == MEMORY_TENSOR)
			r = note_process(blocks->held[i].process, ret);
	return r;
}

static size_t keep_process(struct block *block, size_t count, uint32_t process)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		if (block[i].process == process)
			block[kept++] = block[i];
	return kept;
}

/* Where blocks lay at any time, sorted. */
struct places {
	uint64_t *address;
	size_t count;
};

static void places_done(struct places *places)
{
	free(places->address);
}

static int by_address(const void *a, const void *b)
{
	return compare(*(const uint64_t *)a, *(const uint64_t *)b);
}

static int places_get(const struct blocks *blocks, struct places *places)
{
	size_t all = blocks->event_count + blocks->held_count;

	places->address = calloc(all + 1, sizeof(*places->address));
	if (!places->address)
		return -ENOMEM;
	for (size_t i = 0; i < blocks->event_count; i++)
		if (blocks->event[i].kind == MEMORY_TENSOR)
			places->address[places->count++] = blocks->event[i].address;
	for (size_t i = 0; i < blocks->held_count; i++)
		if (blocks->held[i].kind == MEMORY_TENSOR)
			places->address[places->count++] = blocks->held[i].address;
	qsort(places->address, places->count, sizeof(*places->address), by_address);
	return 0;
}

/* Whether a block ever lay there. */
static bool places_has(const struct places *places, const struct block *memory)
{
	size_t low = 0, high = places->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (places->address[middle] < memory->address)
			low = middle + 1;
		else
			high = middle;
	}
	return low < places->count && places->address[low] - memory->address < memory->bytes;
}

static bool is_of_library(const struct meta_frame *frame)
{
	const char *slash = strrchr(frame->module->text, '/');

	return strncmp(slash ? slash + 1 : frame->module->text, LIBRARY, strlen(LIBRARY)) == 0;
}

static bool is_segment(const struct blocks *blocks, const struct places *places,
		       const struct block *memory)
{
	const struct meta_stack *stack = meta_stack(blocks->meta, memory->stack_id);

	if (places_has(places, memory))
		return true;
	for (uint32_t i = 0; stack && i < stack->count; i++)
		if (is_of_library(stack->frame[i]))
			return true;
	return false;
}

/* The first segment that ends behind the address. */
static size_t segment_at(const struct blocks *blocks, uint64_t address)
{
	size_t low = 0, high = blocks->segment_count;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		const struct blocks_segment *segment = &blocks->segment[middle];

		if (segment->address + segment->bytes <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool lies_in_one(const struct blocks *blocks, const struct block *block)
{
	size_t at = segment_at(blocks, block->address);
	const struct blocks_segment *segment = &blocks->segment[at];

	return at < blocks->segment_count && segment->address <= block->address &&
	       block->address + block->bytes <= segment->address + segment->bytes;
}

/* 1: others lie there. */
static int segment_add(struct blocks *blocks, const struct block *memory)
{
	size_t at = segment_at(blocks, memory->address);
	struct blocks_segment *segment;

	if (at < blocks->segment_count &&
	    blocks->segment[at].address < memory->address + memory->bytes)
		return 1;
	if (VECTOR_ROOM(blocks->segment, blocks->segment_room, blocks->segment_count + 1) < 0)
		return -ENOMEM;
	segment = &blocks->segment[at];
	memmove(segment + 1, segment, (blocks->segment_count - at) * sizeof(*segment));
	blocks->segment_count++;
	*segment = (struct blocks_segment){
		.address = memory->address,
		.bytes = memory->bytes,
		.stack_id = memory->stack_id,
		.device = memory->device,
		.mapped = memory->kind == MEMORY_MAPPED,
		.made_up = memory->kind == MEMORY_TENSOR,
	};
	return 0;
}

/* Pieces that the allocator mapped one behind the other are one; so are blocks without one. */
static bool segment_grow(struct blocks *blocks, const struct block *memory)
{
	size_t before = segment_at(blocks, memory->address);
	struct blocks_segment *segment;

	if (before == 0)
		return false;
	segment = &blocks->segment[before - 1];
	if (segment->address + segment->bytes != memory->address ||
	    segment->device != memory->device ||
	    (before < blocks->segment_count &&
	     blocks->segment[before].address < memory->address + memory->bytes) ||
	    !(memory->kind == MEMORY_MAPPED ? segment->mapped
					    : memory->kind == MEMORY_TENSOR && segment->made_up))
		return false;
	segment->bytes += memory->bytes;
	return true;
}

static int make_segment(struct blocks *blocks, const struct block *memory)
{
	return segment_grow(blocks, memory) ? 0 : segment_add(blocks, memory);
}

/* Leaves the blocks in `held`, without those that overlap: the older one was freed unseen. */
static void keep_blocks(struct blocks *blocks)
{
	size_t kept = 0;

	for (size_t i = 0; i < blocks->held_count; i++) {
		const struct block block = blocks->held[i];
		const struct block *last = kept > 0 ? &blocks->held[kept - 1] : NULL;

		if (block.kind != MEMORY_TENSOR)
			continue;
		if (last && last->address + last->bytes > block.address) {
			blocks->unfit++;
			if (last->at_ns > block.at_ns)
				continue;
			kept--;
		}
		blocks->held[kept++] = block;
	}
	blocks->held_count = kept;
}

static int make_segments(struct blocks *blocks, const struct places *places)
{
	size_t kept = 0;
	int r;

	for (size_t i = 0; i < blocks->held_count; i++) {
		const struct block *memory = &blocks->held[i];

		if (memory->kind != MEMORY_TENSOR && is_segment(blocks, places, memory) &&
		    make_segment(blocks, memory) < 0)
			return -ENOMEM;
	}
	keep_blocks(blocks);
	for (size_t i = 0; i < blocks->held_count; i++) {
		const struct block block = blocks->held[i];

		r = lies_in_one(blocks, &block) ? 0 : make_segment(blocks, &block);
		if (r < 0)
			return r;
		blocks->unfit += (uint64_t)r;
		if (r == 0)
			blocks->held[kept++] = block;
	}
	blocks->held_count = kept;
	return 0;
}

/* Going back in time: what was freed is there again, and what was given out is not. */
struct past {
	struct blocks *blocks;
	const struct places *places;
	struct map live; /* size of the block, by address */
};

static void past_done(struct past *past)
{
	map_clear(&past->live);
}

static int put_live(struct past *past, const struct block *block)
{
	return map_put(&past->live, (struct map_key){ block->address, 0 },
		       (void *)(uintptr_t)block->bytes);
}

static int undo_block(struct past *past, struct block *event)
{
	struct map_key key = { event->address, 0 };
	uint64_t bytes = (uintptr_t)map_get(&past->live, key);

	if (event->freed) {
		event->kept = bytes == 0 && lies_in_one(past->blocks, event);
		return event->kept ? put_live(past, event) : 0;
	}
	event->kept = bytes == event->bytes;
	if (bytes != 0)
		map_remove(&past->live, key);
	return 0;
}

static void undo_segment(struct blocks *blocks, struct block *event)
{
	size_t at = segment_at(blocks, event->address);
	struct blocks_segment *segment = &blocks->segment[at];

	event->kept = at < blocks->segment_count && segment->address == event->address &&
		      segment->bytes == event->bytes && !segment->made_up && !segment->mapped;
	if (!event->kept)
		return;
	blocks->segment_count--;
	memmove(segment, segment + 1, (blocks->segment_count - at) * sizeof(*segment));
}

static int undo(struct past *past, struct block *event)
{
	int r;

	if (event->kind == MEMORY_TENSOR)
		return undo_block(past, event);
	if (!event->freed)
		return undo_segment(past->blocks, event), 0;
	if (!is_segment(past->blocks, past->places, event))
		return 0;
	r = segment_add(past->blocks, event);
	event->kept = r == 0;
	return r < 0 ? r : 0;
}

static int go_back(struct blocks *blocks, const struct places *places)
{
	_cleanup_(past_done) struct past past = { .blocks = blocks, .places = places };
	int r = 0;

	for (size_t i = 0; i < blocks->held_count && r == 0; i++)
		r = put_live(&past, &blocks->held[i]);
	for (size_t i = blocks->event_count; i-- > 0 && r == 0;) {
		r = undo(&past, &blocks->event[i]);
		blocks->unfit += !blocks->event[i].kept && blocks->event[i].kind == MEMORY_TENSOR;
	}
	return r;
}

/* The segments change while time is gone back in. */
static int go_back_from(struct blocks *blocks, const struct places *places)
{
	size_t count = blocks->segment_count, bytes = count * sizeof(*blocks->segment);
	struct blocks_segment *copy = malloc(bytes + 1);
	int r;

	if (!copy)
		return -ENOMEM;
	if (count > 0)
		memcpy(copy, blocks->segment, bytes);
	r = go_back(blocks, places);
	free(blocks->segment);
	blocks->segment = copy;
	blocks->segment_count = blocks->segment_room = count;
	return r;
}

int blocks_finish(struct blocks *blocks, uint32_t process)
{
	_cleanup_(places_done) struct places places = { 0 };
	int r;

	blocks->event_count = keep_process(blocks->event, blocks->event_count, process);
	blocks->held_count = keep_process(blocks->held, blocks->held_count, process);
	sort_events(blocks);
	r = settle(blocks, blocks->event_count);
	if (r == 0)
		r = places_get(blocks, &places);
	if (r == 0)
		r = make_segments(blocks, &places);
	return r < 0 ? r : go_back_from(blocks, &places);
}

void blocks_clear(struct blocks *blocks)
{
	free(blocks->event);
	free(blocks->held);
	free(blocks->segment);
}
