/* Screen: the loop of `tsctl top`: replies of the daemon, keys, and the jobs that they start. A
 * daemon that is away is asked for every second. */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/base/complain.h"
#include "client/link/link.h"
#include "client/top/job.h"
#include "client/top/layout.h"
#include "client/top/terminal.h"
#include "client/top/top.h"
#include "core/base/clock.h"
#include "core/base/time.h"

#define TICK_MS	    250
#define RETRY_NS    NS_PER_S
#define SILENT_NS   (4 * NS_PER_S)
#define PATIENCE_MS 1000 /* no key is read meanwhile */
#define PANE_NS	    (5 * NS_PER_S)
#define SENTENCE    256
#define WRITE_SINCE "30s"
#define PANE_SINCE  "10s"
#define PANE_ROWS   "100"
#define PAGE	    10

enum asked { ASKED_NONE, ASKED_FILTER, ASKED_ATTACH, ASKED_DETACH };

struct screen {
	struct options options;
	struct link *link; /* NULL: no daemon */
	uint64_t tried_ns, heard_ns;
	struct top_state state;
	struct top_view view;
	struct canvas canvas;
	enum asked asked;
	uint32_t asked_pid;
	char trouble[COMPLAINT_BYTES], silent[SENTENCE], message[SENTENCE], clock[32];
	char *pane;	   /* text of the last job for the pane */
	uint32_t pane_pid; /* of it; 0: none yet */
	enum top_pane pane_kind;
	uint64_t pane_ns;
	struct job looking, acting;
	bool quit, stale; /* to be drawn */
};

static volatile sig_atomic_t ended;

static void on_end(int number)
{
	ended = 1;
}

static void say(struct screen *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct screen *s, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(s->message, sizeof(s->message), format, ap);
	va_end(ap);
	s->view.message = s->message;
	s->stale = true;
}

static void unlink_daemon(struct screen *s)
{
	s->link = link_free(s->link);
	s->tried_ns = clock_ns(CLOCK_MONOTONIC);
	top_forget(&s->state);
	s->stale = true;
}

static void link_daemon(struct screen *s, uint64_t now_ns)
{
	Tracesmith__V1__SubscribeRequest subscribe = TRACESMITH__V1__SUBSCRIBE_REQUEST__INIT;

	if (s->link || (s->tried_ns && now_ns - s->tried_ns < (uint64_t)RETRY_NS))
		return;
	s->tried_ns = now_ns;
	s->stale = true;
	if (link_open(&s->options, &s->link) < 0 || link_send(s->link, &subscribe.base) < 0) {
		s->link = link_free(s->link);
		return;
	}
	*s->trouble = 0;
	s->heard_ns = now_ns;
}

static void read_daemon(struct screen *s, uint64_t now_ns)
{
	int r = 1;

	while (s->link && r > 0) {
		_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

		r = link_poll(s->link, &reply);
		if (r > 0 && reply->body_case == TRACESMITH__V1__REPLY__BODY_LIVE)
			r = top_apply(&s->state, reply->live, top_user) < 0 ? -EPROTO : 1;
		if (r < 0) {
			unlink_daemon(s);
		} else if (r > 0) {
			s->heard_ns = now_ns;
			s->stale = true;
		}
	}
}

/* Names on the command line of a job; they live as long as it starts. */
struct names {
	char pid[16], file[64];
};

static const struct top_process *selected(struct screen *s, struct names *names)
{
	const struct top_process *process = layout_selected(&s->state, &s->view);

	if (process)
		snprintf(names->pid, sizeof(names->pid), "%u", process->pid);
	return process;
}

/* What a pane asks for. On a small screen, what matters most comes first, and no stacks. */
static const struct pane {
	const char *query, *small, *large;
} panes[TOP_PANES] = {
	[TOP_PANE_KERNELS] = { "kernels", "share,total_ns,count,mean_ns,name,where",
			       "share,total_ns,count,mean_ns,p99_ns,delay_ns,name,where" },
	[TOP_PANE_PATHS] = { "launches", "calls,fn,device,where", "calls,fn,device,where,stack" },
	[TOP_PANE_MEMORY] = { "leaks", "verdict,bytes,count,bytes_per_hour,where,why",
			      "verdict,kind,device,bytes,count,bytes_per_hour,full_ns,oldest_ns,"
			      "where,why,stack" },
	[TOP_PANE_WAITS] = { "syncs", "total_ns,calls,max_ns,fn,where",
			     "total_ns,calls,mean_ns,max_ns,fn,where,stack" },
};

static void look(struct screen *s, uint64_t now_ns)
{
	const struct pane *pane = &panes[s->view.pane];
	bool large = s->canvas.width >= 120 && s->canvas.height >= 40;
	struct names names;
	const struct top_process *process = selected(s, &names);
	bool memory = s->view.pane == TOP_PANE_MEMORY;
	bool other;

	if (!process || !pane->query || !s->link)
		return;
	other = process->pid != s->pane_pid || s->view.pane != s->pane_kind;
	if (!other && (s->looking.pid || now_ns - s->pane_ns < (uint64_t)PANE_NS))
		return;
	if (other)
		s->view.pane_text = NULL;
	s->pane_pid = process->pid;
	s->pane_kind = s->view.pane;
	s->pane_ns = now_ns;
	s->stale = true;
	job_start(&s->looking,
		  (const char *const[]){
			  "query", pane->query, "--socket", s->options.socket, "--pid", names.pid,
			  "--limit", PANE_ROWS, "--columns", large ? pane->large : pane->small,
			  memory ? "--min-age" : "--since", memory ? "1ns" : PANE_SINCE, NULL });
}

static void act(struct screen *s, const char *verb)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", s->asked_pid);
	say(s, "%s %s ...", verb, pid);
	if (job_start(&s->acting,
		      (const char *const[]){ verb, pid, "--socket", s->options.socket, NULL }) < 0)
		say(s, "Cannot start tsctl");
}

/* The file is the caller's, in the directory where he is. */
static void write_file(struct screen *s)
{
	struct names names;
	time_t now = time(NULL);
	struct tm parts;

	if (!selected(s, &names))
		return;
	localtime_r(&now, &parts);
	snprintf(names.file, sizeof(names.file), "top-%s-%02d%02d%02d.sbt", names.pid,
		 parts.tm_hour, parts.tm_min, parts.tm_sec);
	say(s, "Writing %s ...", names.file);
	if (job_start(&s->acting, (const char *const[]){ "record", "--socket", s->options.socket,
							 "--pid", names.pid, "--since", WRITE_SINCE,
							 "-o", names.file, NULL }) < 0)
		say(s, "Cannot start tsctl");
}

static void read_jobs(struct screen *s)
{
	if (s->looking.pid && job_read(&s->looking)) {
		free(s->pane);
		s->pane = strdup(s->looking.text);
		s->view.pane_text = s->pane;
		s->stale = true;
	}
	if (s->acting.pid && job_read(&s->acting)) {
		s->acting.text[strcspn(s->acting.text, "\n")] = 0;
		say(s, "%s",
		    *s->acting.text    ? s->acting.text
		    : s->acting.status ? "It failed"
				       : "Done");
	}
}

static void ask_user(struct screen *s, enum asked asked, const char *verb)
{
	struct names names;
	const struct top_process *process = selected(s, &names);

	if (!process)
		return;
	s->asked = asked;
	s->asked_pid = process->pid;
	say(s, "%s process %u (%s)? y/n", verb, process->pid, process->comm);
}

static void answer(struct screen *s, int key)
{
	enum asked asked = s->asked;

	s->asked = ASKED_NONE;
	s->view.message = NULL;
	if (key != 'y' && key != 'Y')
		return;
	act(s, asked == ASKED_ATTACH ? "attach" : "detach");
}

static void type_filter(struct screen *s, int key)
{
	size_t length = strlen(s->view.filter);

	if (key == KEYS_ESCAPE)
		*s->view.filter = 0;
	if (key == KEYS_BACKSPACE && length > 0)
		s->view.filter[length - 1] = 0;
	if (key >= ' ' && key < 127 && length + 1 < sizeof(s->view.filter)) {
		s->view.filter[length] = (char)key;
		s->view.filter[length + 1] = 0;
	}
	if (key == KEYS_ENTER || key == KEYS_ESCAPE) {
		s->asked = ASKED_NONE;
		s->view.message = NULL;
		return;
	}
	say(s, "Filter: %s_", s->view.filter);
}

static void sort_next(struct screen *s, int by)
{
	s->view.sort = (enum top_sort)(((int)s->view.sort + TOP_SORTS + by) % TOP_SORTS);
	say(s, "Sorted by %s", top_sort_names[s->view.sort]);
}

static void show_pane(struct screen *s, enum top_pane pane)
{
	s->view.pane = pane;
	s->view.pane_first = 0;
	s->view.pane_text = NULL;
	s->pane_pid = 0;
}

static void scroll_pane(struct screen *s, int by)
{
	if (by > 0 || s->view.pane_first > 0)
		s->view.pane_first += (size_t)by;
}

static void sort_by(struct screen *s, int sort)
{
	if (sort < 0)
		return;
	if (s->view.sort == (enum top_sort)sort)
		s->view.reverse = !s->view.reverse;
	s->view.sort = (enum top_sort)sort;
	say(s, "Sorted by %s", top_sort_names[sort]);
}

static void click(struct screen *s, int row, int column)
{
	const struct top_view *view = &s->view;

	if (view->pane_row && row >= view->pane_row) {
		if (row == view->pane_row && layout_pane_at(column))
			show_pane(s, layout_pane_at(column));
	} else if (view->head_row && row == view->head_row) {
		sort_by(s, layout_sort_at(&s->canvas, column));
	} else if (view->head_row && row > view->head_row) {
		s->view.selected = 0;
		layout_move(&s->state, &s->view, (int)view->first + row - view->head_row - 1);
	}
}

/* Over the pane it moves its lines, else the choice. */
static void wheel(struct screen *s, int row, int by)
{
	if (s->view.pane_row && row >= s->view.pane_row)
		scroll_pane(s, by);
	else
		layout_move(&s->state, &s->view, by);
}

static void press_move(struct screen *s, int key, int row, int column)
{
	switch (key) {
	case KEYS_UP:
	case 'k':
		layout_move(&s->state, &s->view, -1);
		break;
	case KEYS_DOWN:
	case 'j':
		layout_move(&s->state, &s->view, 1);
		break;
	case KEYS_PAGE_UP:
		layout_move(&s->state, &s->view, -PAGE);
		break;
	case KEYS_PAGE_DOWN:
		layout_move(&s->state, &s->view, PAGE);
		break;
	case KEYS_HOME:
		layout_move(&s->state, &s->view, -(int)s->state.processes);
		break;
	case KEYS_END:
		layout_move(&s->state, &s->view, (int)s->state.processes);
		break;
	case KEYS_CLICK:
		click(s, row, column);
		break;
	case KEYS_WHEEL_UP:
		wheel(s, row, -1);
		break;
	case KEYS_WHEEL_DOWN:
		wheel(s, row, 1);
		break;
	case 'K':
		scroll_pane(s, -1);
		break;
	case 'J':
		scroll_pane(s, 1);
		break;
	default:
		break;
	}
}

static void press_do(struct screen *s, int key)
{
	switch (key) {
	case 'q':
	case KEYS_QUIT:
		s->quit = true;
		break;
	case '?':
	case 'h':
	case KEYS_HELP:
		s->view.help = !s->view.help;
		break;
	case KEYS_ESCAPE:
		s->view.help = false;
		*s->view.filter = 0;
		break;
	case '/':
	case KEYS_FILTER:
		s->asked = ASKED_FILTER;
		type_filter(s, KEYS_NONE);
		break;
	case 's':
	case '>':
		sort_next(s, 1);
		break;
	case '<':
		sort_next(s, -1);
		break;
	case 't':
	case KEYS_TREE:
		s->view.tree = !s->view.tree;
		break;
	case 'r':
		s->view.reverse = !s->view.reverse;
		break;
	case KEYS_ENTER:
		show_pane(s, s->view.pane ? TOP_PANE_NONE : TOP_PANE_KERNELS);
		break;
	case '1':
	case '2':
	case '3':
	case '4':
	case '5':
		show_pane(s, (enum top_pane)(key - '0'));
		break;
	case 'a':
		ask_user(s, ASKED_ATTACH, "Attach to");
		break;
	case 'd':
		ask_user(s, ASKED_DETACH, "Detach from");
		break;
	case 'w':
		write_file(s);
		break;
	default:
		break;
	}
}

static void press(struct screen *s, int key, int row, int column)
{
	s->stale = true;
	if (key == KEYS_RESIZE)
		return;
	if (s->asked == ASKED_FILTER) {
		type_filter(s, key);
	} else if (s->asked) {
		answer(s, key);
	} else {
		s->view.message = NULL;
		press_move(s, key, row, column);
		press_do(s, key);
	}
}

static void draw(struct screen *s, uint64_t now_ns)
{
	uint64_t silent_ns = now_ns - s->heard_ns;
	time_t now = time(NULL);
	struct tm parts;
	int width, height;

	localtime_r(&now, &parts);
	strftime(s->clock, sizeof(s->clock), "%H:%M:%S", &parts);
	s->view.clock = s->clock;
	s->view.trouble = s->link ? NULL : s->trouble;
	if (s->link && silent_ns > (uint64_t)SILENT_NS) {
		snprintf(s->silent, sizeof(s->silent), "The daemon has said nothing for %d s",
			 (int)(silent_ns / (uint64_t)NS_PER_S));
		s->view.trouble = s->silent;
	}
	if (!s->stale && !s->view.trouble)
		return;
	s->stale = false;
	terminal_size(&width, &height);
	if (canvas_size(&s->canvas, width, height) < 0)
		return;
	top_order(&s->state, s->view.sort, s->view.reverse);
	if (s->view.tree)
		top_tree(&s->state); /* without memory, it is a list */
	layout_draw(&s->canvas, &s->state, &s->view);
	terminal_show(&s->canvas);
}

static void wait_for_any(const struct screen *s)
{
	struct pollfd fds[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = s->link ? link_fd(s->link) : -1, .events = POLLIN },
		{ .fd = s->looking.pid ? s->looking.fd : -1, .events = POLLIN },
		{ .fd = s->acting.pid ? s->acting.fd : -1, .events = POLLIN },
	};

	poll(fds, sizeof(fds) / sizeof(*fds), TICK_MS);
	if (fds[0].revents & (POLLHUP | POLLERR | POLLNVAL))
		ended = 1; /* the terminal is gone */
}

static void run(struct screen *s)
{
	while (!s->quit && !ended) {
		uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
		int key, row = 0, column = 0;

		link_daemon(s, now_ns);
		read_daemon(s, now_ns);
		read_jobs(s);
		while ((key = terminal_key(&row, &column)) != KEYS_NONE)
			press(s, key, row, column);
		look(s, now_ns);
		draw(s, now_ns);
		if (!s->quit)
			wait_for_any(s);
	}
}

int top_screen(const struct options *options)
{
	struct sigaction end = { .sa_handler = on_end };
	struct screen s = { .options = *options, .looking.fd = -1, .acting.fd = -1 };

	s.options.patience_ms = PATIENCE_MS;
	setlocale(LC_CTYPE, "");
	if (terminal_open() < 0)
		return EXIT_FAILED;
	sigaction(SIGINT, &end, NULL);
	sigaction(SIGTERM, &end, NULL);
	sigaction(SIGHUP, &end, NULL);
	signal(SIGPIPE, SIG_IGN);
	complain_into(s.trouble);
	run(&s);
	complain_into(NULL);
	terminal_close();
	job_stop(&s.looking);
	job_stop(&s.acting);
	free(s.looking.text);
	free(s.acting.text);
	free(s.pane);
	link_free(s.link);
	top_clear(&s.state);
	canvas_done(&s.canvas);
	return EXIT_DONE;
}
