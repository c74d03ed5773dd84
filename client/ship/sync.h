/* sync.h: compares this host's clock with that of a server, by asking it for its time when the
 * answer tells most. */
#ifndef TS_CLIENT_SHIP_SYNC_H
#define TS_CLIENT_SHIP_SYNC_H

#include "client/ship/clickhouse.h"
#include "client/ship/offset.h"

/* Between rounds. */
#define SYNC_S 60

/* What a round may take with a server that knows whole seconds only: one of many, or the only
 * one. */
#define SYNC_SECONDS	   4
#define SYNC_SECONDS_ALONE 12

/* One round. A negative errno: the server did not answer, clickhouse_why() says why, and nothing
 * was added. */
int sync_round(struct clickhouse *server, struct offset *offset, size_t seconds);

#endif
