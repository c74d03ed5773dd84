/* statement.h: asks a server one of the statements of client/fleet/query/. */
#ifndef TS_CLIENT_FLEET_STATEMENT_H
#define TS_CLIENT_FLEET_STATEMENT_H

#include "client/fleet/fill.h"
#include "client/fleet/server.h"
#include "client/fleet/tsv.h"

/* `ret`: its answer, which stays until the next statement; NULL: it has none. A negative errno: it
 * is printed. */
int statement_ask(struct server *server, const char *query, const struct fill *fills,
		  struct tsv *ret);
/* 1: a row with this many columns; 0: no more rows; a negative errno: it is printed. */
int statement_row(const struct server *server, struct tsv *answer, size_t columns);

#endif
