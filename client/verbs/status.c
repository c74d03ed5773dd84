/* tsctl status: the daemon's report on itself, by section for people, as a table for programs. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/export/items.h"
#include "client/link/link.h"
#include "client/link/rows.h"
#include "client/verbs/command.h"
#include "core/base/array.h"
#include "core/base/utf8.h"

#define EXIT_UNREACHED 2 /* "critical" in monitoring systems */
#define CLEAN_BYTES    1024
#define LOST_BYTES     32
#define LOST_ROWS      32
#define LATELY_TEXT    "10 minutes"

static int ask_status(struct link *link, Tracesmith__V1__Reply **ret)
{
	const Tracesmith__V1__StatusRequest status = TRACESMITH__V1__STATUS_REQUEST__INIT;

	return link_single(link, &status.base, TRACESMITH__V1__REPLY__BODY_STATUS, ret);
}

/* What is wrong and can be fixed. Other warnings are counts since the daemon started (recent losses
 * are queried separately), permanent properties of the host, or results of its settings. */
static bool is_trouble(const Tracesmith__V1__StatusReply__Item *item)
{
	static const char *const notes[] = { "attach",	    "mappings",	   "slow",
					     "none",	    "filters",	   "windows",
					     "calibration", "ops_dropped", "rows_dropped" };

	for (size_t i = 0; i < ARRAY_SIZE(notes); i++)
		if (strcmp(item->name, notes[i]) == 0)
			return false;
	return item->warning && strcmp(item->section, "loss") != 0;
}

struct lost {
	char reason[LOST_BYTES];
	int64_t count;
	uint32_t others;
};

static int take_lost(void *data, const Tracesmith__V1__Row *row)
{
	struct lost *lost = data;

	if (row->n_value != 2 || !rows_text(row->value[0]))
		return -EPROTO;
	if (lost->count > 0) {
		lost->others++;
		return 0;
	}
	snprintf(lost->reason, sizeof(lost->reason), "%s", rows_text(row->value[0]));
	lost->count = rows_integer(row->value[1]);
	return 0;
}

static void write_check(const Tracesmith__V1__StatusReply__Item *first, uint32_t count,
			const struct lost *lost)
{
	char clean[CLEAN_BYTES] = "", value[CLEAN_BYTES / 3];

	if (first) {
		snprintf(value, sizeof(value), "%s %s: %s", first->section, first->name,
			 first->value);
		utf8_visible(clean, value, strlen(value));
		printf("WARNING: %s", clean);
	} else {
		printf("WARNING: lost: %" PRId64 " (%s) in the last " LATELY_TEXT, lost->count,
		       lost->reason);
	}
	if (count > 1)
		printf(", and %" PRIu32 " more", count - 1);
	puts("; see 'tsctl status' and 'tsctl query loss'");
}

static bool is_of_store(const Tracesmith__V1__StatusReply__Item *item)
{
	return strcmp(item->section, "store") == 0;
}

/* One line and an exit status, for Nagios and the like. */
static int check(struct link *link, const Tracesmith__V1__StatusReply *status)
{
	const Tracesmith__V1__StatusReply__Item *first = NULL;
	struct lost lost = { 0 };
	uint32_t count = 0;

	for (size_t i = 0; i < status->n_item; i++) {
		if (!is_trouble(status->item[i]))
			continue;
		if (!first || is_of_store(status->item[i]) > is_of_store(first))
			first = status->item[i];
		count++;
	}
	if (rows_query(link, "recent-losses", LOST_ROWS, take_lost, &lost) < 0)
		return EXIT_UNREACHED;
	count += lost.count > 0 ? 1 + lost.others : 0;
	if (count > 0) {
		write_check(first, count, &lost);
		return EXIT_FAILED;
	}
	printf("OK: tracesmithd %s is running, nothing lost in the last " LATELY_TEXT "\n",
	       link_hello(link)->version);
	return EXIT_DONE;
}

static int run_check(const struct options *options)
{
	_cleanup_(link_freep) struct link *link = NULL;
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int status = EXIT_UNREACHED;

	if (options->given & OPTIONS_TABLE) {
		complain("--check prints one line: leave out --json and --csv");
		return EXIT_USAGE;
	}
	if (link_open(options, &link) == 0 && ask_status(link, &reply) == 0)
		status = check(link, reply->status);
	if (status == EXIT_UNREACHED)
		puts("CRITICAL: tracesmithd does not answer");
	return status;
}

int cmd_status(const struct options *options, int count, char **argument)
{
	_cleanup_(link_freep) struct link *link = NULL;
	_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;
	int r;

	if (options->given & OPTION(CHECK))
		return run_check(options);
	if (link_open(options, &link) < 0 || ask_status(link, &reply) < 0)
		return EXIT_FAILED;
	r = items_write(options, "status", reply->status);
	return r < 0 ? complain("Cannot write the status: %s", strerror(-r)) : EXIT_DONE;
}
