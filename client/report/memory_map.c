/* Memory_map: pairs allocations with frees of the same address, and draws what was held between
 * both. Addresses that nobody held in that time have no place in the picture. Blocks of a
 * framework's allocator are drawn filled, and the driver's memory around them in outline; a process
 * without such blocks has the driver's allocations filled. */
#include "client/report/memory_map.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/report/markup.h"
#include "client/trace/show.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/sums.h"
#include "core/base/units.h"
#include "core/base/vector.h"
#include "core/model/core.h"

#define CHANGES_MAX   1000000 /* kept: 56 bytes each */
#define PANELS_SHOWN  4	      /* processes and devices: those with most blocks */
#define BLOCKS_SHOWN  8000    /* of each: the largest on the picture */
#define FAILED_SHOWN  100
#define COLOURS	      6
#define FRAMES_SHOWN  2
#define FRAME_CHARS   16
#define KEY_BYTES     128
#define HEIGHT	      360
#define TITLE	      22
#define KEY	      18
#define BAND_GAP      3
#define BANDS_APART   40 /* with more of them there is no gap between */
#define OUT_OF_MEMORY 2	 /* CUDA_ERROR_OUT_OF_MEMORY */

struct block {
	const struct memory_map_change *made; /* or freed, if that is all that is known */
	uint64_t from_ns, to_ns;
};

/* Addresses without a gap between them. */
struct band {
	uint64_t address, bytes;
	double y;
};

struct weight {
	uint64_t stack_id;
	double area;
};

/* One process on one device. */
struct panel {
	const struct memory_map *map;
	struct block *block;
	size_t count;
	struct band *band;
	size_t band_count;
	double pixels_per_byte, y;
	bool tensors;
	uint64_t colour[COLOURS];
	size_t colours, hidden;
};

static bool is_drawn(uint8_t kind)
{
	return kind == MEMORY_DEVICE || kind == MEMORY_MANAGED || kind == MEMORY_POOL ||
	       kind == MEMORY_MAPPED || kind == MEMORY_TENSOR;
}

static int add(struct memory_map *map, const struct memory_map_change *change)
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

static int add_op(struct memory_map *map, const struct op *op)
{
	const struct memory_map_change change = {
		.at_ns = op->start_ns,
		.address = op->address,
		.bytes = op->bytes,
		.stack_id = op->stack_id,
		.process = op->process,
		.device = op->device,
		.fn = op->fn,
		.kind = op->detail,
		.freed = op->kind == OP_FREE,
		.failed = op->kind == OP_ALLOC && op->result == OUT_OF_MEMORY,
	};

	if ((op->kind != OP_ALLOC && op->kind != OP_FREE) || !is_drawn(op->detail) || !op->bytes)
		return 0;
	if (!change.failed && (op->result || !op->address))
		return 0;
	return add(map, &change);
}

int memory_map_ops(struct memory_map *map, const struct op *op, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = add_op(map, &op[i]);
	if (r < 0)
		complain("Cannot draw the picture: %s", strerror(-r));
	return r;
}

static int add_held(struct memory_map *map)
{
	const struct meta *meta = map->picture.meta;
	int r = 0;

	for (size_t i = 0; i < meta->held_count && r == 0; i++) {
		const struct meta_held *held = &meta->held[i];
		const struct memory_map_change change = {
			.at_ns = held->at_ns,
			.address = held->address,
			.bytes = held->bytes,
			.stack_id = held->stack_id,
			.process = held->process,
			.device = held->device,
			.kind = held->kind,
		};

		if (is_drawn(held->kind) && held->bytes)
			r = add(map, &change);
	}
	return r;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* By process and device, then by place, then by time. */
static int compare_changes(const void *a, const void *b)
{
	const struct memory_map_change *x = a, *y = b;
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

static bool is_of_one(const struct memory_map_change *a, const struct memory_map_change *b)
{
	return a->process == b->process && a->device == b->device;
}

static bool is_one_place(const struct memory_map_change *a, const struct memory_map_change *b)
{
	return is_of_one(a, b) && a->address == b->address &&
	       (a->kind == MEMORY_TENSOR) == (b->kind == MEMORY_TENSOR) && !b->failed;
}

/* Until the next change of the same place. What was live at the end and was allocated in the time
 * is there twice: one of them has no duration. */
static void pair(const struct memory_map *map, size_t from, size_t to, struct panel *panel)
{
	for (size_t i = from; i < to; i++) {
		const struct memory_map_change *change = &map->change[i];
		bool first = i == from || !is_one_place(change - 1, change);
		bool last = i + 1 == to || !is_one_place(change, change + 1);
		struct block block = { change, change->at_ns, map->picture.to_ns };

		if (change->failed || (change->freed && !first))
			continue;
		if (change->freed) {
			block.from_ns = map->picture.from_ns;
			block.to_ns = change->at_ns;
		} else if (!last) {
			block.to_ns = change[1].at_ns;
		}
		if (block.from_ns >= block.to_ns || block.to_ns <= map->picture.from_ns ||
		    block.from_ns >= map->picture.to_ns)
			continue;
		panel->tensors |= change->kind == MEMORY_TENSOR;
		panel->block[panel->count++] = block;
	}
}

static int by_address(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	return compare(x->made->address, y->made->address);
}

static uint64_t end_of(const struct memory_map_change *change)
{
	uint64_t end;

	return __builtin_add_overflow(change->address, change->bytes, &end) ? UINT64_MAX : end;
}

/* The lowest address is at the bottom. */
static int place(struct panel *panel)
{
	double bytes = 0, gap, y = panel->y + HEIGHT;

	panel->band = calloc(panel->count, sizeof(*panel->band));
	if (!panel->band)
		return -ENOMEM;
	qsort(panel->block, panel->count, sizeof(*panel->block), by_address);
	for (size_t i = 0; i < panel->count; i++) {
		const struct memory_map_change *made = panel->block[i].made;
		struct band *band = panel->band_count ? &panel->band[panel->band_count - 1] : NULL;

		if (!band || made->address > band->address + band->bytes) {
			band = &panel->band[panel->band_count++];
			band->address = made->address;
		}
		if (end_of(made) - band->address > band->bytes)
			band->bytes = end_of(made) - band->address;
	}
	gap = panel->band_count <= BANDS_APART ? BAND_GAP : 0;
	for (size_t i = 0; i < panel->band_count; i++)
		bytes += (double)panel->band[i].bytes;
	if (bytes > 0)
		panel->pixels_per_byte = (HEIGHT - gap * (double)panel->band_count) / bytes;
	for (size_t i = 0; i < panel->band_count; i++) {
		panel->band[i].y = y;
		y -= (double)panel->band[i].bytes * panel->pixels_per_byte + gap;
	}
	return 0;
}

static double y_of(const struct panel *panel, uint64_t address)
{
	size_t low = 0, high = panel->band_count;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (panel->band[middle].address <= address)
			low = middle;
		else
			high = middle;
	}
	return panel->band[low].y -
	       (double)(address - panel->band[low].address) * panel->pixels_per_byte;
}

static double area(const struct block *block)
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

static bool is_filled(const struct panel *panel, const struct block *block)
{
	return (block->made->kind == MEMORY_TENSOR) == panel->tensors;
}

/* The stacks that hold most get one each. */
static int colour(struct panel *panel)
{
	struct sums sums = SUMS_OF(struct weight, area);
	int r = 0;

	for (size_t i = 0; i < panel->count && r == 0; i++) {
		const struct block *block = &panel->block[i];
		struct weight *weight;

		if (!is_filled(panel, block))
			continue;
		weight = sums_get(&sums, &block->made->stack_id, panel->count);
		if (weight)
			weight->area += area(block);
		else
			r = -ENOMEM;
	}
	if (r == 0 && sums.count) {
		qsort(sums.row, sums.count, sizeof(struct weight), by_weight);
		panel->colours = sums.count < COLOURS ? sums.count : COLOURS;
		for (uint32_t i = 0; i < panel->colours; i++)
			panel->colour[i] = ((const struct weight *)sums_row(&sums, i))->stack_id;
	}
	sums_release(&sums);
	return r;
}

static void write_block(const struct panel *panel, const struct block *block, FILE *out)
{
	double from = picture_column(&panel->map->picture, block->from_ns);
	double to = picture_column(&panel->map->picture, block->to_ns);
	double y = y_of(panel, block->made->address);
	double height = (double)block->made->bytes * panel->pixels_per_byte;
	size_t colour = 0;

	while (colour < panel->colours && panel->colour[colour] != block->made->stack_id)
		colour++;
	fprintf(out, "<rect x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\" class=\"",
		PICTURE_LEFT + from, y - height, to - from, height);
	if (is_filled(panel, block))
		fprintf(out, "block%zu\"/>\n", colour < panel->colours ? colour : COLOURS);
	else
		fputs("segment\"/>\n", out);
}

static void write_blocks(struct panel *panel, FILE *out)
{
	size_t written = 0;

	qsort(panel->block, panel->count, sizeof(*panel->block), by_area);
	for (int filled = 1; filled >= 0; filled--)
		for (size_t i = 0; i < panel->count; i++) {
			if (is_filled(panel, &panel->block[i]) != (filled != 0))
				continue;
			if (written < BLOCKS_SHOWN)
				write_block(panel, &panel->block[i], out);
			written++;
		}
	panel->hidden = written > BLOCKS_SHOWN ? written - BLOCKS_SHOWN : 0;
}

static void write_failed(const struct panel *panel, const struct memory_map_change *change,
			 size_t count, FILE *out)
{
	const struct picture *picture = &panel->map->picture;
	size_t written = 0;

	for (size_t i = 0; i < count && written < FAILED_SHOWN; i++) {
		const struct meta_text *fn = meta_function(picture->meta, change[i].fn);
		char bytes[UNITS_TEXT_SIZE];

		if (!change[i].failed || change[i].at_ns < picture->from_ns ||
		    change[i].at_ns > picture->to_ns)
			continue;
		written++;
		fprintf(out, "<path class=\"failed\" d=\"M%.1f %.0fv%d\"><title>",
			PICTURE_LEFT + picture_column(picture, change[i].at_ns), panel->y, HEIGHT);
		markup_text(out, fn ? fn->text : "an allocation");
		fprintf(out, ": no memory for %s</title></path>\n",
			units_bytes(bytes, (int64_t)change[i].bytes));
	}
}

static void write_text(FILE *out, double x, double y, const char *class, const char *text)
{
	fprintf(out, "<text class=\"%s\" x=\"%.0f\" y=\"%.0f\">", class, x, y);
	markup_text(out, text);
	fputs("</text>\n", out);
}

static void write_title(const struct panel *panel, FILE *out)
{
	const struct memory_map_change *made = panel->block[0].made;
	const struct meta_process *process = meta_process(panel->map->picture.meta, made->process);
	char label[160];

	snprintf(label, sizeof(label), "%.32s %" PRIu32 " · GPU %d · %zu blocks",
		 process ? process->name->text : "?", process ? process->pid : 0, made->device,
		 panel->count);
	write_text(out, PICTURE_LEFT, panel->y - 6, "title", label);
	if (!panel->hidden && !panel->map->left_out)
		return;
	snprintf(label, sizeof(label), "%" PRIu64 " too small or too many to be drawn",
		 panel->hidden + panel->map->left_out);
	write_text(out, 0, panel->y + HEIGHT, "faint", label);
}

/* A line of Python, or the two frames that called the function. */
static void stack_text(const struct meta_stack *stack, char text[KEY_BYTES])
{
	uint32_t count = stack ? stack->count : 0, from = count > 1 ? 1 : 0;

	snprintf(text, KEY_BYTES, "%s", count ? "" : "no stack");
	for (uint32_t i = 0; i < count; i++)
		if (stack->frame[i]->kind == FRAME_PYTHON) {
			snprintf(text, KEY_BYTES, "%s", stack->frame[i]->label->text);
			return;
		}
	for (uint32_t i = from; i < count && i < from + FRAMES_SHOWN; i++) {
		size_t used = strlen(text);

		snprintf(text + used, KEY_BYTES - used, "%s%.*s", i > from ? " < " : "",
			 FRAME_CHARS, stack->frame[i]->function->text);
	}
}

static void write_key(const struct panel *panel, size_t number, FILE *out)
{
	double y = panel->y + KEY * (double)(number + 1);
	char text[KEY_BYTES];

	stack_text(meta_stack(panel->map->picture.meta, panel->colour[number]), text);
	fprintf(out, "<rect class=\"block%zu\" x=\"0\" y=\"%.0f\" width=\"10\" height=\"10\"/>",
		number, y - 10);
	picture_write_label(out, 16, y, text);
}

/* Changes of one process and device. 1: there is something to draw. */
static int open_panel(const struct memory_map *map, size_t from, size_t to, double y,
		      struct panel *ret)
{
	*ret = (struct panel){ .map = map, .y = y };
	ret->block = calloc(to - from, sizeof(*ret->block));
	if (!ret->block)
		return -ENOMEM;
	pair(map, from, to, ret);
	return ret->count > 0;
}

static void close_panel(struct panel *panel)
{
	free(panel->block);
	free(panel->band);
	*panel = (struct panel){ 0 };
}

static int write_panel(struct panel *panel, const struct memory_map_change *change, size_t count,
		       FILE *out)
{
	int r = place(panel);

	if (r == 0)
		r = colour(panel);
	if (r < 0)
		return r;
	fprintf(out, "<rect class=\"lane\" x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\"/>\n",
		PICTURE_LEFT, panel->y, PICTURE_COLUMNS, HEIGHT);
	write_blocks(panel, out);
	write_failed(panel, change, count, out);
	write_title(panel, out);
	for (size_t i = 0; i < panel->colours; i++)
		write_key(panel, i, out);
	return 0;
}

struct part {
	size_t from, to;
};

static int by_size(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return compare(y->to - y->from, x->to - x->from);
}

/* Of the changes, by process and device: the largest first. */
static int find_parts(const struct memory_map *map, struct part **ret, size_t *ret_count)
{
	size_t room = 0, count = 0;
	struct part *part = NULL;

	for (size_t i = 0, end; i < map->count; i = end) {
		for (end = i + 1;
		     end < map->count && is_of_one(&map->change[i], &map->change[end]);)
			end++;
		if (VECTOR_ROOM(part, room, count + 1) < 0) {
			free(part);
			return -ENOMEM;
		}
		part[count++] = (struct part){ i, end };
	}
	if (count)
		qsort(part, count, sizeof(*part), by_size);
	*ret = part;
	*ret_count = count;
	return 0;
}

static int write_panels(const struct memory_map *map, const struct part *part, size_t count,
			FILE *out)
{
	struct panel panel[PANELS_SHOWN] = { 0 };
	size_t shown = 0;
	int r = 0;

	for (size_t i = 0; i < count && shown < PANELS_SHOWN && r >= 0; i++) {
		double y = TITLE + (double)shown * (HEIGHT + TITLE);

		r = open_panel(map, part[i].from, part[i].to, y, &panel[shown]);
		if (r == 1)
			shown++;
		else
			close_panel(&panel[shown]);
	}
	if (r >= 0 && shown) {
		double height = (double)shown * (HEIGHT + TITLE);

		picture_write_begin(&map->picture, out, "Map of memory", height + PICTURE_AXIS);
		for (size_t i = 0; i < shown && r >= 0; i++) {
			const struct memory_map_change *first = panel[i].block[0].made;
			size_t at = 0;

			while (!is_of_one(&map->change[part[at].from], first))
				at++;
			r = write_panel(&panel[i], &map->change[part[at].from],
					part[at].to - part[at].from, out);
		}
		picture_write_axis(&map->picture, out, height);
		picture_write_losses(&map->picture, out, "Map of memory", height);
		fputs("</svg>\n", out);
	}
	for (size_t i = 0; i < shown; i++)
		close_panel(&panel[i]);
	return r < 0 ? r : shown > 0;
}

int memory_map_draw(struct memory_map *map, FILE *out)
{
	_cleanup_(freep) struct part *part = NULL;
	size_t count = 0;
	int r = add_held(map);

	if (r == 0 && map->count)
		qsort(map->change, map->count, sizeof(*map->change), compare_changes);
	if (r == 0)
		r = find_parts(map, &part, &count);
	return r < 0 ? r : write_panels(map, part, count, out);
}

void memory_map_done(struct memory_map *map)
{
	free(map->change);
	picture_done(&map->picture);
	*map = (struct memory_map){ 0 };
}
