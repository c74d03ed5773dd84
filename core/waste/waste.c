/* Waste: goes through a process's operations in the order of time, with the live blocks by address,
 * and sums for each stack that allocates one size and each piece of host memory that is copied. */
#include "core/waste/waste.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/vector.h"
#include "core/waste/again.h"
#include "core/waste/blocks.h"
#include "core/waste/event.h"
#include "core/waste/source.h"

/* What a single copy or set may touch; one of more is taken to touch all. */
#define TOUCHED_MAX 64

/* Tensors lie inside the driver's blocks. */
enum { DRIVER, TENSORS, SPACES };

struct moment {
	uint64_t ns;
	uint32_t event;
};

struct waste {
	uint32_t process, max;
	uint64_t from_ns;
	struct meanwhile *meanwhile;
	struct event *event;
	size_t count, room;
	struct blocks blocks[SPACES];
	struct blocks pinned;
	uint64_t host_writes;
	uint64_t all_touched_ns;
	struct sums agains, sources;
	struct sums *rows;
};

int waste_new(uint32_t process, uint64_t since_ns, uint64_t until_ns, uint32_t max,
	      struct waste **ret)
{
	_cleanup_(waste_freep) struct waste *waste = calloc(1, sizeof(*waste));
	int r;

	if (!waste)
		return -ENOMEM;
	waste->process = process;
	waste->max = max < BLOCKS_MAX ? max : BLOCKS_MAX;
	waste->agains = AGAINS;
	waste->sources = SOURCES;
	r = meanwhile_new(since_ns, until_ns, &waste->meanwhile);
	if (r < 0)
		return r;
	*ret = TAKE(waste);
	return 0;
}

struct waste *waste_free(struct waste *waste)
{
	if (!waste)
		return NULL;
	meanwhile_free(waste->meanwhile);
	for (int i = 0; i < SPACES; i++)
		blocks_release(&waste->blocks[i]);
	blocks_release(&waste->pinned);
	sums_release(&waste->agains);
	sums_release(&waste->sources);
	free(waste->event);
	free(waste);
	return NULL;
}

int waste_ran(struct waste *waste, int16_t device, uint64_t start_ns, uint64_t end_ns)
{
	return meanwhile_ran(waste->meanwhile, device, start_ns, end_ns);
}

static bool op_is_looked_at(const struct op *op)
{
	switch (op->kind) {
	case OP_ALLOC:
	case OP_FREE:
		return op->address && !(op->flags & OP_CAPTURED);
	case OP_COPY:
	case OP_SET:
	case OP_MEMORY:
		return true;
	default:
		return false;
	}
}

/* Copies between arrays and the like, and parts of graphs. */
static bool op_touches_unknown(const struct op *op)
{
	return (op->kind == OP_COPY || op->kind == OP_SET) &&
	       ((!op->address && !op->source) || op->flags & (OP_UNREAD | OP_NO_CALL | OP_NODE));
}

int waste_add(struct waste *waste, const struct op *op)
{
	if (!op_is_looked_at(op) || (op->flags & OP_RETURNED && op->result))
		return 0;
	if (waste->count == waste->max)
		return -E2BIG;
	if (VECTOR_ROOM(waste->event, waste->room, waste->count + 1) < 0)
		return -ENOMEM;
	waste->event[waste->count++] = (struct event){
		.start_ns = op->start_ns,
		.end_ns = op->end_ns > op->start_ns ? op->end_ns : op->start_ns,
		.done_ns = op->gpu_end_ns,
		.address = op->address,
		.bytes = bytes_bounded(op->bytes),
		.stack = op->stack_id,
		.source = op->kind == OP_COPY ? op->source : 0,
		.device = op->device,
		.fn = op->fn,
		.flags = op->flags,
		.kind = op->kind,
		.detail = op->detail,
	};
	return op_touches_unknown(op)
		       ? waste_ran(waste, DEVICE_UNKNOWN, op->start_ns,
				   op->gpu_end_ns > op->start_ns ? op->gpu_end_ns : op->start_ns)
		       : 0;
}

static int row_add(struct waste *waste, const struct waste_row *add)
{
	struct waste_key key = add->key;
	struct waste_row *row;

	key.process = waste->process;
	row = sums_get(waste->rows, &key, UINT32_MAX);
	if (!row)
		return -ENOMEM;
	row->count = add_bounded(row->count, add->count);
	row->bytes = add_bounded(row->bytes, add->bytes);
	row->lost_ns = add_bounded(row->lost_ns, add->lost_ns);
	row->held_ns = add_bounded(row->held_ns, add->held_ns);
	return 0;
}

static struct waste_key key_of(const struct event *event, enum waste_pattern pattern,
			       enum certainty certainty)
{
	return (struct waste_key){
		.stack = event->stack,
		.fn = event->fn,
		.device = event->device,
		.pattern = (uint8_t)pattern,
		.certainty = (uint8_t)certainty,
		.kind = event->kind,
		.detail = event->detail,
	};
}

/* That of which uses are seen, if at all. */
static bool is_device_memory(uint8_t kind)
{
	return kind == MEMORY_DEVICE || kind == MEMORY_MANAGED || kind == MEMORY_POOL ||
	       kind == MEMORY_TENSOR;
}

static bool is_pinned_memory(uint8_t kind)
{
	return kind == MEMORY_HOST || kind == MEMORY_REGISTERED;
}

/* Each allocation is a call that takes its time; a pool's is not. */
static bool is_slow_memory(uint8_t kind)
{
	return kind == MEMORY_DEVICE || kind == MEMORY_MANAGED || is_pinned_memory(kind);
}

static struct blocks *blocks_of(struct waste *waste, uint8_t kind)
{
	if (is_pinned_memory(kind))
		return &waste->pinned;
	if (!is_device_memory(kind))
		return NULL;
	return &waste->blocks[kind == MEMORY_TENSOR ? TENSORS : DRIVER];
}

static int take_alloc(struct waste *waste, uint32_t number)
{
	struct event *event = &waste->event[number];
	struct blocks *blocks = blocks_of(waste, event->detail);

	if (blocks)
		blocks_put(blocks, event->address, number);
	return is_slow_memory(event->detail) ? again_allocated(&waste->agains, event) : 0;
}

/* Managed memory is used by the host, too, which nobody sees. */
static enum certainty unused(const struct waste *waste, const struct event *block,
			     uint64_t since_ns, uint64_t until_ns)
{
	if (block->detail == MEMORY_MANAGED)
		return CERTAINTY_POSSIBLE;
	return meanwhile_nothing(waste->meanwhile, block->device, since_ns, until_ns);
}

static int block_freed(struct waste *waste, const struct event *block, const struct event *event)
{
	uint64_t born_ns = block->end_ns, until_ns = event->start_ns;
	uint64_t used_ns = block->used_ns;
	struct waste_row add = { .count = 1, .bytes = block->bytes };
	enum waste_pattern pattern = WASTE_LATE;

	if (waste->all_touched_ns > born_ns && waste->all_touched_ns > used_ns)
		used_ns = waste->all_touched_ns;
	if (!used_ns) {
		pattern = WASTE_UNTOUCHED;
		used_ns = born_ns;
		add.lost_ns = add_bounded(event_took_ns(block), event_took_ns(event));
	}
	add.held_ns = until_ns > used_ns ? until_ns - used_ns : 0;
	if (pattern == WASTE_LATE &&
	    (add.held_ns < WASTE_LATE_NS || add.held_ns < (until_ns - born_ns) / 2))
		return 0;
	add.key = key_of(block, pattern, unused(waste, block, used_ns, until_ns));
	return row_add(waste, &add);
}

/* What was allocated before is unknown. */
static int take_free(struct waste *waste, uint32_t number)
{
	const struct event *event = &waste->event[number], *block;
	struct blocks *blocks = blocks_of(waste, event->detail);
	uint32_t found;
	int r = 0;

	if (!blocks || !blocks_take(blocks, event->address, &found))
		return 0;
	block = &waste->event[found];
	/* It left it alive. */
	if (!event->bytes) {
		blocks_put(blocks, event->address, found);
		return 0;
	}
	if (is_slow_memory(block->detail))
		r = again_freed(&waste->agains, block, event);
	return r < 0 || is_pinned_memory(block->detail) ? r : block_freed(waste, block, event);
}

/* The last block of a space that starts at this address or before, if it reaches up to there. */
static bool find_block(const struct waste *waste, const struct blocks *blocks, uint64_t since,
		       uint64_t until, uint32_t *ret, uint64_t *ret_start)
{
	return blocks_before(blocks, until, ret, ret_start) && waste->event[*ret].bytes > 0 &&
	       (*ret_start >= since || since - *ret_start < waste->event[*ret].bytes);
}

static void touch_space(struct waste *waste, const struct blocks *blocks, uint64_t address,
			uint64_t bytes, uint64_t ns)
{
	uint64_t until = address + (bytes ? bytes - 1 : 0), start;
	uint32_t found;

	if (until < address)
		until = UINT64_MAX;
	for (int i = 0; find_block(waste, blocks, address, until, &found, &start); i++) {
		if (i == TOUCHED_MAX) {
			if (ns > waste->all_touched_ns)
				waste->all_touched_ns = ns;
			return;
		}
		if (ns > waste->event[found].used_ns)
			waste->event[found].used_ns = ns;
		if (start <= address)
			return;
		until = start - 1;
	}
}

static void touch(struct waste *waste, const struct event *event, uint64_t address)
{
	uint64_t ns = event->done_ns > event->end_ns ? event->done_ns : event->end_ns;

	for (int i = 0; address && i < SPACES; i++)
		touch_space(waste, &waste->blocks[i], address, event->bytes, ns);
}

static bool is_pinned(const struct waste *waste, const struct event *event)
{
	uint64_t start;
	uint32_t found;

	if (event->flags & OP_EXACT)
		return !(event->flags & OP_PAGEABLE);
	return find_block(waste, &waste->pinned, event->source, event->source, &found, &start);
}

static int take_copy(struct waste *waste, uint32_t number)
{
	const struct event *event = &waste->event[number];
	const struct waste_row add = {
		.key = key_of(event, WASTE_PAGEABLE, CERTAINTY_CERTAIN),
		.count = 1,
		.bytes = event->bytes,
		.lost_ns = event->flags & OP_NODE ? 0 : event_took_ns(event),
	};

	touch(waste, event, event->address);
	touch(waste, event, event->source);
	if (event->detail != COPY_HTOD && event->detail != COPY_DTOD && event->detail != COPY_PTOP)
		waste->host_writes++;
	if (event->flags & OP_PAGEABLE && event->detail != COPY_HTOH) {
		int r = row_add(waste, &add);

		if (r < 0)
			return r;
	}
	if (event->detail != COPY_HTOD || !event->source || !event->bytes || !event->fn ||
	    event->flags & (OP_CAPTURED | OP_NODE | OP_NO_CALL))
		return 0;
	return source_copied(&waste->sources, event, is_pinned(waste, event), waste->host_writes);
}

static int take(struct waste *waste, uint32_t number)
{
	const struct event *event = &waste->event[number];

	switch (event->kind) {
	case OP_ALLOC:
		return take_alloc(waste, number);
	case OP_FREE:
		return take_free(waste, number);
	case OP_COPY:
		return take_copy(waste, number);
	default:
		touch(waste, event, event->address);
		return 0;
	}
}

/* An allocation is there once its call has returned. */
static uint64_t moment_of(const struct event *event)
{
	return event->kind == OP_ALLOC ? event->end_ns : event->start_ns;
}

static int moment_compare(const void *a, const void *b)
{
	const struct moment *left = a, *right = b;

	if (left->ns != right->ns)
		return left->ns < right->ns ? -1 : 1;
	return left->event < right->event ? -1 : left->event > right->event;
}

static int go_through(struct waste *waste)
{
	_cleanup_(freep) struct moment *moment = malloc((waste->count + 1) * sizeof(*moment));
	size_t count = 0;
	int r = 0;

	if (!moment)
		return -ENOMEM;
	for (size_t i = 0; i < waste->count; i++)
		if (waste->event[i].start_ns >= waste->from_ns)
			moment[count++] =
				(struct moment){ moment_of(&waste->event[i]), (uint32_t)i };
	qsort(moment, count, sizeof(*moment), moment_compare);
	for (size_t i = 0; r == 0 && i < count; i++)
		r = take(waste, moment[i].event);
	return r;
}

static int prepare_space(struct waste *waste, struct blocks *blocks)
{
	uint64_t *address = malloc((waste->count + 1) * sizeof(*address));
	size_t count = 0;
	int r;

	if (!address)
		return -ENOMEM;
	for (size_t i = 0; i < waste->count; i++)
		if (waste->event[i].kind == OP_ALLOC &&
		    blocks_of(waste, waste->event[i].detail) == blocks)
			address[count++] = waste->event[i].address;
	r = blocks_init(blocks, address, count);
	if (r < 0)
		free(address);
	return r;
}

static int tell_sums(struct waste *waste)
{
	struct waste_row row;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < waste->agains.count; i++)
		if (again_is_waste(sums_row(&waste->agains, i), &row))
			r = row_add(waste, &row);
	for (uint32_t i = 0; r == 0 && i < waste->sources.count; i++)
		for (int certainty = 0; r == 0 && certainty <= CERTAINTY_MAX; certainty++)
			if (source_is_waste(sums_row(&waste->sources, i), (enum certainty)certainty,
					    &row))
				r = row_add(waste, &row);
	return r;
}

int waste_find(struct waste *waste, uint64_t from_ns, struct sums *rows)
{
	int r = prepare_space(waste, &waste->pinned);

	waste->rows = rows;
	waste->from_ns = from_ns;
	for (int i = 0; r == 0 && i < SPACES; i++)
		r = prepare_space(waste, &waste->blocks[i]);
	if (r == 0)
		r = go_through(waste);
	return r == 0 ? tell_sums(waste) : r;
}
