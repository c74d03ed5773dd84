/* state.h: what a database has of the fleet's tables. */
#ifndef TS_CLIENT_FLEET_STATE_H
#define TS_CLIENT_FLEET_STATE_H

#include <stdbool.h>

#include "client/fleet/schema.h"
#include "client/fleet/server.h"

/* The first release series with all that the steps' files use (struct server). */
#define STATE_MODERN 22003
/* For queries of such servers: rows that replace each other have the same day. */
#define STATE_SELECT_SETTINGS                                                                      \
	"&do_not_merge_across_partitions_select_final=1&joined_subquery_requires_alias=0"

struct state {
	bool there, distributed; /* the table `version` is, and is one over a cluster's */
	unsigned version;	 /* 0: no step is complete */
};

/* The version that this tsctl makes. */
unsigned state_newest(void);
/* How the tables are made for this server. */
struct schema_target state_target(const struct server *server, const char *cluster);
/* A negative errno: it is printed. */
int state_read(struct server *server, struct state *ret);
/* The columns that the server has, by table and name. A negative errno: it is printed. */
int state_columns(struct server *server, struct schema *ret);
/* Whether the tables that target->found has are as the steps make them: -EINVAL: not, and it is
 * printed where they differ. Without a version, those that are there. */
int state_check(const struct server *server, const struct state *state,
		const struct schema_target *target);

/* Opens the server whose tables are asked. -EINVAL: what was given is wrong; -ENOENT: the database
 * has no tables of a fleet, or those of an older version; it is printed. */
int state_open(const struct options *options, struct server **ret);

#endif
