/* Condense: adds the sums of each old second to those of the second in which its minute started. So
 * a query over an hour reads a sixtieth of the rows. Everything in a table that ended before its
 * `done` is condensed; a row that comes late for such a second stays as it is, which is correct
 * too. */
#include "core/store/condense.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/time.h"
#include "core/store/row_sql.h"
#include "core/store/sql.h"

#define SECONDS_PER_TURN 10 /* of those that have rows: about ten milliseconds of work */

#define TABLES_MAX	 8

struct table {
	int64_t done; /* second */
	/* ?1 is the boot, ?2 and ?3 the first and last second, ?4 the start of their minute. */
	sqlite3_stmt *next, *add, *delete;
};

struct condense {
	sqlite3 *db;
	int64_t boot;
	struct table table[TABLES_MAX];
	int count;
};

CLEANUP_DEFINE(struct condense, condense_free)

static int prepare(sqlite3 *db, const struct row_table *row, struct table *ret)
{
	int r = sql_prepare_made(db, row_sql_condense(row), &ret->add);

	if (r == 0)
		r = sql_prepare_made(db,
				     sqlite3_mprintf("SELECT min(second) FROM %s WHERE boot=?1"
						     " AND second>=?2",
						     row->name),
				     &ret->next);
	if (r == 0)
		r = sql_prepare_made(db,
				     sqlite3_mprintf("DELETE FROM %s WHERE boot=?1"
						     " AND second BETWEEN ?2 AND ?3",
						     row->name),
				     &ret->delete);
	return r;
}

int condense_new(sqlite3 *db, int64_t boot, struct condense **ret)
{
	_cleanup_(condense_freep) struct condense *condense = calloc(1, sizeof(*condense));
	int r = 0;

	if (!condense)
		return -ENOMEM;
	condense->db = db;
	condense->boot = boot;
	for (size_t i = 0; r == 0 && i < row_table_count; i++) {
		if (row_tables[i].kept != ROW_KEPT_SECOND)
			continue;
		if (condense->count == TABLES_MAX)
			return -E2BIG;
		r = prepare(db, &row_tables[i], &condense->table[condense->count++]);
	}
	if (r < 0)
		return r;
	*ret = TAKE(condense);
	return 0;
}

struct condense *condense_free(struct condense *condense)
{
	for (int i = 0; condense && i < condense->count; i++) {
		sqlite3_finalize(condense->table[i].next);
		sqlite3_finalize(condense->table[i].add);
		sqlite3_finalize(condense->table[i].delete);
	}
	free(condense);
	return NULL;
}

/* Of seconds that are in one minute, which started before the first. */
struct condensing {
	struct condense *condense;
	struct table *table;
	int64_t first, last;
};

static int condense_seconds(void *data)
{
	const struct condensing *of = data;
	int64_t boot = of->condense->boot, minute = of->first - of->first % CONDENSE_TO_S;
	int r;

	sql_bind(of->table->add, boot, of->first, of->last, minute);
	sql_bind(of->table->delete, boot, of->first, of->last);
	r = sql_run(of->table->add);
	return r < 0 ? r : sql_run(of->table->delete);
}

static int condense_table(struct condense *condense, struct table *table, int64_t until)
{
	struct condensing condensing = { .condense = condense, .table = table };
	int64_t first, last, minute_last;
	int r;

	sql_bind(table->next, condense->boot, table->done);
	r = sql_integer(table->next, &first);
	if (r < 0 || !first)
		return r;
	minute_last = first - first % CONDENSE_TO_S + CONDENSE_TO_S - 1;
	if (minute_last >= until)
		return 0;
	if (first % CONDENSE_TO_S == 0) {
		table->done = first + 1;
		return 1;
	}
	last = first + SECONDS_PER_TURN - 1;
	last = last < minute_last ? last : minute_last;
	condensing.first = first;
	condensing.last = last;
	/* Within a held transaction (hold.h) it is part of that. */
	r = sql_in_savepoint(condense->db, condense_seconds, &condensing);
	if (r < 0)
		return r;
	table->done = last + 1;
	return 1;
}

int condense_turn(struct condense *condense, uint64_t now_ns)
{
	int64_t until = (int64_t)now_ns / NS_PER_S - CONDENSE_AFTER_S;
	int more = 0;

	for (int i = 0; i < condense->count; i++) {
		int r = condense_table(condense, &condense->table[i], until);

		if (r < 0)
			return r;
		more |= r;
	}
	return more;
}
