/* tables.h: what is shipped: each table of the fleet's database (systemd/clickhouse), the daemon's
 * query for its rows, and its columns.
 *
 * Every row starts with TABLES_COMMON, which the shipper knows; then come the values of the query,
 * in the order of `column`. A row that is sent again replaces itself: queries have the whole value
 * of what their key names, and no two rows with one key. */
#ifndef TS_CLIENT_SHIP_TABLES_H
#define TS_CLIENT_SHIP_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "client/ship/rowbinary.h"

#define TABLES_COMMON	   "host, boot, told_ns"
#define TABLES_COLUMNS_MAX 32

struct table_column {
	const char *name;
	enum rowbinary_type type; /* of a TIME the daemon says nanoseconds of the boot */
};

enum table_flag {
	/* Sums of a minute, which may grow: it is asked for each minute of a parcel. */
	TABLE_SUMS = 1 << 0,
	/* The last columns are made of the query's last two values, a control group and the
	 * variables of an environment (identity.h). */
	TABLE_IDENTITY = 1 << 1,
	/* What comes into being once. The query's last value is the number of the commit, which is
	 * no column. */
	TABLE_ONCE = 1 << 2,
	/* Single operations, which are sent only when a window is asked for. */
	TABLE_OPS = 1 << 3,
	/* What is also sent then, since the operations need it. */
	TABLE_WITH_OPS = 1 << 4,
	/* Other rows mean nothing without it, so it is always sent. */
	TABLE_NEEDED = 1 << 5,
	/* Sums that retention deletes: of them the daemon tells the oldest minute. */
	TABLE_KEPT = 1 << 6,
};

struct table {
	const char *name;
	unsigned int flags;
	const char *query;				/* NULL: the shipper makes its row */
	struct table_column column[TABLES_COLUMNS_MAX]; /* ends with one without a name */
};

extern const struct table tables[];
extern const size_t tables_count;

/* NULL: there is none of that name. */
const struct table *tables_find(const char *name, size_t size);
/* Which it is in a set of tables. */
uint32_t tables_bit(const struct table *table);
/* Of its own. */
size_t tables_columns(const struct table *table);

#endif
