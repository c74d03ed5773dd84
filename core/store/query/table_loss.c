/* Table loss: the queries about what went wrong: calls that failed, and what is missing. */
#include "core/store/query/table_sql.h"

/* clang-format off */

const struct query query_table_loss[] = {
	{
		.name = "errors",
		.text = "failed calls by function, code and stack",
		.about = ABOUT_CALLS | ABOUT_STACKS,
		.nothing = "No call failed",
		.options = QUERY_PID | QUERY_WINDOW,
		.window_ns = HOUR_NS,
		.limit = 1000,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "fn", T(TEXT) },
			{ "code", T(INTEGER) },
			{ "name", T(TEXT) },
			{ "calls", T(INTEGER) },
			{ "last_ns", T(TIME) },
			{ "stack", T(STACK) }),
		.sql =
			"WITH s AS ("
				"SELECT process, fn, result, stack, sum(calls) AS calls,"
				" max(second) AS last" IN_WINDOW
				" AND freed = 0 AND result NOT IN (0, 600)"
				" GROUP BY process, fn, result, stack"
			") SELECT p.pid, p.comm, " FUNCTION ", result, result_name(result), calls,"
			" last * 1000000000, stack"
			" FROM s"
			" JOIN process p ON p.id = s.process"
			" LEFT JOIN function f ON f.id = s.fn"
			" ORDER BY calls DESC, p.pid, 3, 4"
			" LIMIT :limit",
	},
	{
		.name = "loss",
		.text = "what is missing from the answers, and why",
		.about = ABOUT_ALL | ABOUT_LOSS,
		.nothing = "Nothing was lost",
		.options = QUERY_PID | QUERY_WINDOW,
		.limit = 1000,
		.column = COLUMNS(
			{ "reason", T(TEXT) },
			{ "pid", T(INTEGER) },
			{ "count", T(INTEGER) },
			{ "first_ns", T(TIME) },
			{ "last_ns", T(TIME) },
			{ "text", T(TEXT) }),
		.sql =
			"SELECT r.name, p.pid, sum(l.count), min(l.start_ns), max(l.end_ns), r.text"
			" FROM loss l"
			" JOIN loss_reason r ON r.id = l.reason"
			" LEFT JOIN process p ON p.id = l.process"
			" WHERE l.boot = :boot AND l.end_ns >= :since AND l.start_ns <= :until"
			" AND (:pid IS NULL OR p.pid = :pid OR l.process = 0 AND EXISTS ("
				"SELECT 1 FROM process p WHERE boot = :boot AND pid = :pid"
				" AND " STARTED " <= l.end_ns"
				" AND (" RUNNING " OR p.exit_ns >= l.start_ns)))"
			" GROUP BY l.reason, l.process"
			" ORDER BY l.reason, p.pid"
			" LIMIT :limit",
	},
	{ 0 },
};
/* clang-format on */
