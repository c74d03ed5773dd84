/* offset.h: how far a server's clock is ahead of this host's CLOCK_MONOTONIC, from exchanges. Pure.
 *
 * An exchange bounds the offset by causality alone: the server read its clock after we had sent the
 * request and before we had the answer, and said it to its resolution. A round is what some
 * exchanges leave in common; the estimate is the round that bounds best now, of those of a window,
 * carried on by the drift between rounds. All of it is of one server: another has another clock.
 *
 * Source: RFC 5905 (NTP v4), of which the clock filter and the tolerance of frequency are. */
#ifndef TS_CLIENT_SHIP_OFFSET_H
#define TS_CLIENT_SHIP_OFFSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OFFSET_ROUNDS	    64 /* an hour of minutes */
#define OFFSET_SERVER_BYTES 256

/* Of the clocks of two computers, each within 100 ppm. */
#define OFFSET_DRIFT_PPB 200000
/* What a known drift may change by: RFC 5905's tolerance. */
#define OFFSET_WANDER_PPB 15000

/* Whole seconds come from time(), which starts a second with the next tick of the kernel: HZ is 100
 * or more. */
#define OFFSET_TICK_NS 10000000

struct offset_exchange {
	int64_t sent_ns, got_ns; /* CLOCK_MONOTONIC */
	int64_t from_ns, to_ns;	 /* the server's clock was in here when it was read */
};

/* At `at_ns` the offset is between low and high. */
struct offset_round {
	int64_t at_ns, low_ns, high_ns;
	int64_t round_trip_ns; /* the smallest */
};

struct offset_estimate {
	int64_t at_ns;	   /* CLOCK_MONOTONIC */
	int64_t offset_ns; /* to be added to it then */
	int64_t drift_ppb; /* what the offset grows by in a second, in nanoseconds */
	int64_t bound_ns;  /* of the error then */
	int64_t drift_bound_ppb;
	int64_t round_trip_ns;
};

struct offset {
	char server[OFFSET_SERVER_BYTES];
	int64_t wall_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC at the end of the last round */
	struct offset_round round[OFFSET_ROUNDS]; /* the oldest first */
	size_t count;
};

/* What a round starts with: nothing is known. */
struct offset_round offset_open(void);
/* Narrows a round by an exchange. -ESTALE: they have nothing in common, since one of the clocks was
 * set; the round then is that exchange. -EBADMSG: no times that a clock can have. */
int offset_narrow(struct offset_round *round, const struct offset_exchange *exchange);
bool offset_known(const struct offset_round *round);
/* Half of what is between low and high. */
int64_t offset_half(const struct offset_round *round);

/* Adds a round of a server. One that contradicts those before is the only one then: a clock was
 * set, or the host slept. */
void offset_add(struct offset *offset, const char *server, const struct offset_round *round);
/* False: nothing is known. */
bool offset_estimate(const struct offset *offset, struct offset_estimate *ret);

/* What a round later may find. Without any before, it is open. */
struct offset_round offset_expect(const struct offset *offset, int64_t at_ns);
/* When to ask a server that tells whole seconds: it then answers in the middle of when its next one
 * may begin, by what is known, so that either answer halves that, but for the tick. */
int64_t offset_edge(const struct offset_round *round, int64_t now_ns);

#endif
