/* Fleet request: asks hosts for their single operations. A row says so, which the shipper of a host
 * that allows it reads within a minute. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "client/base/complain.h"
#include "client/fleet/asked.h"
#include "client/fleet/fleet.h"
#include "client/fleet/state.h"
#include "client/fleet/statement.h"
#include "core/base/time.h"
#include "core/limits.h"

#define WINDOW_MAX_S 600 /* as tracesmith-ship has it */

/* How far the window goes back; -EINVAL, and it is printed. */
static int take_window(const struct options *options, char ret[16])
{
	int64_t since_s = options->since.ns / NS_PER_S;
	int64_t seconds = options->since.ago ? since_s : (int64_t)time(NULL) - since_s;

	if (!(options->given & OPTION(SINCE)))
		complain("Give --since: how much is to be sent");
	else if (!(options->given & (OPTION(HOST) | OPTION(JOB))))
		complain("Give --job or --host: who is asked");
	else if (seconds < 1 || seconds > WINDOW_MAX_S)
		complain("--since must be at most 10 minutes ago");
	else
		return snprintf(ret, 16, "%" PRId64, seconds) < 0 ? -EINVAL : 0;
	return -EINVAL;
}

static int count_hosts(struct server *server, const struct fill *fills, uint64_t *ret)
{
	struct tsv answer;
	int r = statement_ask(server, "request-hosts", fills, &answer);

	*ret = 0;
	while (r >= 0 && (r = statement_row(server, &answer, 1)) == 1)
		++*ret;
	if (r == 0 && !*ret) {
		complain("No host that ships now has such a process");
		return -ENOENT;
	}
	return r;
}

static int request(struct server *server, const struct asked *asked, const char *seconds)
{
	const struct fill more[] = { { "seconds", seconds, false },
				     { "by", server->place.user, true },
				     { 0 } };
	struct fill fills[ASKED_FILLS_MAX + 3];
	size_t count = 0;
	uint64_t hosts;
	int r;

	asked_fills(asked, fills);
	while (fills[count].name)
		count++;
	memcpy(fills + count, more, sizeof(more));
	r = count_hosts(server, fills, &hosts);
	server->settings = "&insert_distributed_sync=1";
	if (r == 0)
		r = statement_ask(server, "request", fills, NULL);
	server->settings = NULL;
	if (r == 0 && hosts == 1)
		puts("Asked 1 host: with 'windows = yes' it sends its operations within two "
		     "minutes");
	else if (r == 0)
		printf("Asked %" PRIu64 " hosts: those with 'windows = yes' send their operations "
		       "within two minutes\n",
		       hosts);
	return r;
}

int fleet_request(const struct options *options)
{
	_cleanup_(server_freep) struct server *server = NULL;
	_cleanup_(asked_done) struct asked asked = { 0 };
	char seconds[16];
	int r;

	if (take_window(options, seconds) < 0)
		return EXIT_USAGE;
	r = asked_set(&asked, options, 0, 0, LIMIT_QUERY_ROWS);
	if (r < 0)
		return r == -EINVAL ? EXIT_USAGE : complain_memory();
	r = state_open(options, &server);
	if (r < 0)
		return r == -EINVAL ? EXIT_USAGE : EXIT_FAILED;
	r = request(server, &asked, seconds);
	return r < 0 ? EXIT_FAILED : EXIT_DONE;
}
