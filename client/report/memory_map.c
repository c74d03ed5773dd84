/* Memory_map: draws the blocks of an address map. Blocks of a framework's allocator are drawn
 * filled, and the driver's memory around them in outline; a process without such blocks has the
 * driver's allocations filled. */
#include "client/report/memory_map.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "client/base/complain.h"
#include "client/report/markup.h"
#include "core/base/units.h"
#include "core/model/core.h"

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

/* Where a panel is drawn. */
struct drawing {
	const struct picture *picture;
	const struct address_map *map;
	const struct address_panel *panel;
	size_t blocks_max; /* the largest on the picture */
	double y, pixels_per_byte, gap;
};

/* What was allocated is held from the return of the call on, as the metadata says, too. */
static int add_op(struct address_map *map, const struct op *op)
{
	const struct address_change change = {
		.at_ns = op->kind == OP_ALLOC && op->end_ns > op->start_ns ? op->end_ns
									   : op->start_ns,
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

	if ((op->kind != OP_ALLOC && op->kind != OP_FREE) || !address_map_has(op->detail) ||
	    !op->bytes)
		return 0;
	if (!change.failed && (op->result || !op->address))
		return 0;
	return address_map_add(map, &change);
}

int memory_map_ops(struct address_map *map, const struct op *op, size_t count)
{
	int r = 0;

	for (size_t i = 0; i < count && r == 0; i++)
		r = add_op(map, &op[i]);
	if (r < 0)
		complain("Cannot draw the picture: %s", strerror(-r));
	return r;
}

static int add_held(const struct meta *meta, struct address_map *map)
{
	int r = 0;

	for (size_t i = 0; i < meta->held_count && r == 0; i++) {
		const struct meta_held *held = &meta->held[i];
		const struct address_change change = {
			.at_ns = held->at_ns,
			.address = held->address,
			.bytes = held->bytes,
			.stack_id = held->stack_id,
			.process = held->process,
			.device = held->device,
			.kind = held->kind,
		};

		if (address_map_has(held->kind) && held->bytes)
			r = address_map_add(map, &change);
	}
	return r;
}

/* The lowest address is at the bottom. */
static double y_of(const struct drawing *drawing, uint64_t address)
{
	size_t number = address_map_band(drawing->panel, address);
	const struct address_band *band = &drawing->panel->band[number];

	return drawing->y + HEIGHT - drawing->gap * (double)number -
	       (band->below + (double)(address - band->address)) * drawing->pixels_per_byte;
}

static void write_block(const struct drawing *drawing, const struct address_block *block, FILE *out)
{
	const struct address_panel *panel = drawing->panel;
	double from = picture_column(drawing->picture, block->from_ns);
	double to = picture_column(drawing->picture, block->to_ns);
	double y = y_of(drawing, block->made->address);
	double height = (double)block->made->bytes * drawing->pixels_per_byte;
	size_t colour = 0;

	while (colour < panel->stacks && colour < COLOURS &&
	       panel->stack[colour] != block->made->stack_id)
		colour++;
	fprintf(out, "<rect x=\"%.1f\" y=\"%.2f\" width=\"%.1f\" height=\"%.2f\" class=\"",
		PICTURE_LEFT + from, y - height, to - from, height);
	if (address_map_is_filled(panel, block))
		fprintf(out, "block%zu\"/>\n", colour < panel->stacks ? colour : COLOURS);
	else
		fputs("segment\"/>\n", out);
}

static void write_blocks(const struct drawing *drawing, FILE *out)
{
	const struct address_panel *panel = drawing->panel;
	size_t written = 0;

	for (int filled = 1; filled >= 0; filled--)
		for (size_t i = 0; i < panel->blocks && written < drawing->blocks_max; i++) {
			if (address_map_is_filled(panel, &panel->block[i]) != (filled != 0))
				continue;
			write_block(drawing, &panel->block[i], out);
			written++;
		}
}

static void write_failed(const struct drawing *drawing, FILE *out)
{
	const struct picture *picture = drawing->picture;
	const struct address_change *change = drawing->panel->change;
	size_t written = 0;

	for (size_t i = 0; i < drawing->panel->changes && written < FAILED_SHOWN; i++) {
		const struct meta_text *fn = meta_function(picture->meta, change[i].fn);
		char bytes[UNITS_TEXT_SIZE];

		if (!change[i].failed || change[i].at_ns < picture->from_ns ||
		    change[i].at_ns > picture->to_ns)
			continue;
		written++;
		fprintf(out, "<path class=\"failed\" d=\"M%.1f %.0fv%d\"><title>",
			PICTURE_LEFT + picture_column(picture, change[i].at_ns), drawing->y,
			HEIGHT);
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

static void write_title(const struct drawing *drawing, FILE *out)
{
	const struct address_panel *panel = drawing->panel;
	const struct address_change *made = panel->block[0].made;
	const struct meta_process *process = meta_process(drawing->picture->meta, made->process);
	size_t hidden =
		panel->blocks > drawing->blocks_max ? panel->blocks - drawing->blocks_max : 0;
	char label[160], device[16];

	if (made->device < 0)
		snprintf(device, sizeof(device), "GPU ?");
	else
		snprintf(device, sizeof(device), "GPU %d", made->device);
	snprintf(label, sizeof(label), "%.32s %" PRIu32 " · %s · %zu block%s",
		 process ? process->name->text : "?", process ? process->pid : 0, device,
		 panel->blocks, panel->blocks == 1 ? "" : "s");
	write_text(out, PICTURE_LEFT, drawing->y - 6, "title", label);
	if (!hidden && !drawing->map->left_out)
		return;
	snprintf(label, sizeof(label), "%" PRIu64 " too small or too many to be drawn",
		 hidden + drawing->map->left_out);
	write_text(out, 0, drawing->y + HEIGHT, "faint", label);
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

static void write_key(const struct drawing *drawing, size_t number, FILE *out)
{
	const struct meta *meta = drawing->picture->meta;
	double y = drawing->y + KEY * (double)(number + 1);
	char text[KEY_BYTES];

	stack_text(meta_stack(meta, drawing->panel->stack[number]), text);
	fprintf(out, "<rect class=\"block%zu\" x=\"0\" y=\"%.0f\" width=\"10\" height=\"10\"/>",
		number, y - 10);
	picture_write_label(out, 16, y, text);
}

static void write_panel(struct drawing *drawing, FILE *out)
{
	const struct address_panel *panel = drawing->panel;

	drawing->gap = panel->bands <= BANDS_APART ? BAND_GAP : 0;
	if (panel->bytes > 0)
		drawing->pixels_per_byte =
			(HEIGHT - drawing->gap * (double)panel->bands) / panel->bytes;
	fprintf(out, "<rect class=\"lane\" x=\"%d\" y=\"%.0f\" width=\"%d\" height=\"%d\"/>\n",
		PICTURE_LEFT, drawing->y, PICTURE_COLUMNS, HEIGHT);
	write_blocks(drawing, out);
	write_failed(drawing, out);
	write_title(drawing, out);
	for (size_t i = 0; i < panel->stacks && i < COLOURS; i++)
		write_key(drawing, i, out);
}

int memory_map_draw(const struct picture *picture, struct address_map *map, size_t blocks_max,
		    FILE *out)
{
	double height;
	int r;

	map->from_ns = picture->from_ns;
	map->to_ns = picture->to_ns;
	r = add_held(picture->meta, map);
	if (r == 0)
		r = address_map_arrange(map);
	if (r < 0 || !map->panels)
		return r;
	height = (double)map->panels * (HEIGHT + TITLE);
	picture_write_begin(picture, out, "Addresses over time", height + PICTURE_AXIS);
	for (size_t i = 0; i < map->panels; i++) {
		struct drawing drawing = {
			.picture = picture,
			.map = map,
			.panel = &map->panel[i],
			.blocks_max = blocks_max,
			.y = TITLE + (double)i * (HEIGHT + TITLE),
		};

		write_panel(&drawing, out);
	}
	picture_write_axis(picture, out, height);
	picture_write_losses(picture, out, "Addresses over time", height);
	fputs("</svg>\n", out);
	return 1;
}
