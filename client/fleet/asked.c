/* Asked: a window of time, and conditions on hosts and processes. */
#include "client/fleet/asked.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "client/base/complain.h"
#include "client/fleet/source.h"
#include "core/base/array.h"
#include "core/base/cleanup.h"
#include "core/base/time.h"

#define HOUR_S 3600

/* Unix seconds. */
static int64_t second_of(const struct moment *moment, int64_t now_ns)
{
	return (moment->ago ? now_ns - moment->ns : moment->ns) / NS_PER_S;
}

void asked_done(struct asked *asked)
{
	free(asked->host);
	free(asked->job);
	free(asked->process);
	free(asked->asked);
	free(asked->of_job);
	free(asked->clock);
}

static int set_window(struct asked *asked, const struct options *options, uint64_t window_ns,
		      int64_t slack_s)
{
	struct timespec now;
	int64_t now_ns, since, until;

	clock_gettime(CLOCK_REALTIME, &now);
	now_ns = now.tv_sec * NS_PER_S + now.tv_nsec;
	until = options->given & OPTION(UNTIL) ? second_of(&options->until, now_ns)
					       : now_ns / NS_PER_S;
	since = options->given & OPTION(SINCE) ? second_of(&options->since, now_ns)
					       : until - (int64_t)window_ns / NS_PER_S;
	if (since > until) {
		complain("The window ends before it starts");
		return -EINVAL;
	}
	if (since < 0)
		since = 0;
	asked->since_s = since;
	asked->until_s = until;
	since = since > slack_s ? since - slack_s : 0;
	until += slack_s;
	snprintf(asked->since, sizeof(asked->since), "toDateTime(%" PRId64 ")", since);
	snprintf(asked->until, sizeof(asked->until), "toDateTime(%" PRId64 ")", until);
	/* The first one for the sort key. */
	snprintf(asked->window, sizeof(asked->window),
		 "(toStartOfHour(time) >= toDateTime(%" PRId64 ") AND time >= %s AND time <= %s)",
		 since - since % HOUR_S, asked->since, asked->until);
	return 0;
}

static char *condition(const char *name, const char *value)
{
	const struct fill fills[] = { { "value", value ? value : "", true }, { 0 } };
	char form[64];

	snprintf(form, sizeof(form), "(%s = :value)", name);
	return value ? fill_in(form, fills) : strdup("(1)");
}

/* Processes are looked up where only they know. */
static char *among(const char *host, const char *process)
{
	const struct fill fills[] = { { "host", host, false },
				      { "process", process, false },
				      { 0 } };

	return fill_in(source_query("among"), fills);
}

static char *clocks(const struct asked *asked)
{
	const struct fill fills[] = { { "since", asked->since, false },
				      { "until", asked->until, false },
				      { "host", asked->host, false },
				      { 0 } };

	return fill_in(source_query("clock-of-hour"), fills);
}

static int set_asked(struct asked *asked, const struct options *options)
{
	bool rank = options->given & OPTION(RANK);

	snprintf(asked->rank, sizeof(asked->rank), rank ? "(rank = %" PRIu64 ")" : "(1)",
		 options->rank);
	asked->host = condition("host", options->host);
	asked->job = condition("job", options->job);
	if (!asked->host || !asked->job ||
	    asprintf(&asked->process, "(%s AND %s AND %s)", asked->host, asked->job, asked->rank) <
		    0)
		return -ENOMEM;
	asked->asked =
		rank || options->job ? among(asked->host, asked->process) : strdup(asked->host);
	asked->of_job = options->job ? among("(1)", asked->job) : strdup("(1)");
	asked->clock = clocks(asked);
	return asked->asked && asked->of_job && asked->clock ? 0 : -ENOMEM;
}

int asked_set(struct asked *asked, const struct options *options, uint64_t window_ns,
	      int64_t slack_s, uint64_t limit)
{
	snprintf(asked->limit, sizeof(asked->limit), "%" PRIu64, limit);
	asked->all = options->given & OPTION(ALL);
	if (set_window(asked, options, window_ns, slack_s) < 0)
		return -EINVAL;
	return set_asked(asked, options);
}

void asked_fills(const struct asked *asked, struct fill ret[ASKED_FILLS_MAX])
{
	const struct fill fills[] = {
		{ "since", asked->since, false },	  { "until", asked->until, false },
		{ "limit", asked->limit, false },	  { "in_window", asked->window, false },
		{ "of_host", asked->host, false },	  { "is_host", asked->host, false },
		{ "is_rank", asked->rank, false },	  { "is_job", asked->job, false },
		{ "of_job", asked->of_job, false },	  { "of_process", asked->process, false },
		{ "asked", asked->asked, false },	  { "clock", asked->clock, false },
		{ "all", asked->all ? "1" : "0", false }, { 0 },
	};

	_Static_assert(ARRAY_SIZE(fills) <= ASKED_FILLS_MAX, "they have room");
	memcpy(ret, fills, sizeof(fills));
}
