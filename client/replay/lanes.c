/* Replay lanes: one line per stream, redrawn on a terminal: its recent states, its current state,
 * and what runs now. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "client/base/complain.h"
#include "client/replay/view.h"
#include "core/base/map.h"

#define STRIP	      32 /* moments that are kept, and shown if there is room */
#define STRIP_LEAST   4
#define LABEL	      28
#define LABEL_BYTES   48
#define STATE	      7
#define LINES_DEFAULT 24
#define WIDTH_DEFAULT 80
#define WIDTH_LEAST   20
#define MOMENT_SHARE  10 /* percent of a moment: below it counts as idle */

struct lane {
	struct lane *next;
	uint32_t pid, stream;
	int16_t device;
	uint8_t state; /* enum replay_state */
	uint64_t since_ns;
	uint64_t ns[REPLAY_FINISHED]; /* time in each state in this moment */
	uint8_t strip[STRIP];	      /* the state of each moment, from `at`; 0: none yet */
	uint64_t op;		      /* the named op; 0: none */
	const char *name;	      /* lives as long as the names */
};

struct lanes {
	struct map by_stream;
	struct lane *first, **last;
	uint32_t count;
	uint64_t begin_ns, time_ns;
	double speed;
	uint32_t at;	/* in the strips */
	uint32_t drawn; /* lines */
};

static const struct {
	char sign;
	const char *colour;
} looks[REPLAY_FINISHED] = {
	[0] = { ' ', "" },
	[REPLAY_IDLE] = { '.', "\033[2m" },
	[REPLAY_PENDING] = { '-', "\033[33m" },
	[REPLAY_RUNNING] = { '#', "\033[32m" },
	[REPLAY_WAITING] = { '~', "\033[35m" },
};
#define PLAIN "\033[0m"

static struct lane *lane_of(struct lanes *lanes, const struct replay_shown *shown)
{
	const struct replay_change *change = shown->change;
	struct map_key key = { change->process, change->stream };
	struct lane *lane = map_get(&lanes->by_stream, key);

	if (lane)
		return lane;
	lane = calloc(1, sizeof(*lane));
	if (!lane || map_put(&lanes->by_stream, key, lane) < 0) {
		free(lane);
		return NULL;
	}
	lane->pid = shown->pid;
	lane->stream = change->stream;
	lane->device = DEVICE_UNKNOWN;
	lane->state = REPLAY_IDLE;
	lane->since_ns = change->time_ns;
	*lanes->last = lane;
	lanes->last = &lane->next;
	lanes->count++;
	return lane;
}

static void lane_pass(struct lane *lane, uint64_t time_ns)
{
	if (time_ns <= lane->since_ns)
		return;
	lane->ns[lane->state] += time_ns - lane->since_ns;
	lane->since_ns = time_ns;
}

/* Names what runs, else what will run. */
static void lane_name(struct lane *lane, const struct replay_shown *shown)
{
	const struct replay_change *change = shown->change;

	if (change->to == REPLAY_RUNNING || (change->to == REPLAY_PENDING && !lane->op)) {
		lane->op = change->number;
		lane->name = shown->name->text;
	} else if (change->number == lane->op && change->to >= REPLAY_WAITING) {
		lane->op = 0;
	}
}

static int lanes_change(void *view, const struct replay_shown *shown)
{
	const struct replay_change *change = shown->change;
	struct lanes *lanes = view;
	struct lane *lane;

	if (change->machine == REPLAY_DEVICE || !change->stream)
		return 0;
	lane = lane_of(lanes, shown);
	if (!lane)
		return -ENOMEM;
	if (change->device != DEVICE_UNKNOWN)
		lane->device = change->device;
	lanes->time_ns = change->time_ns;
	if (change->op) {
		lane_name(lane, shown);
		return 0;
	}
	lane_pass(lane, change->time_ns);
	lane->state = change->to;
	return 0;
}

/* The state that fills most of the moment, unless it is almost all idle. */
static void lane_end_moment(struct lane *lane, uint32_t at)
{
	uint64_t all_ns = 0;
	uint8_t best = REPLAY_PENDING;

	for (uint8_t state = REPLAY_IDLE; state < REPLAY_FINISHED; state++) {
		all_ns += lane->ns[state];
		if (state > best && lane->ns[state] >= lane->ns[best])
			best = state;
	}
	if (lane->ns[best] < all_ns / 100 * MOMENT_SHARE || !lane->ns[best])
		best = all_ns ? REPLAY_IDLE : lane->state;
	lane->strip[at] = best;
	memset(lane->ns, 0, sizeof(lane->ns));
}

/* The latest ones, up to the one before `at`. */
static void draw_strip(const struct lane *lane, uint32_t at, int moments)
{
	uint8_t before = 0;

	for (int i = STRIP - moments; i < STRIP; i++) {
		uint8_t state = lane->strip[(at + (uint32_t)i) % STRIP];

		if (state != before)
			printf("%s%s", PLAIN, looks[state].colour);
		putchar(looks[state].sign);
		before = state;
	}
	fputs(PLAIN, stdout);
}

/* As many characters as fit. */
static void draw_name(const char *name, int room)
{
	for (const char *at = name; *at; at++) {
		if (((unsigned char)*at & 0xc0) != 0x80 && room-- <= 0)
			return;
		putchar(*at);
	}
}

static int within(int number, int least, int most)
{
	return number < least ? least : number < most ? number : most;
}

static void draw_label(const struct lane *lane, int width)
{
	char label[LABEL_BYTES], device[8] = "?";
	int length;

	if (lane->device != DEVICE_UNKNOWN)
		snprintf(device, sizeof(device), "%d", lane->device);
	length = snprintf(label, sizeof(label), "%" PRIu32 " GPU %s stream %" PRIu32, lane->pid,
			  device, lane->stream);
	if (length > width)
		snprintf(label, sizeof(label), "%s:%" PRIu32 " %" PRIu32, device, lane->stream,
			 lane->pid);
	printf("%-*.*s", width, width, label);
}

/* On a narrow terminal the name is dropped first, then old moments, then the word for the state,
 * which the last moment shows. The last column stays free, since some terminals wrap after it. */
static void draw_lane(const struct lane *lane, uint32_t at, int width)
{
	int left = width - 1;
	int moments = within(left - LABEL - STATE - 2, STRIP_LEAST, STRIP);
	int label = within(left - moments - 1, 1, LABEL);

	draw_label(lane, label);
	putchar(' ');
	draw_strip(lane, at, moments);
	left -= label + 1 + moments;
	if (left > STATE) {
		printf(" %s%-*s%s", looks[lane->state].colour, STATE,
		       replay_state_name(lane->state), PLAIN);
		left -= 1 + STATE;
	}
	if (left > 1 && lane->op && lane->name) {
		putchar(' ');
		draw_name(lane->name, left - 1);
	}
	fputs("\033[K\n", stdout);
}

static void draw_head(const struct lanes *lanes, bool more, int width)
{
	uint64_t ns = lanes->time_ns > lanes->begin_ns ? lanes->time_ns - lanes->begin_ns : 0;
	char text[128];
	int at = snprintf(text, sizeof(text), "%12.6f s", (double)ns / 1e9);

	if (lanes->speed > 0)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "  at %gx", lanes->speed);
	if (more)
		snprintf(text + at, sizeof(text) - (size_t)at, "  (q quits)");
	printf("\r%.*s\033[K\n", width - 1, text);
}

static void draw_others(uint32_t count, int width)
{
	char text[128];

	snprintf(text, sizeof(text), "and %" PRIu32 " more streams: see --stream and --pid", count);
	printf("%.*s\033[K\n", width - 1, text);
}

/* The legend, as much of it as fits. */
static void draw_legend(int width)
{
	int left = width - 1;

	for (uint8_t state = REPLAY_IDLE; state < REPLAY_FINISHED; state++) {
		const char *name = replay_state_name(state);

		left -= (int)strlen(name) + 4;
		if (left >= 0)
			printf("%s%c%s %s  ", looks[state].colour, looks[state].sign, PLAIN, name);
	}
	fputs("\033[K\n", stdout);
}

static struct winsize terminal_size(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || !size.ws_row || !size.ws_col)
		size = (struct winsize){ .ws_row = LINES_DEFAULT, .ws_col = WIDTH_DEFAULT };
	return size;
}

static void draw_all(struct lanes *lanes, bool more)
{
	struct winsize size = terminal_size();
	uint32_t room, shown = 0;

	room = size.ws_row > 4 ? size.ws_row - 4u : 0;
	if (lanes->drawn)
		printf("\033[%" PRIu32 "A", lanes->drawn);
	draw_head(lanes, more, size.ws_col);
	for (const struct lane *lane = lanes->first; lane && shown < room; lane = lane->next) {
		draw_lane(lane, lanes->at, size.ws_col);
		shown++;
	}
	lanes->drawn = shown + 2;
	if (lanes->count > shown) {
		draw_others(lanes->count - shown, size.ws_col);
		lanes->drawn++;
	}
	draw_legend(size.ws_col);
	fflush(stdout);
}

static int lanes_draw(void *view, uint64_t time_ns, double speed)
{
	struct lanes *lanes = view;

	if (time_ns > lanes->time_ns)
		lanes->time_ns = time_ns;
	lanes->speed = speed;
	for (struct lane *lane = lanes->first; lane; lane = lane->next) {
		lane_pass(lane, lanes->time_ns);
		lane_end_moment(lane, lanes->at);
	}
	lanes->at = (lanes->at + 1) % STRIP;
	draw_all(lanes, true);
	return ferror(stdout) ? -EIO : 0;
}

static int lanes_end(void *view, const Tracesmith__V1__Done *done, uint64_t changes)
{
	struct lanes *lanes = view;

	draw_all(lanes, false);
	if (done)
		printf("%" PRIu64 " changes of %" PRIu32 " streams\n", changes, lanes->count);
	return fflush(stdout) ? -errno : 0;
}

static void lanes_free(void *view)
{
	struct lanes *lanes = view;
	struct lane *next;

	for (struct lane *lane = lanes->first; lane; lane = next) {
		next = lane->next;
		free(lane);
	}
	map_clear(&lanes->by_stream);
	free(lanes);
}

int replay_lanes_new(uint64_t begin_ns, struct replay_view *ret)
{
	struct lanes *lanes;
	int width = terminal_size().ws_col;

	if (width < WIDTH_LEAST) {
		complain("Lanes need %d columns, and this terminal has %d: widen it, or pipe the "
			 "output ('| cat')",
			 WIDTH_LEAST, width);
		return -EINVAL;
	}
	lanes = calloc(1, sizeof(*lanes));
	if (!lanes)
		return -ENOMEM;
	lanes->begin_ns = lanes->time_ns = begin_ns;
	lanes->last = &lanes->first;
	*ret = (struct replay_view){
		.draw = lanes_draw,
		.change = lanes_change,
		.end = lanes_end,
		.free = lanes_free,
		.view = lanes,
	};
	return 0;
}
