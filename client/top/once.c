/* Once: the state of one moment, on standard output. */
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/link/link.h"
#include "client/output/json.h"
#include "client/top/layout.h"
#include "client/top/top.h"
#include "core/base/cleanup.h"
#include "core/base/utf8.h"

#define WIDTH	   160
#define LATE_MAX   4 /* replies: records come two seconds late */
#define FRAME_ROWS 4

void top_user(uint32_t uid, char name[])
{
	const struct passwd *entry = getpwuid(uid);

	if (entry)
		snprintf(name, TOP_TEXT, "%s", entry->pw_name);
	else
		snprintf(name, TOP_TEXT, "%u", uid);
}

/* Rates need a second, and what devices did may take some more. */
static bool is_complete(const struct top_state *state)
{
	bool known = true;

	for (size_t i = 0; i < state->processes; i++)
		known &= state->process[i].busy.known || !state->process[i].uses;
	return state->span_ns > 0 && state->replies > 1 && (known || state->replies > LATE_MAX);
}

static int ask_state(const struct options *options, struct top_state *state)
{
	Tracesmith__V1__SubscribeRequest subscribe = TRACESMITH__V1__SUBSCRIBE_REQUEST__INIT;
	_cleanup_(link_freep) struct link *link = NULL;
	int r = link_open(options, &link);

	if (r == 0)
		r = link_send(link, &subscribe.base);
	while (r == 0 && !is_complete(state)) {
		_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

		r = link_next(link, &reply);
		if (r < 0)
			return r;
		if (reply->body_case != TRACESMITH__V1__REPLY__BODY_LIVE)
			return complain("Unexpected answer from the daemon"), -EPROTO;
		r = top_apply(state, reply->live, top_user);
		if (r < 0)
			complain("Cannot use the daemon's answer: %s", strerror(-r));
	}
	return r;
}

static void write_row(const struct canvas *canvas, int row)
{
	const struct canvas_cell *cell = &canvas->cell[row * canvas->width];
	char text[UTF8_LENGTH_MAX];
	int width = canvas->width;

	while (width > 0 && cell[width - 1].code == ' ')
		width--;
	for (int i = 0; i < width; i++)
		fwrite(text, 1, utf8_write(text, cell[i].code), stdout);
	putchar('\n');
}

static int write_text(const struct top_state *state)
{
	struct top_view view = { .sort = TOP_BY_BUSY };
	struct canvas canvas = { 0 };
	struct winsize size = { 0 };
	int height = (int)(3 * state->devices + state->processes) + 2 * FRAME_ROWS, last;

	if (isatty(STDOUT_FILENO))
		ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
	if (canvas_size(&canvas, size.ws_col ? size.ws_col : WIDTH, height) < 0)
		return complain_memory();
	layout_draw(&canvas, state, &view);
	last = 1 + (int)state->devices + 1 + (int)(state->processes ? state->processes : 1);
	for (int row = 0; row < last && row < canvas.height - 1; row++) {
		for (int i = 0; i < canvas.width; i++)
			canvas.cell[row * canvas.width + i].style = CANVAS_PLAIN;
		write_row(&canvas, row);
	}
	canvas_done(&canvas);
	return EXIT_DONE;
}

static void share_json(const char *name, const struct top_share *share)
{
	printf(",\"%s\":", name);
	if (share->known)
		printf("%.4f", share->value);
	else
		fputs("null", stdout);
	printf(",\"%s_at_most\":%s", name, share->most ? "true" : "false");
}

static void text_json(const char *name, const char *text)
{
	printf(",\"%s\":", name);
	if (text && *text)
		json_string(stdout, text);
	else
		fputs("null", stdout);
}

static void device_json(const struct top_device *device)
{
	printf(device->device < 0 ? "{\"device\":null" : "{\"device\":%d", device->device);
	text_json("uuid", device->uuid);
	share_json("busy", &device->busy);
	text_json("state", device->state);
	printf(device->memory_bytes ? ",\"memory_bytes\":%" PRIu64 : ",\"memory_bytes\":null",
	       device->memory_bytes);
	printf(",\"live_bytes\":%" PRIu64 ",\"processes\":%u,\"copies_per_s\":%.1f"
	       ",\"to_device_bytes_per_s\":%.0f,\"from_device_bytes_per_s\":%.0f}",
	       device->live_bytes, device->processes, device->copies_per_s, device->in_per_s,
	       device->out_per_s);
}

static void process_json(const struct top_process *process)
{
	printf("{\"pid\":%u", process->pid);
	text_json("user", process->user);
	text_json("comm", process->comm);
	text_json("container", process->container);
	text_json("tier", process->tier);
	share_json("busy", &process->busy);
	if (process->priced)
		printf(",\"cost\":%.6f", process->cost);
	else
		fputs(",\"cost\":null", stdout);
	if (process->budget > 0)
		printf(",\"budget\":%.6f", process->budget);
	else
		fputs(",\"budget\":null", stdout);
	printf(",\"lost\":%" PRIu64 ",\"live_bytes\":%" PRIu64 ",\"peak_bytes\":%" PRIu64
	       ",\"growth_bytes_per_min\":%" PRIu64 ",\"calls_per_s\":%.1f,\"launches_per_s\":",
	       process->lost, process->live_bytes, process->peak_bytes, process->growth_bytes,
	       process->calls_per_s);
	if (process->launches_known)
		printf("%.1f", process->launches_per_s);
	else
		fputs("null", stdout);
	printf(",\"launches_estimated\":%s,\"errors_per_s\":%.1f,\"waits\":%.4f}",
	       process->windows ? "true" : "false", process->errors_per_s, process->waits);
}

static void write_json(const struct top_state *state)
{
	_cleanup_(freep) char *missing = top_missing(state);

	fputs("{\"devices\":[", stdout);
	for (size_t i = 0; i < state->devices; i++) {
		fputs(i ? "," : "", stdout);
		device_json(&state->device[i]);
	}
	fputs("],\"processes\":[", stdout);
	for (size_t i = 0; i < state->processes; i++) {
		fputs(i ? "," : "", stdout);
		process_json(&state->process[i]);
	}
	printf("],\"left_out\":%u,\"lost\":%" PRIu64, state->left_out, state->lost);
	text_json("missing", missing);
	fputs("}\n", stdout);
}

int top_once(const struct options *options)
{
	struct top_state state = { 0 };
	int status = EXIT_FAILED;

	if (ask_state(options, &state) == 0) {
		top_order(&state, TOP_BY_BUSY, false);
		status = EXIT_DONE;
		if (options->given & OPTION(JSON))
			write_json(&state);
		else
			status = write_text(&state);
	}
	top_clear(&state);
	return status;
}
