/* Layout: a line for the whole, one for each device, the list of processes, what the pane shows,
 * and the keys. Columns that do not fit are left out, the least needed first. */
#include "client/top/layout.h"

#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/units.h"

#define PERCENT	    100.0
#define LINE	    512
#define LANE_LABEL  26 /* columns before a lane */
#define LANES_SHOWN 128
#define DEPTH_SHOWN 3 /* of a tree; what is deeper stands there, too */

const char *const top_pane_names[TOP_PANES] = {
	[TOP_PANE_NONE] = "",	       [TOP_PANE_KERNELS] = "kernels",
	[TOP_PANE_PATHS] = "launches", [TOP_PANE_MEMORY] = "memory",
	[TOP_PANE_WAITS] = "waits",    [TOP_PANE_STREAMS] = "streams",
};

char *layout_share(char text[LAYOUT_TEXT], const struct top_share *share)
{
	if (!share->known)
		snprintf(text, LAYOUT_TEXT, "-");
	else
		snprintf(text, LAYOUT_TEXT, "%s%.1f%%", share->most && share->value > 0 ? "<" : "",
			 share->value * PERCENT);
	return text;
}

char *layout_rate(char text[LAYOUT_TEXT], double rate)
{
	if (rate >= 1e6)
		snprintf(text, LAYOUT_TEXT, "%.2fM", rate / 1e6);
	else if (rate >= 1e5)
		snprintf(text, LAYOUT_TEXT, "%.0fk", rate / 1e3);
	else
		snprintf(text, LAYOUT_TEXT, "%.0f", rate);
	return text;
}

static void draw_pid(char text[LAYOUT_TEXT], const struct top_process *p)
{
	snprintf(text, LAYOUT_TEXT, "%u", p->pid);
}

static void draw_user(char text[LAYOUT_TEXT], const struct top_process *p)
{
	snprintf(text, LAYOUT_TEXT, "%.40s", p->user);
}

static void draw_comm(char text[LAYOUT_TEXT], const struct top_process *p)
{
	int depth = p->depth < DEPTH_SHOWN ? (int)p->depth : DEPTH_SHOWN;

	snprintf(text, LAYOUT_TEXT, "%*s%s%.40s", depth > 1 ? 2 * (depth - 1) : 0, "",
		 depth ? "`- " : "", p->comm);
}

static void draw_tier(char text[LAYOUT_TEXT], const struct top_process *p)
{
	snprintf(text, LAYOUT_TEXT, "%.20s", p->tier);
}

static void draw_busy(char text[LAYOUT_TEXT], const struct top_process *p)
{
	layout_share(text, &p->busy);
}

static void draw_memory(char text[LAYOUT_TEXT], const struct top_process *p)
{
	units_bytes(text, (int64_t)p->live_bytes);
}

static void draw_growth(char text[LAYOUT_TEXT], const struct top_process *p)
{
	*text = 0;
	if (p->growth_bytes)
		units_bytes(text, (int64_t)p->growth_bytes);
}

static void draw_launches(char text[LAYOUT_TEXT], const struct top_process *p)
{
	char number[LAYOUT_TEXT];

	if (!p->launches_known) {
		snprintf(text, LAYOUT_TEXT, "-");
		return;
	}
	snprintf(text, LAYOUT_TEXT, "%s%.40s", p->windows ? "~" : "",
		 layout_rate(number, p->launches_per_s));
}

static void draw_waits(char text[LAYOUT_TEXT], const struct top_process *p)
{
	snprintf(text, LAYOUT_TEXT, "%.0f%%", p->waits * PERCENT);
}

static void draw_cost(char text[LAYOUT_TEXT], const struct top_process *p)
{
	*text = 0;
	if (p->priced)
		snprintf(text, LAYOUT_TEXT, "%.2f%%", p->cost * PERCENT);
}

static void draw_budget(char text[LAYOUT_TEXT], const struct top_process *p)
{
	*text = 0;
	if (p->budget > 0)
		snprintf(text, LAYOUT_TEXT, "%.2g%%", p->budget * PERCENT);
}

static void draw_lost(char text[LAYOUT_TEXT], const struct top_process *p)
{
	*text = 0;
	if (p->lost)
		layout_rate(text, (double)p->lost);
}

static void draw_container(char text[LAYOUT_TEXT], const struct top_process *p)
{
	snprintf(text, LAYOUT_TEXT, "%.12s", p->container);
}

/* In the order of the screen. `need`: the smaller, the longer it stays. */
static const struct column {
	const char *title;
	int width, need;
	bool left;
	void (*draw)(char text[LAYOUT_TEXT], const struct top_process *process);
	int sort; /* enum top_sort, -1: none */
	uint8_t style;
} columns[] = {
	{ "PID", 7, 0, false, draw_pid, TOP_BY_PID, 0 },
	{ "USER", 9, 8, true, draw_user, -1, 0 },
	{ "TIER", 6, 6, true, draw_tier, -1, 0 },
	{ "BUSY", 7, 1, false, draw_busy, TOP_BY_BUSY, CANVAS_GOOD },
	{ "MEMORY", 10, 2, false, draw_memory, TOP_BY_MEMORY, 0 },
	{ "GROWS/min", 9, 5, false, draw_growth, TOP_BY_GROWTH, CANVAS_WARN },
	{ "LAUNCH/s", 8, 3, false, draw_launches, TOP_BY_LAUNCHES, 0 },
	{ "WAITS", 6, 4, false, draw_waits, TOP_BY_WAITS, 0 },
	{ "COST", 7, 7, false, draw_cost, TOP_BY_COST, 0 },
	{ "BUDGET", 6, 9, false, draw_budget, -1, 0 },
	{ "LOST", 6, 10, false, draw_lost, -1, CANVAS_BAD },
	{ "CONTAINER", 12, 11, true, draw_container, -1, 0 },
	{ "COMM", 10, 0, true, draw_comm, TOP_BY_COMM, CANVAS_BOLD },
};

/* Which columns fit: bits. */
static uint32_t fitting(int width)
{
	uint32_t shown = 0;
	int used = 0;

	for (int need = 0; need < (int)ARRAY_SIZE(columns); need++) {
		for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
			if (columns[i].need != need)
				continue;
			if (used + columns[i].width + 1 > width && need > 0)
				return shown;
			used += columns[i].width + 1;
			shown |= 1u << i;
		}
	}
	return shown;
}

int layout_sort_at(const struct canvas *canvas, int column)
{
	uint32_t shown = fitting(canvas->width);
	int at = 0;

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		if (!(shown & 1u << i))
			continue;
		at += columns[i].width + 1;
		if (column < at || i + 1 == ARRAY_SIZE(columns))
			return columns[i].sort;
	}
	return -1;
}

static void draw_head(struct canvas *canvas, int row, const struct top_view *view)
{
	uint32_t shown = fitting(canvas->width);
	int at = 0;

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		uint8_t style = columns[i].sort == (int)view->sort ? CANVAS_BOLD : CANVAS_PLAIN;

		if (!(shown & 1u << i))
			continue;
		if (columns[i].left)
			canvas_text(canvas, row, at, columns[i].width, style, columns[i].title);
		else
			canvas_right(canvas, row, at, columns[i].width, style, columns[i].title);
		at += columns[i].width + 1;
	}
	for (int i = 0; i < canvas->width && row < canvas->height; i++)
		canvas->cell[row * canvas->width + i].style |= CANVAS_REVERSE;
}

static void draw_process(struct canvas *canvas, int row, const struct top_process *process,
			 bool selected)
{
	uint32_t shown = fitting(canvas->width);
	char text[LAYOUT_TEXT];
	int at = 0;

	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		bool last = i + 1 == ARRAY_SIZE(columns);
		int width = last ? canvas->width - at : columns[i].width;

		if (!(shown & 1u << i))
			continue;
		columns[i].draw(text, process);
		if (columns[i].left)
			canvas_text(canvas, row, at, width, columns[i].style, text);
		else
			canvas_right(canvas, row, at, width, columns[i].style, text);
		at += width + 1;
	}
	if (selected)
		canvas_fill(canvas, row, CANVAS_REVERSE);
}

/* What it does when it is not busy, with the reason if there is room for it. */
static void draw_state(struct canvas *canvas, int row, int at, const struct top_device *device)
{
	char line[LINE];
	int length = snprintf(line, sizeof(line), "  %s %.0f%%", device->state,
			      device->state_share * PERCENT);

	if (at + length + (int)strlen(device->why) / 2 <= canvas->width)
		snprintf(line + length, sizeof(line) - (size_t)length, ": %s", device->why);
	if (at + length <= canvas->width)
		canvas_text(canvas, row, at, canvas->width - at, CANVAS_DIM, line);
}

static void draw_device(struct canvas *canvas, int row, const struct top_device *device)
{
	bool narrow = canvas->width < 100;
	int spark = narrow ? 8 : canvas->width < 120 ? 16 : canvas->width / 4;
	char share[LAYOUT_TEXT], held[LAYOUT_TEXT], all[LAYOUT_TEXT] = "?", in[LAYOUT_TEXT],
						    out[LAYOUT_TEXT], line[LINE];
	int at;

	snprintf(line, sizeof(line), device->device < 0 ? "GPU ?" : "GPU %d", device->device);
	at = canvas_text(canvas, row, 0, canvas->width, CANVAS_BOLD, line) + 1;
	canvas_right(canvas, row, at, 7, CANVAS_GOOD, layout_share(share, &device->busy));
	at += 8;
	canvas_spark(canvas, row, at, spark, CANVAS_GOOD, device->history, TOP_HISTORY);
	at += spark + 1;
	units_bytes(held, (int64_t)device->live_bytes);
	if (device->memory_bytes)
		units_bytes(all, (int64_t)device->memory_bytes);
	at += canvas_text(canvas, row, at, canvas->width - at, CANVAS_PLAIN, held);
	if (device->memory_bytes) {
		at += canvas_text(canvas, row, at, canvas->width - at, CANVAS_PLAIN,
				  narrow ? "/" : " of ");
		at += canvas_text(canvas, row, at, canvas->width - at, CANVAS_PLAIN, all);
	}
	snprintf(line, sizeof(line), "  in %s out %s",
		 units_bytes_per_second(in, (int64_t)device->in_per_s),
		 units_bytes_per_second(out, (int64_t)device->out_per_s));
	at += canvas_text(canvas, row, at, canvas->width - at, CANVAS_PLAIN, line);
	snprintf(line, sizeof(line), "  %.0f copies/s", device->copies_per_s);
	if (!narrow)
		at += canvas_text(canvas, row, at, canvas->width - at, CANVAS_PLAIN, line);
	if (device->unwatched)
		canvas_text(canvas, row, at, canvas->width - at, CANVAS_DIM,
			    "  not watched all the time");
	if (device->state)
		draw_state(canvas, row, at, device);
}

static void draw_title(struct canvas *canvas, const struct top_state *state,
		       const struct top_view *view)
{
	_cleanup_(freep) char *missing = top_missing(state);
	char line[LINE];
	int at, clock = view->clock ? (int)strlen(view->clock) : 0;

	snprintf(line, sizeof(line), "TraceSmith: %zu %s", state->processes + state->left_out,
		 state->processes + state->left_out == 1 ? "process" : "processes");
	at = canvas_text(canvas, 0, 0, canvas->width, CANVAS_BOLD, line);
	if (state->left_out) {
		snprintf(line, sizeof(line), ", %u not shown", state->left_out);
		at += canvas_text(canvas, 0, at, canvas->width - at, CANVAS_PLAIN, line);
	}
	if (*view->filter) {
		snprintf(line, sizeof(line), "  filter: %s", view->filter);
		at += canvas_text(canvas, 0, at, canvas->width - at, CANVAS_WARN, line);
	}
	if (missing && *missing) {
		at += canvas_text(canvas, 0, at, canvas->width - at, CANVAS_PLAIN, "  ");
		at += canvas_text(canvas, 0, at, canvas->width - at - clock - 2, CANVAS_BAD,
				  missing);
	}
	if (at + clock + 2 <= canvas->width)
		canvas_right(canvas, 0, at, canvas->width - at, CANVAS_PLAIN, view->clock ?: "");
}

static const char *const help[] = {
	"Up Down PgUp PgDn   choose a process          Enter  what it does; again: less",
	"1 2 3 4 5           its kernels, launches, memory, waits, streams",
	"J K                 next and previous line of these",
	"s or < >            sort by the next column   r      turn the order round",
	"t or F5             processes below their parents",
	"/ or F4             only processes that match; Esc: all",
	"a d                 attach to it for exact GPU times, or detach; asks first",
	"w                   write its last 30 s to a file (.sbt)",
	"? h                 this help                 q      quit",
	"mouse               click a process, a column or a view; wheel",
	"",
	"BUSY  time in which its kernels ran; <: at most that, without exact times",
	"WAITS time that its threads wait for the device; 100% is one thread all the time",
	"GROWS what it holds at least grows with every 10 s, by so much a minute",
	"~     estimated: frequent calls are watched in windows",
	"streams: a column a second; a bar: it ran, p: work had not started, w: it waited",
};

static void draw_lines(struct canvas *canvas, int row, int rows, const char *const *line,
		       size_t count)
{
	for (int i = 0; i < rows && (size_t)i < count; i++)
		canvas_text(canvas, row + i, 0, canvas->width, CANVAS_PLAIN, line[i]);
}

/* A bar for how long it ran, of the probe tier at most; else why it did not, for most of the time.
 */
static void draw_column(struct canvas *canvas, int row, int at, const struct top_lane *lane,
			const struct lane_column *column)
{
	const uint8_t bar = lane->bounds ? column->pending : column->running;

	if (bar >= LANES_WHOLE / 16 || (bar && bar >= column->pending && bar >= column->waiting))
		canvas_level(canvas, row, at, lane->bounds ? CANVAS_WARN : CANVAS_GOOD,
			     (double)bar / LANES_WHOLE);
	else if (column->pending || column->waiting)
		canvas_text(canvas, row, at, 1, CANVAS_DIM,
			    column->waiting > column->pending ? "w" : "p");
}

static void draw_lane(struct canvas *canvas, int row, const struct top_lane *lane)
{
	const struct lane_column *last = &lane->column[LANES_HISTORY - 1];
	const uint8_t bar = lane->bounds ? last->pending : last->running;
	const struct top_share share = { true, lane->bounds, (double)bar / LANES_WHOLE };
	int width = canvas->width - LANE_LABEL;
	char text[LAYOUT_TEXT], line[LINE];

	snprintf(line, sizeof(line), "GPU %d stream %u", lane->device, lane->stream);
	canvas_text(canvas, row, 0, LANE_LABEL - 9, CANVAS_PLAIN, line);
	canvas_right(canvas, row, LANE_LABEL - 8, 7, CANVAS_PLAIN, layout_share(text, &share));
	for (int i = 0; i < width && i < LANES_HISTORY; i++)
		draw_column(canvas, row, canvas->width - 1 - i, lane,
			    &lane->column[LANES_HISTORY - 1 - i]);
}

static void draw_lanes(struct canvas *canvas, int row, int rows, const struct top_state *state,
		       struct top_view *view)
{
	const struct top_process *process = layout_selected(state, view);
	const struct top_lane *lane[LANES_SHOWN];
	size_t count = process ? lanes_of(&state->lanes, process->id, lane, LANES_SHOWN) : 0;
	size_t shown = count < LANES_SHOWN ? count : LANES_SHOWN;
	size_t more = count - shown + (process ? process->streams_left_out : 0);
	char line[LINE];

	if (shown && view->pane_first >= shown)
		view->pane_first = shown - 1;
	if (!shown)
		canvas_text(canvas, row, 0, canvas->width, CANVAS_DIM,
			    "No stream of it has done anything in the last minutes");
	for (size_t i = view->pane_first; i < shown; i++) {
		if (rows-- == 1 && shown - i + more > 1) { /* the last line says what is missing */
			more += shown - i;
			break;
		}
		if (rows < 0)
			return;
		draw_lane(canvas, row++, lane[i]);
	}
	if (!more)
		return;
	snprintf(line, sizeof(line), "and %zu more", more);
	canvas_text(canvas, row, 0, canvas->width, CANVAS_DIM, line);
}

static const char pane_titles[] = " 1 kernels  2 launches  3 memory  4 waits  5 streams  ";

enum top_pane layout_pane_at(int column)
{
	enum top_pane pane = TOP_PANE_NONE;

	for (int i = 0; i <= column && pane_titles[i]; i++)
		if (pane_titles[i] >= '1' && pane_titles[i] <= '9')
			pane = (enum top_pane)(pane_titles[i] - '0');
	return pane;
}

static void draw_pane(struct canvas *canvas, int row, int rows, const struct top_state *state,
		      struct top_view *view)
{
	const char *text = view->pane_text;
	char line[LINE];

	snprintf(line, sizeof(line), "%s[%s]", pane_titles, top_pane_names[view->pane]);
	canvas_text(canvas, row, 0, canvas->width, CANVAS_PLAIN, line);
	canvas_fill(canvas, row, CANVAS_REVERSE);
	if (view->pane == TOP_PANE_STREAMS) {
		draw_lanes(canvas, row + 1, rows - 1, state, view);
		return;
	}
	if (!text) {
		canvas_text(canvas, row + 1, 0, canvas->width, CANVAS_DIM, "asking ...");
		return;
	}
	for (size_t skip = view->pane_first; skip > 0 && strchr(text, '\n'); skip--)
		text = strchr(text, '\n') + 1;
	for (int i = 1; i < rows && *text; i++) {
		size_t length = strcspn(text, "\n");

		snprintf(line, sizeof(line), "%.*s", (int)(length < LINE - 1 ? length : LINE - 1),
			 text);
		canvas_text(canvas, row + i, 0, canvas->width, CANVAS_PLAIN, line);
		text += length + (text[length] == '\n');
	}
}

const struct top_process *layout_selected(const struct top_state *state,
					  const struct top_view *view)
{
	const struct top_process *first = NULL;

	for (size_t i = 0; i < state->processes; i++) {
		if (!top_matches(&state->process[i], view->filter))
			continue;
		if (state->process[i].id == view->selected)
			return &state->process[i];
		if (!first)
			first = &state->process[i];
	}
	return first;
}

void layout_move(const struct top_state *state, struct top_view *view, int by)
{
	const struct top_process *chosen = layout_selected(state, view), *last = chosen;
	size_t i;

	if (!chosen)
		return;
	for (i = (size_t)(chosen - state->process); by > 0 && ++i < state->processes;)
		if (top_matches(&state->process[i], view->filter)) {
			last = &state->process[i];
			by--;
		}
	for (i = (size_t)(chosen - state->process); by < 0 && i-- > 0;)
		if (top_matches(&state->process[i], view->filter)) {
			last = &state->process[i];
			by++;
		}
	view->selected = last->id;
}

/* Brings the chosen one into sight. */
static void scroll(const struct top_state *state, struct top_view *view,
		   const struct top_process *chosen, int rows)
{
	size_t place = 0;

	for (const struct top_process *p = state->process; chosen && p < chosen; p++)
		place += top_matches(p, view->filter);
	if (place < view->first)
		view->first = place;
	if (rows > 0 && place >= view->first + (size_t)rows)
		view->first = place - (size_t)rows + 1;
}

static void draw_list(struct canvas *canvas, int row, int rows, const struct top_state *state,
		      struct top_view *view)
{
	const struct top_process *chosen = layout_selected(state, view);
	size_t place = 0;

	draw_head(canvas, row, view);
	scroll(state, view, chosen, rows - 1);
	for (size_t i = 0; i < state->processes; i++) {
		const struct top_process *process = &state->process[i];

		if (!top_matches(process, view->filter) || place++ < view->first)
			continue;
		if (place - view->first >= (size_t)rows)
			break;
		draw_process(canvas, row + (int)(place - view->first), process, process == chosen);
	}
	if (!place && rows > 1)
		canvas_text(canvas, row + 1, 0, canvas->width, CANVAS_DIM,
			    !state->replies    ? ""
			    : state->processes ? "No process matches the filter"
					       : "No process uses CUDA");
}

static void draw_foot(struct canvas *canvas, const struct top_view *view)
{
	int row = canvas->height - 1;

	if (view->message)
		canvas_text(canvas, row, 0, canvas->width, CANVAS_BOLD, view->message);
	else
		canvas_text(canvas, row, 0, canvas->width, CANVAS_DIM,
			    "? help  q quit  Enter details  s sort  / filter  a attach  d detach  "
			    "w record");
}

void layout_draw(struct canvas *canvas, const struct top_state *state, struct top_view *view)
{
	int row = 1, bottom = canvas->height - 1, pane = 0;
	int devices = (int)state->devices;

	view->head_row = view->pane_row = 0;
	draw_title(canvas, state, view);
	if (view->trouble && row < bottom)
		canvas_text(canvas, row++, 0, canvas->width, CANVAS_BAD, view->trouble);
	if (view->help) {
		draw_lines(canvas, row + 1, bottom - row - 1, help, ARRAY_SIZE(help));
		draw_foot(canvas, view);
		return;
	}
	if (devices > (bottom - row) / 3)
		devices = (bottom - row) / 3;
	for (int i = 0; i < devices; i++)
		draw_device(canvas, row++, &state->device[i]);
	if (view->pane && bottom - row >= 6)
		pane = (bottom - row) / 2;
	view->head_row = bottom - pane > row ? row : 0;
	view->pane_row = pane ? bottom - pane : 0;
	if (view->head_row)
		draw_list(canvas, row, bottom - pane - row, state, view);
	if (pane)
		draw_pane(canvas, bottom - pane, pane, state, view);
	draw_foot(canvas, view);
}
