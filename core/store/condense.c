/* Condense: adds the sums of each old second to those of the second in which its minute started. So
 * a query over an hour reads a sixtieth of the rows. Everything in a table that ended before its
 * `done` is condensed; a row that comes late for such a second stays as it is, which is correct
 * too. */
#include "core/store/condense.h"

#include <errno.h>
#include <stdlib.h>

#include "core/base/time.h"
#include "core/store/sql.h"

#define SECONDS_PER_TURN 10 /* of those that have rows: about ten milliseconds of work */

enum { NEXT, ADD, DELETE, STATEMENT_COUNT };
enum { ROLLUP, WORK, BUSY, TABLE_COUNT };

#define ROLLUP_KEY	  "process, kind, fn, detail, device, stream, result, stack, freed"
#define WORK_KEY	  "process, device, stream, kind, detail, name, graph, stack, bucket"
#define BUSY_KEY	  "process, device, state, kernels, copies"

#define NEXT_OF(table)	  "SELECT min(second) FROM " table " WHERE boot=?1 AND second>=?2"
#define SECONDS_OF(table) " FROM " table " WHERE boot=?1 AND second BETWEEN ?2 AND ?3"
#define DELETE_OF(table)  "DELETE" SECONDS_OF(table)

/* ?1 is the boot, ?2 and ?3 the first and last second, ?4 the start of their minute. */
static const char *const statement_text[TABLE_COUNT][STATEMENT_COUNT] = {
	[ROLLUP][NEXT] = NEXT_OF("rollup"),
	[ROLLUP][ADD] =
		"INSERT INTO rollup(boot, second, " ROLLUP_KEY ", calls, timed, total_ns,"
		" min_ns, max_ns, bytes, captured) SELECT ?1, ?4, " ROLLUP_KEY ", sum(calls),"
		" sum(timed), sum(total_ns), coalesce(min(min_ns) FILTER (WHERE timed > 0),"
		" 0), max(max_ns), sum(bytes), sum(captured)" SECONDS_OF(
			"rollup") " GROUP BY " ROLLUP_KEY " ON CONFLICT DO UPDATE SET"
				  " min_ns=CASE WHEN timed=0 THEN excluded.min_ns"
				  " WHEN excluded.timed=0 THEN min_ns ELSE min(min_ns, "
				  "excluded.min_ns) END,"
				  " calls=calls+excluded.calls, timed=timed+excluded.timed,"
				  " total_ns=total_ns+excluded.total_ns, "
				  "max_ns=max(max_ns, excluded.max_ns),"
				  " bytes=bytes+excluded.bytes,"
				  " captured=captured+excluded.captured",
	[ROLLUP][DELETE] = DELETE_OF("rollup"),
	[WORK][NEXT] = NEXT_OF("work"),
	[WORK][ADD] =
		"INSERT INTO work(boot, second, " WORK_KEY ", count, total_ns, min_ns,"
		" max_ns, bytes, delay_ns) SELECT ?1, ?4, " WORK_KEY ", sum(count),"
		" sum(total_ns), min(min_ns), max(max_ns), sum(bytes), sum(delay_ns)" SECONDS_OF(
			"work") " GROUP BY " WORK_KEY " ON CONFLICT DO UPDATE SET"
				" count=count+excluded.count, total_ns=total_ns+excluded.total_ns,"
				" min_ns=min(min_ns, excluded.min_ns), max_ns=max(max_ns, "
				"excluded.max_ns),"
				" bytes=bytes+excluded.bytes, delay_ns=delay_ns+excluded.delay_ns",
	[WORK][DELETE] = DELETE_OF("work"),
	[BUSY][NEXT] = NEXT_OF("busy"),
	[BUSY][ADD] = "INSERT INTO busy(boot, second, " BUSY_KEY ", ns) SELECT ?1, ?4, " BUSY_KEY
		      ", sum(ns)" SECONDS_OF("busy") " GROUP BY " BUSY_KEY
						     " ON CONFLICT DO UPDATE SET ns=ns+excluded.ns",
	[BUSY][DELETE] = DELETE_OF("busy"),
};

struct table {
	int64_t done; /* second */
	sqlite3_stmt *stmt[STATEMENT_COUNT];
};

struct condense {
	sqlite3 *db;
	int64_t boot;
	struct table table[TABLE_COUNT];
};

CLEANUP_DEFINE(struct condense, condense_free)

int condense_new(sqlite3 *db, int64_t boot, struct condense **ret)
{
	_cleanup_(condense_freep) struct condense *condense = calloc(1, sizeof(*condense));

	if (!condense)
		return -ENOMEM;
	condense->db = db;
	condense->boot = boot;
	for (int i = 0; i < TABLE_COUNT; i++) {
		int r = sql_prepare_all(db, statement_text[i], STATEMENT_COUNT,
					condense->table[i].stmt);

		if (r < 0)
			return r;
	}
	*ret = TAKE(condense);
	return 0;
}

struct condense *condense_free(struct condense *condense)
{
	for (int i = 0; condense && i < TABLE_COUNT; i++)
		sql_finalize_all(condense->table[i].stmt, STATEMENT_COUNT);
	free(condense);
	return NULL;
}

/* All of the seconds are in one minute, which started before the first. */
static int condense_seconds(struct condense *condense, struct table *table, int64_t first,
			    int64_t last)
{
	int64_t minute = first - first % CONDENSE_TO_S;
	/* Within a held transaction (hold.h) it is part of that. */
	int r = sql_exec(condense->db, "SAVEPOINT condense");

	if (r < 0)
		return r;
	sql_bind(table->stmt[ADD], condense->boot, first, last, minute);
	sql_bind(table->stmt[DELETE], condense->boot, first, last);
	r = sql_run(table->stmt[ADD]);
	if (r == 0)
		r = sql_run(table->stmt[DELETE]);
	if (r == 0)
		r = sql_exec(condense->db, "RELEASE condense");
	if (r < 0)
		sql_exec(condense->db, "ROLLBACK TO condense; RELEASE condense");
	return r;
}

static int condense_table(struct condense *condense, struct table *table, int64_t until)
{
	int64_t first, last, minute_last;
	int r;

	sql_bind(table->stmt[NEXT], condense->boot, table->done);
	r = sql_integer(table->stmt[NEXT], &first);
	if (r < 0 || !first)
		return 0;
	minute_last = first - first % CONDENSE_TO_S + CONDENSE_TO_S - 1;
	if (minute_last >= until)
		return 0;
	if (first % CONDENSE_TO_S == 0) {
		table->done = first + 1;
		return 1;
	}
	last = first + SECONDS_PER_TURN - 1;
	last = last < minute_last ? last : minute_last;
	if (condense_seconds(condense, table, first, last) < 0)
		return 0;
	table->done = last + 1;
	return 1;
}

int condense_turn(struct condense *condense, uint64_t now_ns)
{
	int64_t until = (int64_t)now_ns / NS_PER_S - CONDENSE_AFTER_S;
	int more = 0;

	for (int i = 0; i < TABLE_COUNT; i++)
		more |= condense_table(condense, &condense->table[i], until);
	return more;
}
