/* Address_map: pairs allocations with frees of the same address. Addresses that nobody held in that
 * time have no place. */
#include "client/trace/address_map.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/cleanup.h"
#include "core/base/sums.h"
#include "core/base/vector.h"
#include "core/model/core.h"

#define CHANGES_MAX 1000000 /* kept: 56 bytes each */

struct weight {
	uint64_t stack_id;
	double area;
};

bool address_map_has(uint8_t kind)
{
	return kind == MEMORY_DEVICE || kind == MEMORY_MANAGED || kind == MEMORY_POOL ||
	       kind == MEMORY_MAPPED || kind == MEMORY_TENSOR;
}

int address_map_add(struct address_map *map, const struct address_change *change)
{
	if (map->count == CHANGES_MAX) {
		map->left_out++;
		return 0;
	}
	if (VECTOR_ROOM(map->change, map->room, map->count + 1) < 0)
		return -ENOMEM;
	map->change[map->count++] = *change;
	return 0;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* By process and device, then by place, then by time. */
static int compare_changes(const void *a, const void *b)
{
	const struct address_change *x = a, *y = b;
	int r = compare(x->process, y->process);

	if (r == 0)
		r = x->device - y->device;
	if (r == 0)
		r = x->failed - y->failed;
	if (r == 0)
		r = (x->kind == MEMORY_TENSOR) - (y->kind == MEMORY_TENSOR);
	if (r == 0)
		r = compare(x->address, y->address);
	if (r == 0)
		r = compare(x->at_ns, y->at_ns);
	return r ? r : y->freed - x->freed;
}

static bool is_of_one(const struct address_change *a, const struct address_change *b)
{
	return a->process == b->process && a->device == b->device;
}

static bool is_one_place(const struct address_change *a, const struct address_change *b)
{
	return is_of_one(a, b) && a->address == b->address &&
	       (a->kind == MEMORY_TENSOR) == (b->kind == MEMORY_TENSOR) && !b->failed;
}

/* Until the next change of the same place. What was live at the end and was allocated in the time
 * is there twice: one of them has no duration. */
static bool is_block(const struct address_map *map, const struct address_panel *panel, size_t i,
		     struct address_block *ret)
{
	const struct address_change *change = &panel->change[i];
	bool first = i == 0 || !is_one_place(change - 1, change);
	bool last = i + 1 == panel->changes || !is_one_place(change, change + 1);
	struct address_block block = { change, change->at_ns, map->to_ns };

	if (change->failed || (change->freed && !first))
		return false;
	if (change->freed) {
		block.from_ns = map->from_ns;
		block.to_ns = change->at_ns;
	} else if (!last) {
		block.to_ns = change[1].at_ns;
	}
	*ret = block;
	return block.from_ns < block.to_ns && block.to_ns > map->from_ns &&
	       block.from_ns < map->to_ns;
}

static void pair(const struct address_map *map, struct address_panel *panel)
{
	struct address_block block;

	for (size_t i = 0; i < panel->changes; i++) {
		if (!is_block(map, panel, i, &block))
			continue;
		panel->tensors |= block.made->kind == MEMORY_TENSOR;
		panel->block[panel->blocks++] = block;
	}
}

static int by_address(const void *a, const void *b)
{
	const struct address_block *x = a, *y = b;

	return compare(x->made->address, y->made->address);
}

static uint64_t end_of(const struct address_change *change)
{
	uint64_t end;

	return __builtin_add_overflow(change->address, change->bytes, &end) ? UINT64_MAX : end;
}

static int place(struct address_panel *panel)
{
	panel->band = calloc(panel->blocks, sizeof(*panel->band));
	if (!panel->band)
		return -ENOMEM;
	qsort(panel->block, panel->blocks, sizeof(*panel->block), by_address);
	for (size_t i = 0; i < panel->blocks; i++) {
		const struct address_change *made = panel->block[i].made;
		struct address_band *band = panel->bands ? &panel->band[panel->bands - 1] : NULL;

		if (!band || made->address > band->address + band->bytes) {
			band = &panel->band[panel->bands++];
			band->address = made->address;
		}
		if (end_of(made) - band->address > band->bytes)
			band->bytes = end_of(made) - band->address;
	}
	for (size_t i = 0; i < panel->bands; i++) {
		panel->band[i].below = panel->bytes;
		panel->bytes += (double)panel->band[i].bytes;
	}
	return 0;
}

size_t address_map_band(const struct address_panel *panel, uint64_t address)
{
	size_t low = 0, high = panel->bands;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (panel->band[middle].address <= address)
			low = middle;
		else
			high = middle;
	}
	return low;
}

static double area(const struct address_block *block)
{
	return (double)block->made->bytes * (double)(block->to_ns - block->from_ns);
}

static int by_area(const void *a, const void *b)
{
	double x = area(a), y = area(b);

	return (x < y) - (x > y);
}

static int by_weight(const void *a, const void *b)
{
	const struct weight *x = a, *y = b;

	return (x->area < y->area) - (x->area > y->area);
}

bool address_map_is_filled(const struct address_panel *panel, const struct address_block *block)
{
	return (block->made->kind == MEMORY_TENSOR) == panel->tensors;
}

static int weigh(struct address_panel *panel)
{
	struct sums sums = SUMS_OF(struct weight, area);
	int r = 0;

	for (size_t i = 0; i < panel->blocks && r == 0; i++) {
		const struct address_block *block = &panel->block[i];
		struct weight *weight;

		if (!address_map_is_filled(panel, block))
			continue;
		weight = sums_get(&sums, &block->made->stack_id, panel->blocks);
		if (weight)
			weight->area += area(block);
		else
			r = -ENOMEM;
	}
	if (r == 0 && sums.count) {
		qsort(sums.row, sums.count, sizeof(struct weight), by_weight);
		panel->stacks = sums.count < ADDRESS_STACKS_MAX ? sums.count : ADDRESS_STACKS_MAX;
		for (uint32_t i = 0; i < panel->stacks; i++)
			panel->stack[i] = ((const struct weight *)sums_row(&sums, i))->stack_id;
	}
	sums_release(&sums);
	return r;
}

static void close_panel(struct address_panel *panel)
{
	free(panel->block);
	free(panel->band);
	*panel = (struct address_panel){ 0 };
}

/* 1: it has blocks. */
static int open_panel(const struct address_map *map, struct address_panel *panel)
{
	int r;

	panel->block = calloc(panel->changes, sizeof(*panel->block));
	if (!panel->block)
		return -ENOMEM;
	pair(map, panel);
	if (!panel->blocks) {
		close_panel(panel);
		return 0;
	}
	r = place(panel);
	if (r == 0)
		r = weigh(panel);
	qsort(panel->block, panel->blocks, sizeof(*panel->block), by_area);
	return r < 0 ? r : 1;
}

/* What it held, for as long as it did. */
static double weight_of(const struct address_map *map, const struct address_panel *panel)
{
	struct address_block block;
	double all = 0;

	for (size_t i = 0; i < panel->changes; i++)
		if (is_block(map, panel, i, &block))
			all += area(&block);
	return all;
}

struct part {
	struct address_panel panel;
	double weight;
};

static int by_part(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return (x->weight < y->weight) - (x->weight > y->weight);
}

/* Of the changes, by process and device: those that held most first. */
static int find_parts(const struct address_map *map, struct part **ret, size_t *ret_count)
{
	_cleanup_(freep) struct part *part = NULL;
	size_t room = 0, count = 0;

	for (size_t i = 0, end; i < map->count; i = end) {
		struct part next = { .panel = { .change = &map->change[i] } };

		for (end = i + 1;
		     end < map->count && is_of_one(&map->change[i], &map->change[end]);)
			end++;
		next.panel.changes = end - i;
		next.weight = weight_of(map, &next.panel);
		if (VECTOR_ROOM(part, room, count + 1) < 0)
			return -ENOMEM;
		part[count++] = next;
	}
	if (count)
		qsort(part, count, sizeof(*part), by_part);
	*ret = TAKE(part);
	*ret_count = count;
	return 0;
}

int address_map_arrange(struct address_map *map)
{
	_cleanup_(freep) struct part *part = NULL;
	size_t count = 0;
	int r;

	if (map->count)
		qsort(map->change, map->count, sizeof(*map->change), compare_changes);
	r = find_parts(map, &part, &count);
	for (size_t i = 0; i < count && map->panels < ADDRESS_PANELS_MAX && r >= 0; i++) {
		map->panel[map->panels] = part[i].panel;
		r = open_panel(map, &map->panel[map->panels]);
		map->panels += r != 0;
	}
	return r < 0 ? r : 0;
}

void address_map_done(struct address_map *map)
{
	for (size_t i = 0; i < map->panels; i++)
		close_panel(&map->panel[i]);
	free(map->change);
	*map = (struct address_map){ 0 };
}
