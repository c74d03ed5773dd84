/* tsctl cost: what tracing costs: a table of all processes, or sentences about one, with what other
 * settings would make of it. Only what was measured, or follows from it, is told. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "client/base/argument.h"
#include "client/cost/cost.h"
#include "client/link/ask.h"
#include "client/link/link.h"
#include "client/verbs/command.h"
#include "core/base/clock.h"
#include "core/base/time.h"

#define ASK_NS (250 * NS_PER_MS)

static int ask_measure(struct link *link, uint32_t pid, bool start, Tracesmith__V1__Reply **ret)
{
	Tracesmith__V1__MeasureRequest measure = TRACESMITH__V1__MEASURE_REQUEST__INIT;

	measure.pid = pid;
	measure.start = start;
	return link_single(link, &measure.base, TRACESMITH__V1__REPLY__BODY_MEASURE, ret);
}

static int measure(struct link *link, uint32_t pid)
{
	const struct timespec pause = timespec_of(ASK_NS);
	bool progress = isatty(STDERR_FILENO), busy = true;
	int r = 0;

	for (bool start = true; r >= 0 && busy; start = false) {
		_cleanup_(reply_freep) Tracesmith__V1__Reply *reply = NULL;

		if (!start)
			nanosleep(&pause, NULL);
		r = ask_measure(link, pid, start, &reply);
		if (r < 0)
			break;
		busy = reply->measure->busy;
		if (progress)
			fprintf(stderr, "\rMeasuring: %u of %u turns ", reply->measure->turns,
				reply->measure->wanted);
	}
	if (progress)
		fputs("\r\033[K", stderr);
	return r;
}

static int show(const struct options *options, struct link *link, uint32_t pid)
{
	_cleanup_(cost_done) struct cost cost = { .pid = pid };
	uint64_t asked_ns = clock_ns(CLOCK_MONOTONIC);

	if ((options->given & OPTION(NOW)) && measure(link, pid) < 0)
		return EXIT_FAILED;
	cost.now_ns = link_hello(link)->now_ns + clock_ns(CLOCK_MONOTONIC) - asked_ns;
	if (cost_ask(link, &cost) < 0)
		return EXIT_FAILED;
	if (cost.count == 0)
		return complain("%s", cost.note ? cost.note : "Nothing is known of this process");
	if (options->given & OPTION(JSON))
		cost_write_json(&cost);
	else
		cost_write_text(&cost);
	return EXIT_DONE;
}

int cmd_cost(const struct options *options, int count, char **argument)
{
	_cleanup_(link_freep) struct link *link = NULL;
	struct options asked = *options;
	uint32_t pid;

	if (count == 0 && (options->given & OPTION(NOW))) {
		complain("--now measures one process: name it ('tsctl cost PID --now')");
		return EXIT_USAGE;
	}
	if (count == 0)
		return ask_query(options, "cost");
	if (argument_pid(argument[0], &pid) < 0)
		return EXIT_USAGE;
	if (link_open(options, &link) < 0)
		return EXIT_FAILED;
	if (!(options->given & (OPTION(CSV) | OPTION(WIDE))))
		return show(options, link, pid);
	if ((options->given & OPTION(NOW)) && measure(link, pid) < 0)
		return EXIT_FAILED;
	asked.pid = pid;
	asked.given |= OPTION(PID);
	return ask_query(&asked, "cost");
}
