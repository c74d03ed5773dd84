/* Sync: rounds of exchanges. A server before 20 tells whole seconds, which say most while one ends:
 * it is asked when by what is known its second may or may not be over, and each answer halves what
 * is left. */
#include "client/ship/sync.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "core/base/clock.h"

/* The first one also pays for the connection. */
#define EXCHANGES_FIRST 8
#define EXCHANGES	4

static void sleep_until(int64_t ns)
{
	const struct timespec at = { .tv_sec = ns / (int64_t)NS_PER_S,
				     .tv_nsec = ns % (int64_t)NS_PER_S };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
		;
}

static bool is_narrow(const struct offset_round *round)
{
	return offset_known(round) &&
	       offset_half(round) <= (round->round_trip_ns + OFFSET_TICK_NS) * 3 / 4;
}

static int edges(struct clickhouse *server, struct offset *offset, size_t most,
		 char name[OFFSET_SERVER_BYTES], struct offset_round *round)
{
	struct offset_exchange exchange;
	char last[OFFSET_SERVER_BYTES];
	int r = 0;

	if (strcmp(name, offset->server) == 0)
		*round = offset_expect(offset, (int64_t)clock_ns(CLOCK_MONOTONIC));
	for (size_t i = 0; r == 0 && i < most && !is_narrow(round); i++) {
		memcpy(last, name, sizeof(last));
		if (offset_known(round))
			sleep_until(offset_edge(round, (int64_t)clock_ns(CLOCK_MONOTONIC)));
		r = clickhouse_time(server, &exchange, name);
		if (r == 0 && strcmp(name, last) != 0)
			*round = offset_open();
		if (r == 0 && offset_narrow(round, &exchange) == -EBADMSG)
			r = -EBADMSG;
	}
	return r;
}

int sync_round(struct clickhouse *server, struct offset *offset, size_t seconds)
{
	struct offset_round round = offset_open();
	struct offset_exchange exchange;
	size_t most = offset->count ? EXCHANGES : EXCHANGES_FIRST;
	char name[OFFSET_SERVER_BYTES] = "", last[OFFSET_SERVER_BYTES];
	int r = 0;

	for (size_t i = 0; r == 0 && i < most; i++) {
		memcpy(last, name, sizeof(last));
		r = clickhouse_time(server, &exchange, name);
		if (r == 0 && strcmp(name, last) != 0) /* others behind one address */
			round = offset_open();
		if (r == 0 && offset_narrow(&round, &exchange) == -EBADMSG)
			r = -EBADMSG;
		if (r == 0 && exchange.to_ns > exchange.from_ns) {
			r = edges(server, offset, seconds, name, &round);
			break;
		}
	}
	if (r < 0)
		return r;
	offset_add(offset, name, &round);
	offset->wall_offset_ns = (int64_t)(clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC));
	return 0;
}
