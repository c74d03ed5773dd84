/* Replay pace: all times are computed from the start, so that delays do not add up. */
#include "client/replay/pace.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <termios.h>
#include <unistd.h>

#include "core/base/clock.h"

#define DRAW_NS	     50000000ull /* 20 times a second */
#define SLEEP_MAX_NS DRAW_NS	 /* a key pressed just before is noticed soon */
#define WAIT_MAX_NS  1e18
/* At full speed the clock is read once per this many changes. */
#define CHECK_CHANGES 1024

static volatile sig_atomic_t stopped;
static struct termios terminal;

static void on_signal(int signal_number)
{
	stopped = signal_number;
}

/* The next one has its default effect. */
static void catch_signals(void)
{
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };

	stopped = 0;
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

void replay_pace_begin(struct replay_pace *pace, struct replay_view *view, double speed, bool keys)
{
	struct termios raw;

	*pace = (struct replay_pace){ .view = view, .speed = speed };
	catch_signals();
	if (!keys || !isatty(STDIN_FILENO) || tcgetattr(STDIN_FILENO, &terminal) < 0)
		return;
	raw = terminal;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	pace->keys = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

void replay_pace_end(struct replay_pace *pace)
{
	if (pace->keys)
		tcsetattr(STDIN_FILENO, TCSANOW, &terminal);
	pace->keys = false;
}

static bool is_stopped(struct replay_pace *pace, uint64_t sleep_ns)
{
	struct timespec timeout = { 0, (long)(sleep_ns < SLEEP_MAX_NS ? sleep_ns : SLEEP_MAX_NS) };
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	char key;

	if (stopped)
		return true;
	if (ppoll(&input, pace->keys, &timeout, NULL) <= 0)
		return stopped;
	if (read(STDIN_FILENO, &key, 1) != 1) {
		pace->keys = false;
		return false;
	}
	return key == 'q' || key == 'Q';
}

/* The recording's clock when ours is `now_ns`. */
static uint64_t time_at(const struct replay_pace *pace, uint64_t now_ns)
{
	if (pace->speed <= 0)
		return 0;
	return pace->begin_ns + (uint64_t)((double)(now_ns - pace->clock_ns) * pace->speed);
}

/* The clock does not run ahead of `next_ns`, up to which everything has been shown: playback that
 * cannot keep the requested speed shows its own progress. */
static int draw(struct replay_pace *pace, uint64_t now_ns, uint64_t next_ns)
{
	const struct replay_view *view = pace->view;
	uint64_t time_ns = time_at(pace, now_ns);

	if (!view->draw || now_ns < pace->draw_ns)
		return 0;
	pace->draw_ns = now_ns + DRAW_NS;
	return view->draw(view->view, time_ns < next_ns ? time_ns : next_ns, pace->speed);
}

static uint64_t due_at(const struct replay_pace *pace, uint64_t time_ns)
{
	uint64_t ns = time_ns > pace->begin_ns ? time_ns - pace->begin_ns : 0;
	double wait_ns = (double)ns / pace->speed;

	return pace->clock_ns + (uint64_t)(wait_ns < WAIT_MAX_NS ? wait_ns : WAIT_MAX_NS);
}

static int wait_until(struct replay_pace *pace, uint64_t time_ns)
{
	const struct replay_view *view = pace->view;
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC), due_ns = due_at(pace, time_ns);
	int r = 0;

	if (now_ns < due_ns && view->flush)
		r = view->flush(view->view);
	while (r == 0 && now_ns < due_ns) {
		uint64_t next_ns = view->draw && pace->draw_ns < due_ns ? pace->draw_ns : due_ns;

		if (is_stopped(pace, next_ns > now_ns ? next_ns - now_ns : 0))
			return -ECANCELED;
		now_ns = clock_ns(CLOCK_MONOTONIC);
		r = draw(pace, now_ns, time_ns);
	}
	return r;
}

int replay_pace_wait_ahead(struct replay_pace *pace, uint64_t time_ns)
{
	if (pace->clock_ns)
		return wait_until(pace, time_ns);
	return is_stopped(pace, 0) ? -ECANCELED : 0;
}

int replay_pace_wait(struct replay_pace *pace, uint64_t time_ns)
{
	int r = 0;

	if (!pace->clock_ns) {
		pace->clock_ns = clock_ns(CLOCK_MONOTONIC);
		pace->begin_ns = time_ns;
	}
	if (pace->speed > 0)
		r = wait_until(pace, time_ns);
	if (r < 0 || pace->unchecked++ % CHECK_CHANGES)
		return stopped ? -ECANCELED : r;
	if (is_stopped(pace, 0))
		return -ECANCELED;
	return draw(pace, clock_ns(CLOCK_MONOTONIC), time_ns);
}
