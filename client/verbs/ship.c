/* tsctl ship: how tracesmith-ship gets on, from the file that it writes. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/export/items.h"
#include "client/ship/status.h"
#include "client/verbs/command.h"
#include "core/base/clock.h"
#include "core/base/units.h"

#define SILENT_S   180 /* it tells each few seconds; an insert may take long */
#define LAG_S	   300
#define ITEMS_MAX  16
#define VALUE_SIZE 640

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
	add_number(report, "lost_seconds", status->lost_s, NULL, status->lost_s > 0);
}

int cmd_ship(const struct options *options, int count, char **argument)
{
	Tracesmith__V1__StatusReply items = TRACESMITH__V1__STATUS_REPLY__INIT;
	const char *path = count > 1 ? argument[1] : STATUS_PATH;
	struct report report = { .count = 0 };
	struct status status;
	int r;

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
