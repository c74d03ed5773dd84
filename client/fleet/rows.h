/* rows.h: writes a server's answer in the form that the options ask for. */
#ifndef TS_CLIENT_FLEET_ROWS_H
#define TS_CLIENT_FLEET_ROWS_H

#include "client/fleet/head.h"

/* `text` is an answer (tsv.h), of which `limit` rows are written, as those of the query `name`.
 * Without a head its columns are those that the server names. A negative errno: it is printed. */
int rows_write(char *text, const struct options *options, const char *name, const struct head *head,
	       uint64_t limit);

#endif
