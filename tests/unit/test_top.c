/* Top: what replies become on a screen, of any size and whatever other programs are called. */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "client/top/layout.h"
#include "core/base/utf8.h"

#define SECOND 1000000000ull

typedef Tracesmith__V1__LiveReply Live;
typedef Tracesmith__V1__LiveReply__Process Process;
typedef Tracesmith__V1__LiveReply__Device Device;
typedef Tracesmith__V1__LiveReply__Use Use;
typedef Tracesmith__V1__LiveReply__States States;
typedef Tracesmith__V1__LiveReply__Calls Calls;

/* A reply of one device, with as many processes as wanted. */
struct said {
	Live live;
	Process process[8], *processes[8];
	Use use[8], *uses[8];
	States states[8], device_states;
	Calls calls[8];
	Device device, *devices[1];
	uint32_t gone;
};

static void name_user(uint32_t uid, char name[TOP_TEXT])
{
	snprintf(name, TOP_TEXT, "u%u", uid);
}

static void say(struct said *said, uint32_t count)
{
	memset(said, 0, sizeof(*said));
	said->live = (Live)TRACESMITH__V1__LIVE_REPLY__INIT;
	said->live.span_ns = SECOND;
	said->live.whole = true;
	said->device = (Device)TRACESMITH__V1__LIVE_REPLY__DEVICE__INIT;
	said->device_states = (States)TRACESMITH__V1__LIVE_REPLY__STATES__INIT;
	said->device_states.idle_ns = SECOND;
	said->device.states = &said->device_states;
	said->devices[0] = &said->device;
	said->live.device = said->devices;
	said->live.n_device = 1;
	said->live.process = said->processes;
	said->live.n_process = count;
	for (uint32_t i = 0; i < count; i++) {
		said->states[i] = (States)TRACESMITH__V1__LIVE_REPLY__STATES__INIT;
		said->use[i] = (Use)TRACESMITH__V1__LIVE_REPLY__USE__INIT;
		said->calls[i] = (Calls)TRACESMITH__V1__LIVE_REPLY__CALLS__INIT;
		said->process[i] = (Process)TRACESMITH__V1__LIVE_REPLY__PROCESS__INIT;
		said->use[i].states = &said->states[i];
		said->uses[i] = &said->use[i];
		said->process[i].use = &said->uses[i];
		said->process[i].n_use = 1;
		said->process[i].calls = &said->calls[i];
		said->process[i].id = i + 1;
		said->process[i].pid = 100 + i;
		said->process[i].comm = "train";
		said->process[i].tier = "exact";
		said->processes[i] = &said->process[i];
	}
}

/* All of the screen, a line for each row. */
static char *screen(struct top_state *state, struct top_view *view, int width, int height)
{
	char *text = malloc((size_t)height * ((size_t)width * UTF8_LENGTH_MAX + 1) + 1), *at = text;
	struct canvas canvas = { 0 };

	assert_int_equal(canvas_size(&canvas, width, height), 0);
	layout_draw(&canvas, state, view);
	for (int row = 0; row < canvas.height; row++) {
		for (int column = 0; column < canvas.width; column++)
			at += utf8_write(at, canvas.cell[row * canvas.width + column].code);
		*at++ = '\n';
	}
	*at = 0;
	canvas_done(&canvas);
	return text;
}

static void assert_shows(struct top_state *state, struct top_view *view, int width, int height,
			 const char *text, bool shown)
{
	char *all = screen(state, view, width, height);

	if (!!strstr(all, text) != shown)
		fail_msg("%s is %s on\n%s", text, shown ? "not" : "there", all);
	free(all);
}

static void shares_are_of_each_tier(void **unused)
{
	struct top_state state = { 0 };
	struct said said;

	say(&said, 2);
	said.states[0].running_ns = SECOND / 4;
	said.states[0].idle_ns = SECOND * 3 / 4;
	said.states[1].pending_ns = SECOND / 2;
	said.states[1].idle_ns = SECOND / 2;
	said.use[1].bounds = true;
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	top_order(&state, TOP_BY_PID, false);
	assert_true(state.process[0].busy.value == 0.25 && !state.process[0].busy.most);
	assert_true(state.process[1].busy.value == 0.5 && state.process[1].busy.most);
	assert_true(state.device[0].busy.value == 0.75 && state.device[0].busy.most);
	assert_true(state.device[0].history[TOP_HISTORY - 1] == 0.75);
	assert_string_equal(state.device[0].state, "idle");
	top_clear(&state);
}

/* In windows, no launch seen in a second says nothing of that second. */
static void what_was_not_watched_is_neither_idle_nor_none(void **unused)
{
	struct top_view view = { .sort = TOP_BY_PID };
	struct top_state state = { 0 };
	struct said said;

	say(&said, 1);
	said.states[0].idle_ns = SECOND;
	said.use[0].bounds = true;
	said.process[0].priced = true;
	said.process[0].watched_ppm = 40000;
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	top_order(&state, TOP_BY_PID, false);
	assert_false(state.process[0].busy.known);
	assert_false(state.process[0].launches_known);
	assert_false(state.device[0].busy.known);
	assert_null(state.device[0].state);
	assert_shows(&state, &view, 160, 20, "not watched", true);
	assert_shows(&state, &view, 160, 20, "nothing was submitted", false);
	assert_shows(&state, &view, 160, 20, "~0", false);
	said.calls[0].launches = 4;
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	top_order(&state, TOP_BY_PID, false);
	assert_true(state.process[0].launches_known);
	assert_shows(&state, &view, 160, 20, "~100", true);
	top_clear(&state);
}

/* So in a gap, or if it is left out: without an estimate it has no rate. */
static void what_is_left_out_has_no_rate(void **unused)
{
	struct top_view view = { .sort = TOP_BY_PID };
	struct top_state state = { 0 };
	struct said said;

	say(&said, 1);
	said.states[0].idle_ns = SECOND;
	said.use[0].bounds = true;
	said.process[0].unwatched = true;
	said.calls[0].launches = 4;
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	assert_false(state.process[0].busy.known);
	assert_false(state.process[0].launches_known);
	assert_shows(&state, &view, 160, 20, "nothing was submitted", false);
	assert_shows(&state, &view, 160, 20, "not watched all the time", true);
	said.process[0].unwatched = false;
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	assert_true(state.process[0].busy.known && state.process[0].launches_known);
	/* Of an exact record the device's time is known. */
	said.process[0].unwatched = true;
	said.use[0].bounds = false;
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	assert_true(state.process[0].busy.known);
	top_clear(&state);
}

static void lose(struct said *said, Tracesmith__V1__Loss *loss, Tracesmith__V1__Loss **losses,
		 const char *reason, uint64_t count, uint64_t time_ns)
{
	tracesmith__v1__loss__init(loss);
	loss->reason = (char *)reason;
	loss->noun = (char *)"event";
	loss->count = count;
	loss->time_ns = time_ns;
	losses[0] = loss;
	said->live.n_loss = 1;
	said->live.loss = losses;
}

/* Times and counts add up over the replies. */
static void what_is_missing_is_said_as_in_answers(void **unused)
{
	struct top_view view = { .sort = TOP_BY_PID };
	struct top_state state = { 0 };
	Tracesmith__V1__Loss loss, *losses[1];
	struct said said;

	say(&said, 1);
	lose(&said, &loss, losses, "gap", 1, SECOND);
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	lose(&said, &loss, losses, "gap", 0, SECOND);
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	assert_shows(&state, &view, 160, 20, "not watched for 2.00 s (probes were not attached",
		     true);
	assert_shows(&state, &view, 160, 20, "lost", false);
	assert_int_equal(state.lost, 0);
	lose(&said, &loss, losses, "ring-full", 3, 0);
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	lose(&said, &loss, losses, "of a newer version", 4, 0);
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	assert_shows(&state, &view, 200, 20,
		     "lost: 4 things (of a newer version), 3 events (ring-full)", true);
	assert_int_equal(state.lost, 7);
	top_clear(&state);
}

/* What is late keeps its share for a while, and then is unknown; never 0. */
static void what_is_not_known_is_not_idle(void **unused)
{
	struct top_state state = { 0 };
	struct said said;

	say(&said, 1);
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	assert_false(state.process[0].busy.known);
	said.states[0].running_ns = SECOND;
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	said.states[0].running_ns = 0;
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	assert_true(state.process[0].busy.known && state.process[0].busy.value == 1);
	for (int i = 0; i < 20; i++)
		assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	assert_false(state.process[0].busy.known);
	top_clear(&state);
}

static void processes_come_rest_and_go(void **unused)
{
	struct top_state state = { 0 };
	struct said said;

	say(&said, 3);
	said.calls[1].count = said.calls[1].launches = 500;
	said.live.span_ns = SECOND / 2;
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	top_order(&state, TOP_BY_LAUNCHES, false);
	assert_int_equal(state.process[0].pid, 101);
	assert_true(state.process[0].launches_per_s == 1000);
	/* It is not mentioned: it does nothing. */
	say(&said, 0);
	said.live.whole = false;
	said.gone = 1;
	said.live.gone = &said.gone;
	said.live.n_gone = 1;
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	top_order(&state, TOP_BY_PID, false);
	assert_int_equal(state.processes, 2);
	assert_int_equal(state.process[0].pid, 101);
	assert_true(state.process[0].launches_per_s == 0);
	say(&said, 1);
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	assert_int_equal(state.processes, 1);
	assert_int_equal(state.process[0].pid, 100);
	top_clear(&state);
}

static void names_of_others_steer_nothing(void **unused)
{
	static const char *const names[] = { "\033[2J\007x", "\xff\xfe", "a\nb",
					     ("\xe2\x80\xae"
					      "abc"),
					     "\xe6\xbc\xa2" };
	struct top_state state = { 0 };
	struct top_view view = { 0 };
	struct said said;
	char *all;

	say(&said, 5);
	for (int i = 0; i < 5; i++)
		said.process[i].comm = (char *)names[i];
	said.process[0].container = "\033]0;owned\007";
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	all = screen(&state, &view, 200, 24);
	for (const char *at = all; *at; at++)
		assert_true(*at == '\n' || (uint8_t)*at >= ' ');
	assert_null(strstr(all, "\xe2\x80\xae"));
	assert_non_null(strstr(all, "[2J"));
	free(all);
	top_clear(&state);
}

static void every_size_has_what_fits(void **unused)
{
	struct top_state state = { 0 };
	struct top_view view = { .clock = "12:00:00" };
	struct said said;

	say(&said, 8);
	said.process[7].container = "0123456789abcdef";
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	top_order(&state, TOP_BY_PID, false);
	assert_shows(&state, &view, 80, 24, "107", true);
	assert_shows(&state, &view, 80, 24, "CONTAINER", false);
	assert_shows(&state, &view, 80, 24,
		     "TIER      BUSY     MEMORY GROWS/min LAUNCH/s  WAITS    COST COMM", true);
	assert_shows(&state, &view, 250, 70, "0123456789ab ", true);
	assert_shows(&state, &view, 20, 5, "100", true);
	assert_shows(&state, &view, 20, 5, "107", false);
	layout_move(&state, &view, 7);
	assert_shows(&state, &view, 20, 5, "107", true);
	assert_int_equal(layout_selected(&state, &view)->pid, 107);
	strcpy(view.filter, "103");
	assert_int_equal(layout_selected(&state, &view)->pid, 103);
	assert_shows(&state, &view, 80, 24, "107", false);
	view.pane = TOP_PANE_KERNELS;
	view.pane_text = "name\ngemm\n";
	assert_shows(&state, &view, 80, 24, "gemm", true);
	view.trouble = "No daemon";
	for (int height = 1; height < 30; height++)
		for (int width = 1; width < 130; width += 3) {
			view.help = height % 2;
			free(screen(&state, &view, width, height));
		}
	top_clear(&state);
}

/* A reply in which the stream 7 of the first process did that. */
static void stream_said(struct top_state *state, Tracesmith__V1__LiveReply__Stream *stream,
			uint64_t running_ns, uint64_t pending_ns)
{
	struct said said;

	say(&said, 1);
	*stream = (Tracesmith__V1__LiveReply__Stream)TRACESMITH__V1__LIVE_REPLY__STREAM__INIT;
	stream->id = 7;
	stream->running_ns = running_ns;
	stream->pending_ns = pending_ns;
	said.process[0].stream = &stream;
	said.process[0].n_stream = running_ns + pending_ns > 0;
	assert_int_equal(top_apply(state, &said.live, name_user), 0);
}

static void streams_are_lanes_that_move(void **unused)
{
	struct top_state state = { 0 };
	struct top_view view = { .pane = TOP_PANE_STREAMS };
	Tracesmith__V1__LiveReply__Stream stream;
	const struct top_lane *lane;

	assert_shows(&state, &view, 80, 24, "No stream", true);
	stream_said(&state, &stream, SECOND / 2, 0);
	stream_said(&state, &stream, 0, 0);
	assert_int_equal(lanes_of(&state.lanes, 1, &lane, 1), 1);
	assert_int_equal(lane->column[LANES_HISTORY - 2].running, 128);
	assert_int_equal(lane->column[LANES_HISTORY - 1].running, 0);
	/* What is told late was before: it goes where there is room. */
	stream_said(&state, &stream, 2 * SECOND, SECOND / 4);
	assert_int_equal(lane->column[LANES_HISTORY - 1].running, LANES_WHOLE);
	assert_int_equal(lane->column[LANES_HISTORY - 2].running, LANES_WHOLE);
	assert_int_equal(lane->column[LANES_HISTORY - 3].running, 128);
	assert_int_equal(lane->column[LANES_HISTORY - 3].pending, 64);
	assert_shows(&state, &view, 80, 24, "GPU 0 stream 7", true);
	assert_shows(&state, &view, 80, 24, "\u2585\u2588\u2588\n", true);
	stream_said(&state, &stream, 0, SECOND);
	assert_shows(&state, &view, 80, 24, "\u2585\u2588\u2588p\n", true);
	assert_int_equal(lanes_of(&state.lanes, 2, &lane, 1), 0);
	for (int i = 0; i < LANES_HISTORY; i++)
		stream_said(&state, &stream, 0, 0);
	assert_int_equal(lanes_of(&state.lanes, 1, &lane, 1), 0);
	top_clear(&state);
}

/* More than there is room for, and counts that no program can have. */
static void lanes_of_many_streams_are_bounded(void **unused)
{
	enum { STREAMS = LANES_MAX + 100 };
	static Tracesmith__V1__LiveReply__Stream stream[STREAMS], *streams[STREAMS];
	struct top_state state = { 0 };
	struct top_view view = { .pane = TOP_PANE_STREAMS };
	const struct top_lane *lane[3];
	struct said said;

	say(&said, 1);
	for (uint32_t i = 0; i < STREAMS; i++) {
		stream[i] =
			(Tracesmith__V1__LiveReply__Stream)TRACESMITH__V1__LIVE_REPLY__STREAM__INIT;
		stream[i].id = STREAMS - i;
		stream[i].device = INT32_MIN;
		stream[i].running_ns = stream[i].pending_ns = stream[i].waiting_ns = UINT64_MAX;
		stream[i].bounds = i % 2;
		streams[i] = &stream[i];
	}
	said.process[0].stream = streams;
	said.process[0].n_stream = STREAMS;
	said.process[0].streams_left_out = UINT32_MAX;
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	assert_int_equal(lanes_of(&state.lanes, 1, lane, 3), LANES_MAX);
	assert_true(lane[0]->stream < lane[1]->stream && lane[1]->stream < lane[2]->stream);
	assert_int_equal(lane[0]->column[0].running, LANES_WHOLE);
	assert_int_equal(lane[0]->column[0].pending, 0);
	for (int height = 1; height < 40; height++)
		for (int width = 1; width < 80; width += 7)
			free(screen(&state, &view, width, height));
	assert_shows(&state, &view, 80, 24, "and 4294971", true);
	view.pane_first = SIZE_MAX;
	free(screen(&state, &view, 80, 24));
	assert_int_equal(view.pane_first, 127);
	top_clear(&state);
}

static void a_tree_has_children_below_their_parents(void **unused)
{
	/* 104 and 105 are a ring. */
	static const uint32_t parents[] = { 0, 100, 106, 101, 105, 104, 0 };
	static const uint32_t order[] = { 100, 101, 103, 106, 102, 104, 105 };
	static const uint32_t depths[] = { 0, 1, 2, 0, 1, 0, 1 };
	struct top_state state = { 0 };
	struct top_view view = { 0 };
	struct said said;

	say(&said, 7);
	for (int i = 0; i < 7; i++)
		said.process[i].ppid = parents[i];
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	top_order(&state, TOP_BY_PID, false);
	assert_int_equal(top_tree(&state), 0);
	assert_int_equal(state.processes, 7);
	for (int i = 0; i < 7; i++) {
		assert_int_equal(state.process[i].pid, order[i]);
		assert_int_equal(state.process[i].depth, depths[i]);
	}
	assert_shows(&state, &view, 80, 24, " `- train", true);
	assert_shows(&state, &view, 80, 24, "   `- train", true);
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	top_order(&state, TOP_BY_PID, true);
	assert_int_equal(state.process[0].pid, 106);
	assert_shows(&state, &view, 80, 24, "`-", false);
	top_clear(&state);
}

static void a_click_finds_what_is_there(void **unused)
{
	struct top_state state = { 0 };
	struct top_view view = { .pane = TOP_PANE_STREAMS };
	struct canvas canvas = { 0 };
	struct said said;

	say(&said, 3);
	assert_int_equal(top_apply(&state, &said.live, name_user), 0);
	assert_int_equal(canvas_size(&canvas, 80, 24), 0);
	layout_draw(&canvas, &state, &view);
	assert_int_equal(view.head_row, 2); /* below a device */
	assert_in_range(view.pane_row, 7, 20);
	for (int i = 0; i + 4 < 80; i++) {
		const struct canvas_cell *cell = &canvas.cell[view.head_row * 80 + i];

		if (cell[0].code == 'B' && cell[1].code == 'U' && cell[2].code == 'S')
			assert_int_equal(layout_sort_at(&canvas, i), TOP_BY_BUSY);
		if (cell[0].code == 'C' && cell[1].code == 'O' && cell[2].code == 'M')
			assert_int_equal(layout_sort_at(&canvas, i), TOP_BY_COMM);
		cell = &canvas.cell[view.pane_row * 80 + i];
		if (cell[0].code == '5')
			assert_int_equal(layout_pane_at(i), TOP_PANE_STREAMS);
	}
	assert_int_equal(layout_pane_at(0), TOP_PANE_NONE);
	assert_int_equal(layout_pane_at(1), TOP_PANE_KERNELS);
	assert_int_equal(layout_pane_at(INT_MAX - 1), TOP_PANE_STREAMS);
	view.help = true;
	layout_draw(&canvas, &state, &view);
	assert_int_equal(view.head_row + view.pane_row, 0);
	canvas_done(&canvas);
	top_clear(&state);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_of_each_tier),
		cmocka_unit_test(what_was_not_watched_is_neither_idle_nor_none),
		cmocka_unit_test(what_is_left_out_has_no_rate),
		cmocka_unit_test(what_is_missing_is_said_as_in_answers),
		cmocka_unit_test(what_is_not_known_is_not_idle),
		cmocka_unit_test(processes_come_rest_and_go),
		cmocka_unit_test(names_of_others_steer_nothing),
		cmocka_unit_test(every_size_has_what_fits),
		cmocka_unit_test(streams_are_lanes_that_move),
		cmocka_unit_test(lanes_of_many_streams_are_bounded),
		cmocka_unit_test(a_tree_has_children_below_their_parents),
		cmocka_unit_test(a_click_finds_what_is_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
