/* View lanes, drawn: each cell shows the kind that fills most of it, as a capital letter if that is
 * half of the cell or more. */
#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "client/view/lanes.h"
#include "core/base/units.h"
#include "core/base/utf8.h"

#define TICK_CELLS 12 /* columns between two times on the axis */

static const struct {
	char letter;
	int color;
	const char *text;
} kinds[] = {
#define X(id, letter, text, color) { letter, color, text },
	LANE_KINDS(X)
#undef X
};

static const char *idle(const struct view *view)
{
	return view->utf8 ? "·" : ".";
}

static void draw_cell(const struct view_lanes *lanes, const uint64_t *ns, uint32_t *seen)
{
	FILE *out = lanes->view->out;
	int most = 0;
	char letter;

	for (int kind = 1; kind < LANE_KIND_COUNT; kind++)
		if (ns[kind] > ns[most])
			most = kind;
	if (ns[most] == 0) {
		fputs(idle(lanes->view), out);
		return;
	}
	*seen |= 1u << most;
	letter = kinds[most].letter;
	if (ns[most] >= lanes->step_ns - lanes->step_ns / 2)
		letter = (char)toupper(letter);
	if (lanes->view->color)
		fprintf(out, "\033[%dm%c\033[0m", kinds[most].color, letter);
	else
		fputc(letter, out);
}

/* Eighths or tenths, rounded up, so that any activity shows. */
static void draw_share(const struct view_lanes *lanes, uint64_t ns)
{
	static const char *const blocks[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
	uint64_t tenths = (ns * 10 + lanes->step_ns - 1) / lanes->step_ns;
	uint64_t eighths = (ns * 8 + lanes->step_ns - 1) / lanes->step_ns;
	FILE *out = lanes->view->out;

	if (ns == 0)
		fputs(idle(lanes->view), out);
	else if (lanes->view->utf8)
		fputs(blocks[eighths < 8 ? eighths - 1 : 7], out);
	else
		fputc(tenths < 10 ? '0' + (int)tenths : '#', out);
}

static void draw_label(const struct view_lanes *lanes, const struct view_lane *lane)
{
	char text[SHOW_NAME_BYTES];
	size_t indent;

	if (lane->place == LANE_HOST)
		snprintf(text, sizeof(text), "  thread %" PRIu32, lane->id);
	else if (lane->id > 1)
		snprintf(text, sizeof(text), "    stream %" PRIu32, lane->id - 1);
	else if (lane->id == 1)
		strcpy(text, "    no stream");
	else if (lane->device == DEVICE_UNKNOWN)
		strcpy(text, "  GPU ? busy");
	else
		snprintf(text, sizeof(text), "  GPU %d busy", lane->device);
	indent = lanes->label < VIEW_LANES_LABEL ? strspn(text, " ") : 0;
	fprintf(lanes->view->out, "%-*.*s", (int)lanes->label, (int)lanes->label - 1,
		text + indent);
}

static void draw_process(const struct view_lanes *lanes, const struct view_lane *lane)
{
	const struct view *view = lanes->view;
	const struct meta_process *process = meta_process(view->trace.meta, lane->process);
	char clean[3 * META_TEXT_BYTES + 1];

	utf8_visible(clean, process->name->text, strlen(process->name->text));
	fprintf(view->out, "%s%s (%" PRIu32 ")%s\n", view->color ? "\033[1m" : "", clean,
		process->pid, view->color ? "\033[0m" : "");
}

static void draw_lane(const struct view_lanes *lanes, const struct view_lane *lane, uint32_t *seen)
{
	bool device = lane->place != LANE_HOST && lane->id == 0;

	draw_label(lanes, lane);
	for (size_t i = 0; i < lanes->cells; i++) {
		if (device)
			draw_share(lanes, lane->ns[i]);
		else
			draw_cell(lanes, lane->ns + i * LANE_KIND_COUNT, seen);
	}
	fputc('\n', lanes->view->out);
}

/* Times from the left edge, each with a mark at its cell. */
static void draw_axis(const struct view_lanes *lanes)
{
	FILE *out = lanes->view->out;
	char text[UNITS_TEXT_SIZE];

	fprintf(out, "%-*s", (int)lanes->label, "");
	for (size_t i = 0; i + TICK_CELLS <= lanes->cells; i += TICK_CELLS) {
		fputc('|', out);
		view_field(out, -(TICK_CELLS - 1),
			   units_nanoseconds(text, (int64_t)(i * lanes->step_ns)));
	}
	fputc('\n', out);
}

static void draw_head(const struct view_lanes *lanes)
{
	const struct view *view = lanes->view;
	char from[VIEW_TIME_BYTES], to[VIEW_TIME_BYTES], cell[UNITS_TEXT_SIZE];

	view_begin(view);
	view_time(view, lanes->begin_ns, from);
	view_time(view, lanes->begin_ns + lanes->step_ns * lanes->cells, to);
	fprintf(view->out, "from %s to %s s, %s per cell\n\n", from, to,
		units_nanoseconds(cell, (int64_t)lanes->step_ns));
}

static void draw_legend(const struct view_lanes *lanes, uint32_t seen)
{
	FILE *out = lanes->view->out;
	size_t at = 0;

	fputc('\n', out);
	for (int kind = 0; kind < LANE_KIND_COUNT; kind++) {
		size_t length = 4 + strlen(kinds[kind].text);

		if (!(seen & 1u << kind))
			continue;
		if (at > 0 && at + length > lanes->view->width) {
			fputc('\n', out);
			at = 0;
		}
		fprintf(out, "%c %s  ", kinds[kind].letter, kinds[kind].text);
		at += length;
	}
	fputs("\ncapital: half of the cell or more\n", out);
}

void view_lanes_draw(const struct view_lanes *lanes)
{
	FILE *out = lanes->view->out;
	uint32_t seen = 0;

	if (lanes->count == 0) {
		fputs("no operations\n", out);
		return;
	}
	draw_head(lanes);
	draw_axis(lanes);
	for (size_t i = 0; i < lanes->count; i++) {
		if (i == 0 || lanes->lane[i]->process != lanes->lane[i - 1]->process)
			draw_process(lanes, lanes->lane[i]);
		draw_lane(lanes, lanes->lane[i], &seen);
	}
	if (lanes->refused.count > 0)
		fprintf(out, "and %zu more lanes: select some with --pid, --device or --stream\n",
			lanes->refused.count);
	if (seen)
		draw_legend(lanes, seen);
}
