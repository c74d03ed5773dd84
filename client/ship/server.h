/* server.h: ClickHouse over HTTP, one request at a time.
 *
 * What fails says why in server_why(), as one sentence for the operator. */
#ifndef TS_CLIENT_SHIP_SERVER_H
#define TS_CLIENT_SHIP_SERVER_H

#include "client/ship/parcel.h"
#include "client/ship/settings.h"
#include "core/base/cleanup.h"

struct server;

/* The settings must stay. */
int server_new(const struct settings *settings, struct server **ret);
struct server *server_free(struct server *server);
const char *server_why(const struct server *server);
/* The URL that is used now. */
const char *server_url(const struct server *server);

/* Asks for its version and whether it has the tables that we insert into. A server that does not
 * answer is replaced by the next one of the settings. */
int server_check(struct server *server);
/* One INSERT of a block of the parcel. `token` tells this block from all others. After an error it
 * may have arrived nevertheless: it is to be sent again as it is. */
int server_insert(struct server *server, const struct parcel *parcel,
		  const struct parcel_block *block, const char *token);
/* host.wall_offset_ns of the boot. -ENOENT: it is not known there. */
int server_wall_offset(struct server *server, const char *boot_id, int64_t *ret);

CLEANUP_DEFINE(struct server, server_free)

#endif
