/* Top: what replies become on a screen, of any size and whatever other programs are called. */
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

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_are_of_each_tier),
		cmocka_unit_test(what_is_not_known_is_not_idle),
		cmocka_unit_test(processes_come_rest_and_go),
		cmocka_unit_test(names_of_others_steer_nothing),
		cmocka_unit_test(every_size_has_what_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
