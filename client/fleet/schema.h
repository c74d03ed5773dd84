/* schema.h: the steps of systemd/clickhouse/ as statements for the server at hand, and the columns
 * that they make.
 *
 * A step's file is written for one node of today: this is all that is changed for another. It makes
 * tables, or adds columns to those of former steps. */
#ifndef TS_CLIENT_FLEET_SCHEMA_H
#define TS_CLIENT_FLEET_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>

#include "client/fleet/source.h"

struct schema_column {
	const char *table, *name, *type; /* as the server calls them */
};

/* Of all steps up to `version`. */
struct schema {
	struct schema_column *column;
	size_t count, room;
	char **text; /* what they point to */
	size_t text_count, text_room;
};

struct schema_target {
	const char *database;
	const char *cluster;	    /* NULL: one node */
	bool old;		    /* without LowCardinality, CODEC, TTL and settings of tables */
	const struct schema *found; /* what the server has; NULL: nothing */
};

/* Calls `each` for every statement of a step, in order, until it returns other than 0. Any of them
 * may have been done before. */
int schema_statements(const struct source *step, const struct schema_target *target,
		      int (*each)(void *data, const char *statement), void *data);

int schema_add(struct schema *schema, const char *table, const char *name, const char *type);
int schema_expect(unsigned version, const struct schema_target *target, struct schema *ret);
void schema_done(struct schema *schema);

#endif
