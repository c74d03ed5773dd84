/* asked.h: what the options ask a fleet for, as SQL: the values of the names in a statement. */
#ifndef TS_CLIENT_FLEET_ASKED_H
#define TS_CLIENT_FLEET_ASKED_H

#include <stdint.h>

#include "client/base/options.h"
#include "client/fleet/fill.h"

#define ASKED_WINDOW_BYTES 256
#define ASKED_NUMBER_BYTES 40
#define ASKED_FILLS_MAX	   24

/* Those that end with a parenthesis are conditions. */
struct asked {
	int64_t since_s, until_s; /* since 1970 */
	char since[ASKED_NUMBER_BYTES], until[ASKED_NUMBER_BYTES], limit[ASKED_NUMBER_BYTES];
	char rank[ASKED_NUMBER_BYTES], window[ASKED_WINDOW_BYTES];
	char *host, *job, *process; /* conditions on columns of these names */
	char *asked, *of_job;	    /* on host, boot and process of any table */
	char *clock;		    /* a table of clocks */
	bool all;
};

/* `window_ns` is how far it goes back without --since; `slack_s` is added at both ends. -EINVAL: it
 * is printed; -ENOMEM. Free it in any case. */
int asked_set(struct asked *asked, const struct options *options, uint64_t window_ns,
	      int64_t slack_s, uint64_t limit);
void asked_done(struct asked *asked);
/* The row behind them is empty. */
void asked_fills(const struct asked *asked, struct fill ret[ASKED_FILLS_MAX]);

#endif
