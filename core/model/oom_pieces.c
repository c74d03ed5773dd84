/* Oom pieces: segments are the driver's allocations in which a block lies. Empty ones are given
 * back before a framework gives up, and the others are no segments. */
#include "core/model/oom_pieces.h"

#include <stdlib.h>

#include "core/base/cleanup.h"
#include "core/memory/fragment.h"
#include "core/model/allocator.h"
#include "core/model/model.h"

/* What the framework says is live may be more than the known blocks by this part of it. */
#define UNKNOWN_PART 64

struct pieces {
	const struct process *process;
	const struct core_oom *row;
	struct fragment_span *block, *segment;
	size_t blocks, segments;
};

static void pieces_done(struct pieces *pieces)
{
	free(pieces->block);
	free(pieces->segment);
}

static bool is_segment(uint8_t kind)
{
	return kind == MEMORY_DEVICE || kind == MEMORY_MANAGED || kind == MEMORY_MAPPED;
}

/* Blocks lie in allocations of the driver, or in mappings of its physical memory. */
static bool pieces_count(struct pieces *pieces)
{
	struct account *account;
	uint64_t blocks = 0, segments = 0;

	list_for_each(account, &pieces->process->accounts, link) {
		if (account->kind == MEMORY_TENSOR && account->device == pieces->row->device)
			blocks += account->live_count;
		else if (is_segment(account->kind))
			segments += account->live_count;
	}
	if (!blocks || !segments || blocks > OOM_PIECES_MAX || segments > OOM_PIECES_MAX)
		return false;
	pieces->block = calloc(blocks, sizeof(*pieces->block));
	pieces->segment = calloc(segments, sizeof(*pieces->segment));
	return pieces->block && pieces->segment;
}

static struct fragment_span span_of(const struct allocation *allocation)
{
	return (struct fragment_span){
		.address = allocation->address,
		.bytes = allocation->bytes,
		.start_ns = allocation->start_ns,
	};
}

static void pieces_take(struct pieces *pieces, const struct list *list)
{
	struct allocation *allocation;

	list_for_each(allocation, list, in_context) {
		const struct account *account = allocation->account;

		if (account->kind == MEMORY_TENSOR && account->device == pieces->row->device)
			pieces->block[pieces->blocks++] = span_of(allocation);
		else if (is_segment(account->kind))
			pieces->segment[pieces->segments++] = span_of(allocation);
	}
}

/* Leaves those in which a block starts; both are sorted. */
static void pieces_choose(struct pieces *pieces)
{
	size_t kept = 0, block = 0;

	for (size_t i = 0; i < pieces->segments; i++) {
		const struct fragment_span *segment = &pieces->segment[i];

		while (block < pieces->blocks && pieces->block[block].address < segment->address)
			block++;
		if (block < pieces->blocks &&
		    pieces->block[block].address - segment->address < segment->bytes)
			pieces->segment[kept++] = *segment;
	}
	pieces->segments = kept;
}

static bool pieces_is_whole(const struct pieces *pieces, uint64_t used_bytes)
{
	const struct allocator *allocator;
	uint64_t told = 0;

	list_for_each(allocator, &pieces->process->allocators, link)
		if (allocator->device == pieces->row->device)
			told += allocator->used_bytes;
	return told && used_bytes + told / UNKNOWN_PART >= told;
}

void oom_pieces(const struct process *process, struct core_oom *row)
{
	_cleanup_(pieces_done) struct pieces pieces = { .process = process, .row = row };
	struct fragment_pool pool;
	struct context *context;
	struct fragment found;

	row->pieces = row->pieces_bytes = row->piece_bytes = row->fragment_ppm = 0;
	if (!pieces_count(&pieces))
		return;
	list_for_each(context, &process->contexts, link)
		pieces_take(&pieces, &context->allocations);
	pieces_take(&pieces, &process->mappings);
	fragment_sort(pieces.block, pieces.blocks);
	fragment_sort(pieces.segment, pieces.segments);
	pieces_choose(&pieces);
	pool = (struct fragment_pool){
		.segment = pieces.segment,
		.block = pieces.block,
		.segment_count = pieces.segments,
		.block_count = pieces.blocks,
	};
	fragment_measure(&pool, &found);
	if (!pieces_is_whole(&pieces, found.used_bytes))
		return;
	row->pieces = found.pieces;
	row->pieces_bytes = found.free_bytes;
	row->piece_bytes = found.largest_bytes;
	row->fragment_ppm = found.index_ppm;
}
