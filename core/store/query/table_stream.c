/* Table stream: the queries about streams, what is put on them, and the waits for them. A call that
 * was captured put nothing on its stream: the launch of its graph does. */
#include "core/store/query/table_sql.h"

/* clang-format off */

/* The detail of a set says other things. */
#define DIRECTION      "iif(" KIND_IN("'copy'") ", detail, 0)"
#define RATE(bytes, ns) "CAST(" bytes " * 1e9 / " ns " AS INTEGER)"

const struct query query_table_stream[] = {
	{
		/* Copies of graphs have no calls, so their bytes come from `work`, as do all where
		 * calls were lost.
		 * Where the device's own times are known, they tell the rate. Else it is that of
		 * the calls that return when the copy is done: of the others only the time of the
		 * call is known. */
		.name = "transfers",
		.text = "copies and sets by kind: bytes, time, rate",
		.about = ABOUT_CALLS | ABOUT_TIMES,
		.nothing = "Nothing was copied or set",
		.options = QUERY_PID | QUERY_WINDOW,
		.window_ns = HOUR_NS,
		.limit = 1000,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "kind", T(TEXT) },
			{ "calls", T(INTEGER) },
			{ "errors", T(INTEGER) },
			{ "captured", T(INTEGER) },
			{ "bytes", T(BYTES) },
			{ "total_ns", T(NANOSECONDS) },
			{ "bytes_per_s", T(BYTES_PER_SECOND) },
			{ "times", T(TEXT) },
			{ "exact", T(INTEGER) }),
		.sql =
			"WITH s AS ("
				"SELECT process, kind, detail, fn, result,"
				" sum(calls) AS calls, " ERRORS ", sum(captured) AS captured,"
				" sum(timed) AS timed,"
				" sum(total_ns) AS total_ns, sum(bytes) AS bytes" IN_WINDOW
				" AND freed = 0 AND " KIND_IN("'copy', 'set'")
				" GROUP BY process, kind, detail, fn, result"
			"), t AS ("
				"SELECT process, s.kind, detail, calls, errors, captured, timed,"
				" total_ns, bytes,"
				" result = 0 AND timed = calls AND f.name NOT LIKE '%Async%'"
				" AS whole"
				" FROM s"
				" LEFT JOIN function f ON f.id = s.fn"
			"), u AS ("
				"SELECT process, kind, " DIRECTION " AS direction,"
				" sum(calls) AS calls, sum(errors) AS errors,"
				" sum(captured) AS captured, sum(bytes) AS bytes,"
				" CASE WHEN sum(timed) > 0 THEN sum(total_ns) END AS total_ns,"
				" sum(bytes) FILTER (WHERE whole) AS whole_bytes,"
				" sum(total_ns) FILTER (WHERE whole) AS whole_ns"
				" FROM t"
				" GROUP BY 1, 2, 3"
			"), e AS ("
				"SELECT process, kind, " DIRECTION " AS direction,"
				" sum(count) AS count, sum(bytes) AS bytes,"
				" sum(bytes) FILTER (WHERE graph <> 0) AS graph_bytes,"
				" sum(total_ns) AS total_ns"
				SUMS_OF("work") " AND " KIND_IN("'copy', 'set'")
				" GROUP BY 1, 2, 3"
			"), x AS ("
				"SELECT process, kind, direction, coalesce(u.calls, 0) AS calls,"
				" coalesce(u.errors, 0) AS errors,"
				" coalesce(u.captured, 0) AS captured,"
				" max(coalesce(u.bytes, 0) + coalesce(graph_bytes, 0),"
				" coalesce(e.bytes, 0)) AS bytes,"
				" coalesce(e.total_ns, u.total_ns) AS total_ns,"
				" CASE WHEN e.total_ns > 0 THEN " RATE("e.bytes", "e.total_ns")
				" WHEN e.count IS NULL AND whole_ns > 0"
				" THEN " RATE("whole_bytes", "whole_ns") " END AS rate,"
				" coalesce(e.count, 0) AS exact"
				" FROM u FULL JOIN e USING (process, kind, direction)"
			") SELECT p.pid, p.comm, coalesce(d.name, k.name), calls, errors, captured,"
			" bytes, total_ns, rate, iif(exact > 0, 'exact', 'call'), exact"
			" FROM x"
			" JOIN process p ON p.id = x.process"
			" LEFT JOIN kind k ON k.id = x.kind"
			" LEFT JOIN detail d ON d.kind = x.kind AND d.id = x.direction"
			" ORDER BY 7 DESC, 4 DESC, p.pid, 3"
			" LIMIT :limit",
	},
	{
		.name = "syncs",
		.text = "who waits where and how long",
		.about = ABOUT_CALLS | ABOUT_STACKS | ABOUT_SAMPLES,
		.nothing = "Nothing was waited for",
		.options = QUERY_PID | QUERY_WINDOW,
		.window_ns = HOUR_NS,
		.limit = 100,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "fn", T(TEXT) },
			{ "calls", T(INTEGER) },
			{ "errors", T(INTEGER) },
			{ "total_ns", T(NANOSECONDS) },
			{ "mean_ns", T(NANOSECONDS) },
			{ "max_ns", T(NANOSECONDS) },
			{ "stack", T(STACK) }),
		.sql =
			"WITH s AS ("
				"SELECT process, fn, stack, sum(calls) AS calls, " ERRORS ", " TIMES
				IN_WINDOW
				" AND freed = 0 AND " KIND_IN("'sync'")
				" GROUP BY process, fn, stack"
			") SELECT p.pid, p.comm, " FUNCTION ", calls, errors,"
			" " TIMED("total_ns") ", " TIMED("total_ns / timed") ","
			" " TIMED("max_ns") ", stack"
			" FROM s"
			" JOIN process p ON p.id = s.process"
			" LEFT JOIN function f ON f.id = s.fn"
			" ORDER BY total_ns DESC, calls DESC, p.pid, 3"
			" LIMIT :limit",
	},
	{
		.name = "streams",
		.text = "streams that live or were used in the window",
		.about = ABOUT_CALLS,
		.nothing = "No stream was used",
		.options = QUERY_PID | QUERY_WINDOW | QUERY_DEVICE | QUERY_STREAM,
		.window_ns = HOUR_NS,
		.limit = 1000,
		.column = COLUMNS(
			{ "stream", T(INTEGER) },
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "device", T(INTEGER) },
			{ "handle", T(HANDLE) },
			{ "tid", T(INTEGER) },
			{ "non_blocking", T(INTEGER) },
			{ "created_ns", T(TIME) },
			{ "destroyed_ns", T(TIME) },
			{ "launches", T(INTEGER) },
			{ "transfers", T(INTEGER) },
			{ "bytes", T(BYTES) },
			{ "calls", T(INTEGER) }),
		.sql =
			"WITH each AS ("
				"SELECT stream, kind, sum(calls) AS calls, sum(bytes) AS bytes,"
				" sum(calls - captured) FILTER (WHERE result = 0) AS submitted"
				IN_WINDOW
				" AND freed = 0"
				" GROUP BY second, process, kind, fn, detail, device, stream"
			"), s AS ("
				"SELECT stream, sum(calls) AS calls,"
				" sum(submitted) FILTER (WHERE " KIND_IN("'launch'") ")"
				" AS launches,"
				" sum(submitted) FILTER (WHERE " KIND_IN("'copy', 'set'") ")"
				" AS transfers,"
				" sum(bytes) FILTER (WHERE " KIND_IN("'copy', 'set'") ") AS bytes"
				" FROM each"
				" WHERE stream <> 0"
				" GROUP BY stream"
			") SELECT st.id, p.pid, p.comm, nullif(st.device, -1), st.handle,"
			" nullif(st.tid, 0), st.non_blocking,"
			" nullif(st.created_ns, 0), nullif(st.destroyed_ns, 0),"
			" coalesce(launches, 0), coalesce(transfers, 0),"
			" coalesce(bytes, 0), coalesce(calls, 0)"
			" FROM stream st"
			" JOIN process p ON p.id = st.process"
			" LEFT JOIN s ON s.stream = st.id"
			" WHERE p.boot = :boot AND " OF_PID
			" AND (:device IS NULL OR st.device = :device)"
			" AND (:stream IS NULL OR st.id = :stream)"
			" AND (s.stream IS NOT NULL"
			" OR coalesce(st.destroyed_ns, 0) = 0 AND " RUNNING ")"
			" ORDER BY calls DESC, st.id"
			" LIMIT :limit",
	},
	{
		/* Stream 0 is the device itself. */
		.name = "states",
		.text = "state intervals of streams and devices, from 20 us on",
		.about = ABOUT_BOUNDS | ABOUT_STATES,
		.nothing = "No state was seen",
		.options = QUERY_PID | QUERY_WINDOW | QUERY_DEVICE | QUERY_STREAM,
		.window_ns = MINUTE_NS,
		.limit = 1000,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "device", T(INTEGER) },
			{ "stream", T(INTEGER) },
			{ "state", T(TEXT) },
			{ "start_ns", T(TIME) },
			{ "end_ns", T(TIME) },
			{ "duration_ns", T(NANOSECONDS) }),
		.sql =
			"SELECT p.pid, p.comm, nullif(s.device, -1), nullif(s.stream, 0), s.state,"
			" s.start_ns, s.end_ns, s.end_ns - s.start_ns"
			" FROM state s"
			" JOIN process p ON p.id = s.process"
			" WHERE p.boot = :boot AND s.start_ns <= :until AND s.end_ns >= :since"
			" AND " OF_PID
			" AND (:device IS NULL OR s.device = :device)"
			" AND (:stream IS NULL OR s.stream = :stream)"
			" ORDER BY s.start_ns, s.stream"
			" LIMIT :limit",
	},
	{ 0 },
};
/* clang-format on */
