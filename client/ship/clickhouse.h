/* clickhouse.h: a server over HTTP, one request at a time.
 *
 * What fails says why in clickhouse_why(), as one sentence for the operator. */
#ifndef TS_CLIENT_SHIP_CLICKHOUSE_H
#define TS_CLIENT_SHIP_CLICKHOUSE_H

#include "client/ship/offset.h"
#include "client/ship/parcel.h"
#include "client/ship/settings.h"
#include "core/base/cleanup.h"

struct clickhouse;

/* The settings must stay. */
int clickhouse_new(const struct settings *settings, struct clickhouse **ret);
struct clickhouse *clickhouse_free(struct clickhouse *server);
const char *clickhouse_why(const struct clickhouse *server);
void clickhouse_forget_why(struct clickhouse *server);
/* The URL that is used now. */
const char *clickhouse_url(const struct clickhouse *server);

/* Asks for its version and whether it has the tables that we insert into. A server that does not
 * answer is replaced by the next one of the settings. */
int clickhouse_check(struct clickhouse *server);
/* One INSERT of a block of the parcel. `token` tells this block from all others. After an error it
 * may have arrived nevertheless: it is to be sent again as it is. */
int clickhouse_insert(struct clickhouse *server, const struct parcel *parcel,
		      const struct parcel_block *block, const char *token);
/* host.wall_offset_ns of the boot. -ENOENT: it is not known there. */
int clickhouse_wall_offset(struct clickhouse *server, const char *boot_id, int64_t *ret);

/* What this host is asked for by rows newer than `after` (a time of the server's): a window of
 * `seconds`, 0: nothing, and the time of the newest of them. */
struct clickhouse_request {
	uint64_t seconds, time;
};
int clickhouse_request(struct clickhouse *server, uint64_t after, struct clickhouse_request *ret);

/* Asks for its time, and its name by itself. */
int clickhouse_time(struct clickhouse *server, struct offset_exchange *ret,
		    char name[OFFSET_SERVER_BYTES]);

CLEANUP_DEFINE(struct clickhouse, clickhouse_free)

#endif
