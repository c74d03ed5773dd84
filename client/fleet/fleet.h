/* fleet.h: `tsctl fleet`: makes the tables of a fleet in ClickHouse, and asks them. */
#ifndef TS_CLIENT_FLEET_FLEET_H
#define TS_CLIENT_FLEET_FLEET_H

#include "client/base/options.h"

/* These return an exit_status. */
int fleet_init(const struct options *options);
/* `name` is a query's, or "list". */
int fleet_query(const struct options *options, const char *name);
/* One trace of all processes that are asked for. */
int fleet_export(const struct options *options);
/* Asks hosts for a window of single operations. */
int fleet_request(const struct options *options);
int fleet_sql(const struct options *options, const char *statement);

#endif
