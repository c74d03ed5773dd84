/* Replay lanes: what is drawn on a terminal of unknown size, assumed to have 80 columns. */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/replay/view.h"
#include "core/model/op.h"

#define DRAWN_MAX 4096

static void change(const struct replay_view *view, uint32_t stream, int16_t device, uint8_t to)
{
	const struct replay_change change = {
		.time_ns = 1000,
		.process = 1,
		.stream = stream,
		.device = device,
		.machine = REPLAY_STREAM,
		.from = REPLAY_IDLE,
		.to = to,
	};
	const struct replay_shown shown = { .change = &change, .pid = 4711 };

	assert_int_equal(view->change(view->view, &shown), 0);
}

/* What is on standard output at the end, without colours. */
static void draw(const struct replay_view *view, char text[DRAWN_MAX])
{
	int file = memfd_create("drawn", MFD_CLOEXEC), before;
	ssize_t size;
	char *to = text;

	fflush(stdout);
	before = dup(STDOUT_FILENO);
	dup2(file, STDOUT_FILENO);
	view->draw(view->view, 2000, 1);
	fflush(stdout);
	dup2(before, STDOUT_FILENO);
	close(before);
	size = pread(file, text, DRAWN_MAX - 1, 0);
	close(file);
	assert_true(size > 0);
	text[size] = '\0';
	for (const char *at = text; *at;) {
		if (*at != '\033')
			*to++ = *at++;
		else
			at += strcspn(at, "mKA") + 1;
	}
	*to = '\0';
}

static void signs_are_explained(void **state)
{
	struct replay_view view;
	char text[DRAWN_MAX];

	assert_int_equal(replay_lanes_new(0, &view), 0);
	change(&view, 3, 0, REPLAY_RUNNING);
	draw(&view, text);
	assert_non_null(strstr(text, "4711 GPU 0 stream 3"));
	assert_non_null(strstr(text, "\n. idle  - pending  # running  ~ waiting  \n"));
	view.free(view.view);
}

static void a_device_may_be_unknown_for_a_while(void **state)
{
	struct replay_view view;
	char text[DRAWN_MAX];

	assert_int_equal(replay_lanes_new(0, &view), 0);
	change(&view, 3, DEVICE_UNKNOWN, REPLAY_PENDING);
	change(&view, 4, 1, REPLAY_PENDING);
	change(&view, 4, DEVICE_UNKNOWN, REPLAY_RUNNING);
	draw(&view, text);
	assert_non_null(strstr(text, "4711 GPU ? stream 3"));
	assert_non_null(strstr(text, "4711 GPU 1 stream 4"));
	assert_null(strstr(text, "GPU -1"));
	view.free(view.view);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(signs_are_explained),
		cmocka_unit_test(a_device_may_be_unknown_for_a_while),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
