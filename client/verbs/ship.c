/* tsctl ship: how tracesmith-ship gets on, from the file that it writes; and a window of
 * operations, which another tracesmith-ship sends. */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/export/items.h"
#include "client/ship/status.h"
#include "client/verbs/command.h"
#include "core/base/clock.h"
#include "core/base/units.h"
#include "proto/paths.h"

#define SHIPPER	      "tracesmith-ship"
#define WINDOW_MAX_NS (600 * (int64_t)NS_PER_S) /* as it has it */
#define SILENT_S      180 /* it tells each few seconds; an insert may take long */
#define LAG_S	      300
#define ITEMS_MAX     16
#define VALUE_SIZE    640

struct report {
	Tracesmith__V1__StatusReply__Item item[ITEMS_MAX], *items[ITEMS_MAX];
	char value[ITEMS_MAX][VALUE_SIZE];
	size_t count;
};

static Tracesmith__V1__StatusReply__Item *add(struct report *report, const char *name)
{
	Tracesmith__V1__StatusReply__Item *item = &report->item[report->count];

	tracesmith__v1__status_reply__item__init(item);
	item->section = (char *)"ship";
	item->name = (char *)name;
	item->value = report->value[report->count];
	report->items[report->count++] = item;
	return item;
}

static void add_text(struct report *report, const char *name, const char *text, bool warning)
{
	Tracesmith__V1__StatusReply__Item *item = add(report, name);

	snprintf(item->value, VALUE_SIZE, "%s", text);
	item->warning = warning;
}

static void add_number(struct report *report, const char *name, uint64_t number, const char *text,
		       bool warning)
{
	Tracesmith__V1__StatusReply__Item *item = add(report, name);

	if (text)
		snprintf(item->value, VALUE_SIZE, "%s", text);
	else
		snprintf(item->value, VALUE_SIZE, "%" PRIu64, number);
	item->number = (int64_t)number;
	item->is_number = true;
	item->warning = warning;
}

static void add_seconds(struct report *report, const char *name, uint64_t seconds, bool warning)
{
	char text[UNITS_TEXT_SIZE];

	add_number(report, name, seconds, units_nanoseconds(text, (int64_t)(seconds * NS_PER_S)),
		   warning);
}

static void fill(struct report *report, const struct status *status)
{
	uint64_t now_s = clock_ns(CLOCK_REALTIME) / NS_PER_S, lag_s = status_lag_s(status, now_s);
	uint64_t silent_s = now_s > status->told_time ? now_s - status->told_time : 0;
	char text[UNITS_TEXT_SIZE];

	add_text(report, "server", status->url, false);
	if (*status->trouble)
		add_text(report, "trouble", status->trouble, true);
	if (*status->left_out)
		add_text(report, "left_out", status->left_out, false);
	if (*status->jobs)
		add_text(report, "jobs", status->jobs, false);
	if (silent_s >= SILENT_S)
		add_seconds(report, "silent", silent_s, true);
	if (status->until_time) {
		add_number(report, "until", status->until_time,
			   units_time(text, (int64_t)(status->until_time * NS_PER_S)), false);
		add_seconds(report, "lag", lag_s, lag_s >= LAG_S);
	}
	add_number(report, "backlog_minutes", lag_s / 60, NULL, lag_s >= LAG_S);
	add_number(report, "minutes", status->minutes, NULL, false);
	add_number(report, "rows", status->rows, NULL, false);
	add_number(report, "bytes", status->bytes, units_bytes(text, (int64_t)status->bytes),
		   false);
	add_number(report, "retries", status->retries, NULL, false);
	if (status->windows) {
		add_number(report, "windows", status->windows, NULL, false);
		add_number(report, "window_asked", status->window_time,
			   units_time(text, (int64_t)(status->window_time * NS_PER_S)), false);
	}
	add_number(report, "lost_seconds", status->lost_s, NULL, status->lost_s > 0);
}

/* Beside this program, or wherever programs are. */
static void run_shipper(char **argument)
{
	char path[PATH_MAX];
	ssize_t size = readlink("/proc/self/exe", path, sizeof(path) - 1);
	char *slash;

	path[size < 0 ? 0 : size] = '\0';
	slash = strrchr(path, '/');
	if (slash && (size_t)(slash - path) + sizeof("/" SHIPPER) <= sizeof(path)) {
		strcpy(slash, "/" SHIPPER);
		execv(path, argument);
	}
	execvp(SHIPPER, argument);
}

static int ship_window(const struct options *options, const char *config)
{
	int64_t now_ns = (int64_t)clock_ns(CLOCK_REALTIME);
	int64_t length_ns = options->since.ago ? options->since.ns : now_ns - options->since.ns;
	char length[32];
	char *argument[8] = { (char *)SHIPPER, (char *)"--window", length };
	size_t count = 3;

	if (!(options->given & OPTION(SINCE))) {
		complain("Give --since: how much is to be sent");
		return EXIT_USAGE;
	}
	if (length_ns <= 0 || length_ns > WINDOW_MAX_NS) {
		complain("--since must be at most 10 minutes ago");
		return EXIT_USAGE;
	}
	snprintf(length, sizeof(length), "%" PRId64 "ns", length_ns);
	if (config) {
		argument[count++] = (char *)"--config";
		argument[count++] = (char *)config;
	}
	if (strcmp(options->socket, TS_PATH_CONTROL_SOCKET) != 0) {
		argument[count++] = (char *)"--socket";
		argument[count++] = (char *)options->socket;
	}
	run_shipper(argument);
	return complain("Cannot run " SHIPPER ": %s", strerror(errno));
}

int cmd_ship(const struct options *options, int count, char **argument)
{
	Tracesmith__V1__StatusReply items = TRACESMITH__V1__STATUS_REPLY__INIT;
	const char *path = count > 1 ? argument[1] : STATUS_PATH;
	struct report report = { .count = 0 };
	struct status status;
	int r;

	if (strcmp(argument[0], "window") == 0)
		return ship_window(options, count > 1 ? argument[1] : NULL);
	if (options->given & OPTION(SINCE)) {
		complain("--since is for 'tsctl ship window'");
		return EXIT_USAGE;
	}
	if (strcmp(argument[0], "status") != 0) {
		complain("Unknown 'ship %s': see 'tsctl ship --help'", argument[0]);
		return EXIT_USAGE;
	}
	r = status_read(path, &status);
	if (r == -ENOENT)
		return complain("There is no %s: start the shipper with 'systemctl start "
				"tracesmith-ship'",
				path);
	if (r < 0)
		return complain("Cannot read %s: %s", path, strerror(-r));
	fill(&report, &status);
	items.n_item = report.count;
	items.item = report.items;
	r = items_write(options, "ship", &items);
	return r < 0 ? complain("Cannot write the status: %s", strerror(-r)) : EXIT_DONE;
}
