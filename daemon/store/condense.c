/* Condense: adds the rollups of each old second to those of the second in which its minute began.
 * So a query over an hour reads a sixtieth of the rows. All that ended before `done` is condensed;
 * a row that comes late for such a second stays as it is, which is right too. */
#include "daemon/store/condense.h"

#include <errno.h>
#include <stdlib.h>

#include "daemon/store/sql.h"

#define SECOND_NS	 INT64_C(1000000000)
#define SECONDS_PER_TURN 10 /* of those that have rows: some ten milliseconds of work */

#define KEY		 "process, kind, fn, detail, device, stream, result, stack, freed"

enum { NEXT, ADD, DELETE, STATEMENT_COUNT };

/* ?1 is the boot, ?2 and ?3 the first and last second, ?4 the start of their minute. */
static const char *const statement_text[] = {
	[NEXT] = "SELECT min(second) FROM rollup WHERE boot=?1 AND second>=?2",
	[ADD] = "INSERT INTO rollup(boot, second, " KEY ", calls, timed, total_ns, min_ns, max_ns,"
		" bytes) SELECT ?1, ?4, " KEY ", sum(calls), sum(timed), sum(total_ns),"
		" coalesce(min(min_ns) FILTER (WHERE timed > 0), 0), max(max_ns), sum(bytes)"
		" FROM rollup WHERE boot=?1 AND second BETWEEN ?2 AND ?3 GROUP BY " KEY
		" ON CONFLICT DO UPDATE SET"
		" min_ns=CASE WHEN timed=0 THEN excluded.min_ns"
		" WHEN excluded.timed=0 THEN min_ns ELSE min(min_ns, excluded.min_ns) END,"
		" calls=calls+excluded.calls, timed=timed+excluded.timed,"
		" total_ns=total_ns+excluded.total_ns, max_ns=max(max_ns, excluded.max_ns),"
		" bytes=bytes+excluded.bytes",
	[DELETE] = "DELETE FROM rollup WHERE boot=?1 AND second BETWEEN ?2 AND ?3",
};

struct condense {
	sqlite3 *db;
	int64_t boot;
	int64_t done; /* second */
	sqlite3_stmt *stmt[STATEMENT_COUNT];
};

int condense_new(sqlite3 *db, int64_t boot, struct condense **ret)
{
	struct condense *condense = calloc(1, sizeof(*condense));
	int r;

	if (!condense)
		return -ENOMEM;
	condense->db = db;
	condense->boot = boot;
	r = sql_prepare_all(db, statement_text, STATEMENT_COUNT, condense->stmt);
	if (r < 0) {
		free(condense);
		return r;
	}
	*ret = condense;
	return 0;
}

struct condense *condense_free(struct condense *condense)
{
	if (condense)
		sql_finalize_all(condense->stmt, STATEMENT_COUNT);
	free(condense);
	return NULL;
}

/* All of the seconds are of one minute, which began before the first. */
static int condense_seconds(struct condense *condense, int64_t first, int64_t last)
{
	int64_t minute = first - first % CONDENSE_TO_S;
	int r = sql_exec(condense->db, "BEGIN IMMEDIATE");

	if (r < 0)
		return r;
	sql_bind(condense->stmt[ADD], condense->boot, first, last, minute);
	sql_bind(condense->stmt[DELETE], condense->boot, first, last);
	r = sql_run(condense->stmt[ADD]);
	if (r == 0)
		r = sql_run(condense->stmt[DELETE]);
	if (r == 0)
		r = sql_exec(condense->db, "COMMIT");
	if (r < 0)
		sql_exec(condense->db, "ROLLBACK");
	return r;
}

int condense_turn(struct condense *condense, uint64_t now_ns)
{
	int64_t until = (int64_t)now_ns / SECOND_NS - CONDENSE_AFTER_S, first, last, minute_last;
	int r;

	sql_bind(condense->stmt[NEXT], condense->boot, condense->done);
	r = sql_integer(condense->stmt[NEXT], &first);
	if (r < 0 || !first)
		return 0;
	minute_last = first - first % CONDENSE_TO_S + CONDENSE_TO_S - 1;
	if (minute_last >= until)
		return 0;
	if (first % CONDENSE_TO_S == 0) {
		condense->done = first + 1;
		return 1;
	}
	last = first + SECONDS_PER_TURN - 1;
	last = last < minute_last ? last : minute_last;
	if (condense_seconds(condense, first, last) < 0)
		return 0;
	condense->done = last + 1;
	return 1;
}
