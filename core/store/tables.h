/* tables.h: the rows of all tables but chunk, from records of a batch into the database. */
#ifndef TS_TABLES_H
#define TS_TABLES_H

#include <sqlite3.h>
#include <stdint.h>

#include "core/base/cleanup.h"
#include "core/store/record.h"

struct pending;
struct tables;

int tables_new(sqlite3 *db, int64_t boot, struct tables **ret);
struct tables *tables_free(struct tables *tables);

/* The time of the rows that follow, and the number of the commit that they are for. */
void tables_set_time(struct tables *tables, uint64_t now_ns, const struct pending *pending,
		     int64_t batch);
/* Inside the caller's transaction. */
int tables_write(struct tables *tables, uint32_t type, const void *data);
/* The totals of what was written since the time was set. */
int tables_write_totals(struct tables *tables);
/* When this boot was last written to, and the next ids. */
int tables_write_time(struct tables *tables);
/* As totals_settle(). */
int tables_settle(struct tables *tables, uint64_t now_ns);

CLEANUP_DEFINE(struct tables, tables_free)

#endif
