/* source.h: the SQL that tsctl carries: the steps of systemd/clickhouse/, and the statements of
 * client/fleet/query/. */
#ifndef TS_CLIENT_FLEET_SOURCE_H
#define TS_CLIENT_FLEET_SOURCE_H

#include <stddef.h>

struct source {
	const char *name; /* of its file, without ".sql" */
	const char *text;
};

/* In the order of their numbers, which are 1, 2, 3 …; ends with a row without a name. */
extern const struct source source_steps[];
/* By name; likewise. */
extern const struct source source_queries[];

/* What follows the comments at the start of a query's file. */
const char *source_statement(const struct source *source);
/* The same by name; NULL: there is none. */
const char *source_query(const char *name);

#endif
