/* table_sql.h: what the rows of the query tables share. */
#ifndef TS_QUERY_TABLE_SQL_H
#define TS_QUERY_TABLE_SQL_H

#include "core/base/time.h"
#include "core/store/query/table.h"
#include "proto/event.h"

#define SECOND_NS    NS_PER_S
#define MINUTE_NS    (60 * NS_PER_S)
#define HOUR_NS	     (60 * MINUTE_NS)
#define COLUMNS(...) ((const struct query_column[]){ __VA_ARGS__, { 0 } })
#define T(type)	     TRACESMITH__V1__COLUMNS__TYPE__##type

/* SQL is laid out by hand, a clause a line. */
/* clang-format off */

#define KIND_IN(names) "kind IN (SELECT id FROM kind WHERE name IN (" names "))"
#define PROCESSES      "(SELECT id FROM process WHERE boot = :boot AND pid = :pid)"
#define OF_PID         "(:pid IS NULL OR p.pid = :pid)"
#define RUNNING        "coalesce(p.exit_ns, 0) = 0"
/* When it began: before it was first seen, as far as that is known. */
#define STARTED        "min(p.first_ns, p.started_ticks * 10000000 - :suspended)"
#define STATE          "CASE WHEN " RUNNING " THEN 'running' ELSE 'ended' END"
#define FUNCTION       "coalesce(f.name, 'function ' || fn)"
#define SHARE(part, of) \
	"CASE WHEN " of " > 0 THEN CAST(round(1e6 * (" part ") / (" of ")) AS INTEGER) END"

/* Of tables that have sums by the second or minute. */
#define SUMS_OF(table) \
	" FROM " table \
	" WHERE boot = :boot AND second BETWEEN :first AND :until / 1000000000" \
	" AND (:pid IS NULL OR process IN " PROCESSES ")"

/* Of rollups, to be grouped: */
#define TIMED(time)    "CASE WHEN timed > 0 THEN " time " END"
#define ERRORS         "sum(CASE WHEN result IN (0, 600) THEN 0 ELSE calls END) AS errors"
#define TIMES \
	"sum(timed) AS timed, sum(total_ns) AS total_ns," \
	" min(" TIMED("min_ns") ") AS min_ns, max(max_ns) AS max_ns"
#define IN_WINDOW SUMS_OF("rollup")

/* clang-format on */

#endif
