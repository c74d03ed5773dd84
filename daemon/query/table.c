/* Table: the queries. Most read the rollups, whose grain is a second, and a minute for what is
 * older than two, so that their cost does not grow with the number of calls. They see the current
 * boot only. CUDA_ERROR_NOT_READY (600) is an answer, not an error. */
#include "daemon/query/table.h"

#include <stdio.h>
#include <string.h>

#include "core/base/distance.h"

#define HOUR_NS	    3600000000000ull
#define T(type)	    TRACESMITH__V1__COLUMNS__TYPE__##type

#define KIND(names) "(SELECT id FROM kind WHERE name IN (" names "))"
#define PROCESSES   "(SELECT id FROM process WHERE boot = :boot AND pid = :pid)"
#define IN_WINDOW                                                                                  \
	" FROM rollup WHERE boot = :boot"                                                          \
	" AND second BETWEEN :first AND :until / 1000000000"                                       \
	" AND (:pid IS NULL OR process IN " PROCESSES ") "
#define ERRORS "sum(CASE WHEN result IN (0, 600) THEN 0 ELSE calls END) AS errors"
#define TIMES                                                                                      \
	"sum(timed) AS timed, sum(total_ns) AS total_ns,"                                          \
	" min(CASE WHEN timed > 0 THEN min_ns END) AS min_ns, max(max_ns) AS max_ns"
#define MEAN	  "CASE WHEN timed > 0 THEN total_ns / timed END"
#define FUNCTION  "coalesce(f.name, 'function ' || fn)"
#define RUNNING	  "coalesce(p.exit_ns, 0) = 0"
#define ON_DEVICE "('device', 'managed', 'pool', 'physical')"
/* Peaks of different kinds need not have been at one time: their sum is a bound. */
#define MEMORY_OF                                                                                  \
	"(SELECT m.process, sum(live_bytes) AS live_bytes, sum(peak_bytes) AS peak_bytes"          \
	" FROM memory m JOIN memory_kind k ON k.id = m.kind WHERE k.name IN " ON_DEVICE            \
	" GROUP BY m.process)"
/* Grouped in the order of the rollups' key first, which needs no sorting, then over the seconds. */
#define CALLS_OF                                                                                   \
	"(SELECT process, sum(calls) AS calls, sum(errors) AS errors FROM"                         \
	" (SELECT process, sum(calls) AS calls, " ERRORS IN_WINDOW                                 \
	" AND freed = 0 GROUP BY second, process) GROUP BY process)"

static const struct query_column ps_columns[] = {
	{ "pid", T(INTEGER) },
	{ "user", T(TEXT) },
	{ "comm", T(TEXT) },
	{ "container", T(TEXT) },
	{ "tier", T(TEXT) },
	{ "live_bytes", T(BYTES) },
	{ "peak_bytes", T(BYTES) },
	{ "calls", T(INTEGER) },
	{ "errors", T(INTEGER) },
	{ "command", T(TEXT) },
	{ 0 },
};
#define PS_SQL                                                                                     \
	"SELECT p.pid, coalesce(p.user, CAST(p.uid AS TEXT)), p.comm, p.container, 'probe',"       \
	" coalesce(m.live_bytes, 0), coalesce(m.peak_bytes, 0), coalesce(c.calls, 0),"             \
	" coalesce(c.errors, 0), p.command"                                                        \
	" FROM process p LEFT JOIN " MEMORY_OF " m ON m.process = p.id"                            \
	" LEFT JOIN " CALLS_OF " c ON c.process = p.id"                                            \
	" WHERE p.boot = :boot AND " RUNNING " AND (:pid IS NULL OR p.pid = :pid)"                 \
	" ORDER BY 6 DESC, 8 DESC, p.pid LIMIT :limit"

static const struct query_column processes_columns[] = {
	{ "pid", T(INTEGER) },
	{ "ns_pid", T(INTEGER) },
	{ "ppid", T(INTEGER) },
	{ "user", T(TEXT) },
	{ "comm", T(TEXT) },
	{ "state", T(TEXT) },
	{ "first_ns", T(TIME) },
	{ "exit_ns", T(TIME) },
	{ "exit_code", T(INTEGER) },
	{ "container", T(TEXT) },
	{ "cgroup", T(TEXT) },
	{ "live_bytes", T(BYTES) },
	{ "peak_bytes", T(BYTES) },
	{ "calls", T(INTEGER) },
	{ "errors", T(INTEGER) },
	{ "command", T(TEXT) },
	{ 0 },
};
#define PROCESSES_SQL                                                                              \
	"SELECT p.pid, p.ns_pid, p.ppid, coalesce(p.user, CAST(p.uid AS TEXT)), p.comm,"           \
	" CASE WHEN " RUNNING " THEN 'running' ELSE 'ended' END, p.first_ns,"                      \
	" nullif(p.exit_ns, 0), CASE WHEN NOT " RUNNING " THEN p.exit_code END,"                   \
	" p.container, p.cgroup, coalesce(m.live_bytes, 0), coalesce(m.peak_bytes, 0),"            \
	" coalesce(c.calls, 0), coalesce(c.errors, 0), p.command"                                  \
	" FROM process p LEFT JOIN " MEMORY_OF " m ON m.process = p.id"                            \
	" LEFT JOIN " CALLS_OF " c ON c.process = p.id"                                            \
	" WHERE p.boot = :boot AND p.first_ns <= :until AND (" RUNNING " OR p.exit_ns >= :since)"  \
	" AND (:pid IS NULL OR p.pid = :pid)"                                                      \
	" ORDER BY " RUNNING " DESC, p.first_ns DESC LIMIT :limit"

static const struct query_column apis_columns[] = {
	{ "fn", T(TEXT) },
	{ "kind", T(TEXT) },
	{ "calls", T(INTEGER) },
	{ "errors", T(INTEGER) },
	{ "total_ns", T(NANOSECONDS) },
	{ "mean_ns", T(NANOSECONDS) },
	{ "min_ns", T(NANOSECONDS) },
	{ "max_ns", T(NANOSECONDS) },
	{ "bytes", T(BYTES) },
	{ 0 },
};
#define APIS_SQL                                                                                   \
	"WITH each AS (SELECT kind, fn, sum(calls) AS calls, " ERRORS ", " TIMES                   \
	", sum(bytes) AS bytes" IN_WINDOW " AND freed = 0 GROUP BY second, process, kind, fn),"    \
	" s AS (SELECT kind, fn, sum(calls) AS calls, sum(errors) AS errors,"                      \
	" sum(timed) AS timed, sum(total_ns) AS total_ns, min(min_ns) AS min_ns,"                  \
	" max(max_ns) AS max_ns, sum(bytes) AS bytes FROM each GROUP BY kind, fn)"                 \
	" SELECT " FUNCTION                                                                        \
	", k.name, calls, errors, CASE WHEN timed > 0 THEN total_ns END, " MEAN                    \
	", min_ns, CASE WHEN timed > 0 THEN max_ns END, bytes"                                     \
	" FROM s LEFT JOIN function f ON f.id = s.fn LEFT JOIN kind k ON k.id = s.kind"            \
	" ORDER BY total_ns DESC, calls DESC, 1 LIMIT :limit"

static const struct query_column launches_columns[] = {
	{ "pid", T(INTEGER) },	 { "comm", T(TEXT) },
	{ "fn", T(TEXT) },	 { "device", T(INTEGER) },
	{ "calls", T(INTEGER) }, { "errors", T(INTEGER) },
	{ "stack", T(STACK) },	 { 0 },
};
#define LAUNCHES_SQL                                                                               \
	"WITH s AS (SELECT process, fn, device, stack, sum(calls) AS calls, " ERRORS IN_WINDOW     \
	" AND freed = 0 AND kind IN " KIND(                                                        \
		"'launch'") " GROUP BY process, fn, device, stack)"                                \
			    " SELECT p.pid, p.comm, " FUNCTION                                     \
			    ", nullif(device, -1), calls, errors, stack"                           \
			    " FROM s JOIN process p ON p.id = s.process LEFT JOIN function f ON "  \
			    "f.id = s.fn"                                                          \
			    " ORDER BY calls DESC, p.pid, 3 LIMIT :limit"

static const struct query_column memory_columns[] = {
	{ "pid", T(INTEGER) },	      { "comm", T(TEXT) },	  { "state", T(TEXT) },
	{ "device", T(INTEGER) },     { "kind", T(TEXT) },	  { "live_bytes", T(BYTES) },
	{ "live_count", T(INTEGER) }, { "peak_bytes", T(BYTES) }, { 0 },
};
#define MEMORY_SQL                                                                                 \
	"SELECT p.pid, p.comm, CASE WHEN " RUNNING " THEN 'running' ELSE 'ended' END,"             \
	" nullif(m.device, -1), k.name, m.live_bytes, m.live_count, m.peak_bytes"                  \
	" FROM memory m JOIN process p ON p.id = m.process"                                        \
	" LEFT JOIN memory_kind k ON k.id = m.kind"                                                \
	" WHERE p.boot = :boot AND (:pid IS NULL OR p.pid = :pid)"                                 \
	" AND (:device IS NULL OR m.device = :device)"                                             \
	" ORDER BY " RUNNING                                                                       \
	" DESC, m.live_bytes DESC, m.peak_bytes DESC, p.pid, m.device, m.kind"                     \
	" LIMIT :limit"

static const struct query_column leaks_columns[] = {
	{ "pid", T(INTEGER) },	       { "comm", T(TEXT) },
	{ "kind", T(TEXT) },	       { "fn", T(TEXT) },
	{ "device", T(INTEGER) },      { "bytes", T(BYTES) },
	{ "count", T(INTEGER) },       { "oldest_ns", T(NANOSECONDS) },
	{ "allocations", T(INTEGER) }, { "frees", T(INTEGER) },
	{ "stack", T(STACK) },	       { 0 },
};
#define LEAKS_SQL                                                                                  \
	"WITH live AS (SELECT process, stack, fn, kind, device, sum(bytes) AS bytes,"              \
	" count(*) AS count, min(start_ns) AS oldest FROM allocation"                              \
	" WHERE start_ns <= :now - :min_age AND process IN (SELECT p.id FROM process p"            \
	" WHERE p.boot = :boot AND " RUNNING " AND (:pid IS NULL OR p.pid = :pid))"                \
	" AND kind IN (SELECT id FROM memory_kind WHERE counts)"                                   \
	" AND (:device IS NULL OR device = :device) GROUP BY process, stack, fn, kind, device),"   \
	" seen AS (SELECT process, stack, fn, device, sum(CASE WHEN freed THEN 0 ELSE calls END)"  \
	" AS allocations, sum(CASE WHEN freed THEN calls ELSE 0 END) AS frees FROM rollup"         \
	" WHERE boot = :boot AND kind IN " KIND(                                                   \
		"'alloc'") " AND result = 0"                                                       \
			   " AND (process, stack, fn) IN (SELECT process, stack, fn FROM live)"    \
			   " GROUP BY process, stack, fn, device)"                                 \
			   " SELECT p.pid, p.comm, k.name, coalesce(f.name, 'function ' || "       \
			   "live.fn),"                                                             \
			   " nullif(live.device, -1), live.bytes, live.count, :now - live.oldest," \
			   " max(live.count, coalesce(seen.allocations, 0)), "                     \
			   "coalesce(seen.frees, 0), live.stack"                                   \
			   " FROM live JOIN process p ON p.id = live.process"                      \
			   " LEFT JOIN seen USING (process, stack, fn, device)"                    \
			   " LEFT JOIN function f ON f.id = live.fn LEFT JOIN memory_kind k ON "   \
			   "k.id = live.kind"                                                      \
			   " ORDER BY live.bytes DESC, live.count DESC, p.pid LIMIT :limit"

static const struct query_column transfers_columns[] = {
	{ "pid", T(INTEGER) },
	{ "comm", T(TEXT) },
	{ "kind", T(TEXT) },
	{ "calls", T(INTEGER) },
	{ "errors", T(INTEGER) },
	{ "bytes", T(BYTES) },
	{ "total_ns", T(NANOSECONDS) },
	{ "bytes_per_s", T(BYTES_PER_SECOND) },
	{ 0 },
};
/* The rate is that of the calls that return when the copy is done: of the others only the time of
 * the call is known. */
#define TRANSFERS_SQL                                                                              \
	"WITH s AS (SELECT process, kind, detail, fn, result, sum(calls) AS calls, " ERRORS        \
	", sum(timed) AS timed, sum(total_ns) AS total_ns, sum(bytes) AS bytes" IN_WINDOW          \
	" AND freed = 0 AND kind IN " KIND(                                                        \
		"'copy', 'set'") " GROUP BY process, kind, detail, fn, result),"                   \
				 " t AS (SELECT process, coalesce(d.name, k.name) AS name, "       \
				 "calls, errors, timed, total_ns,"                                 \
				 " CASE WHEN result = 0 THEN bytes ELSE 0 END AS bytes,"           \
				 " result = 0 AND timed = calls AND f.name NOT LIKE '%Async%' AS " \
				 "whole"                                                           \
				 " FROM s LEFT JOIN function f ON f.id = s.fn LEFT JOIN kind k "   \
				 "ON k.id = s.kind"                                                \
				 " LEFT JOIN detail d ON d.kind = s.kind AND d.id = s.detail),"    \
				 " u AS (SELECT process, name, sum(calls) AS calls, sum(errors) "  \
				 "AS errors,"                                                      \
				 " sum(bytes) AS bytes, sum(timed) AS timed, sum(total_ns) AS "    \
				 "total_ns,"                                                       \
				 " sum(bytes) FILTER (WHERE whole) AS whole_bytes,"                \
				 " sum(total_ns) FILTER (WHERE whole) AS whole_ns FROM t GROUP "   \
				 "BY process, name)"                                               \
				 " SELECT p.pid, p.comm, name, calls, errors, bytes, CASE WHEN "   \
				 "timed > 0 THEN total_ns END,"                                    \
				 " CASE WHEN whole_ns > 0 THEN CAST(whole_bytes * 1e9 / whole_ns " \
				 "AS INTEGER) END"                                                 \
				 " FROM u JOIN process p ON p.id = u.process"                      \
				 " ORDER BY bytes DESC, calls DESC, p.pid, 3 LIMIT :limit"

static const struct query_column syncs_columns[] = {
	{ "pid", T(INTEGER) },
	{ "comm", T(TEXT) },
	{ "fn", T(TEXT) },
	{ "calls", T(INTEGER) },
	{ "errors", T(INTEGER) },
	{ "total_ns", T(NANOSECONDS) },
	{ "mean_ns", T(NANOSECONDS) },
	{ "max_ns", T(NANOSECONDS) },
	{ "stack", T(STACK) },
	{ 0 },
};
#define SYNCS_SQL                                                                                  \
	"WITH s AS (SELECT process, fn, stack, sum(calls) AS calls, " ERRORS ", " TIMES IN_WINDOW  \
	" AND freed = 0 AND kind IN " KIND(                                                        \
		"'sync'") " GROUP BY process, fn, stack)"                                          \
			  " SELECT p.pid, p.comm, " FUNCTION                                       \
			  ", calls, errors, CASE WHEN timed > 0 THEN total_ns END,"                \
			  " " MEAN ", CASE WHEN timed > 0 THEN max_ns END, stack"                  \
			  " FROM s JOIN process p ON p.id = s.process LEFT JOIN function f ON "    \
			  "f.id = s.fn"                                                            \
			  " ORDER BY total_ns DESC, calls DESC, p.pid, 3 LIMIT :limit"

static const struct query_column streams_columns[] = {
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
	{ "calls", T(INTEGER) },
	{ 0 },
};
#define STREAMS_SQL                                                                                \
	"WITH each AS (SELECT stream, kind, sum(calls) AS calls, sum(bytes) AS bytes" IN_WINDOW    \
	" AND freed = 0 GROUP BY second, process, kind, fn, detail, device, stream),"              \
	" s AS (SELECT stream, sum(calls) AS calls,"                                               \
	" sum(calls) FILTER (WHERE kind IN " KIND(                                                 \
		"'launch'") ") AS launches,"                                                       \
			    " sum(calls) FILTER (WHERE kind IN " KIND(                             \
				    "'copy', 'set'") ") AS transfers,"                             \
						     " sum(bytes) FILTER (WHERE kind IN " KIND(    \
							     "'copy', 'set'") ") AS bytes"         \
									      " FROM each WHERE "  \
									      "stream <> 0 GROUP " \
									      "BY stream)"         \
									      " SELECT st.id, "    \
									      "p.pid, p.comm, "    \
									      "nullif(st.device, " \
									      "-1), st.handle, "   \
									      "nullif(st.tid, 0)," \
									      " st.non_blocking, " \
									      "nullif(st.created_" \
									      "ns, 0), "           \
									      "nullif(st."         \
									      "destroyed_ns, 0),"  \
									      " coalesce("         \
									      "launches, 0), "     \
									      "coalesce("          \
									      "transfers, 0), "    \
									      "coalesce(bytes, "   \
									      "0), "               \
									      "coalesce(calls, 0)" \
									      " FROM stream st "   \
									      "JOIN process p ON " \
									      "p.id = st.process " \
									      "LEFT JOIN s ON "    \
									      "s.stream = st.id"   \
									      " WHERE p.boot = "   \
									      ":boot AND (:pid "   \
									      "IS NULL OR p.pid "  \
									      "= :pid)"            \
									      " AND (:device IS "  \
									      "NULL OR st.device " \
									      "= :device) AND "    \
									      "(:stream IS NULL "  \
									      "OR st.id = "        \
									      ":stream)"           \
									      " AND (s.stream IS " \
									      "NOT NULL OR "       \
									      "coalesce(st."       \
									      "destroyed_ns, 0) "  \
									      "= 0 AND " RUNNING   \
									      ")"                  \
									      " ORDER BY calls "   \
									      "DESC, st.id LIMIT " \
									      ":limit"

static const struct query_column states_columns[] = {
	{ "pid", T(INTEGER) },
	{ "comm", T(TEXT) },
	{ "device", T(INTEGER) },
	{ "stream", T(INTEGER) },
	{ "state", T(TEXT) },
	{ "start_ns", T(TIME) },
	{ "end_ns", T(TIME) },
	{ "duration_ns", T(NANOSECONDS) },
	{ 0 },
};
/* Stream 0 is the device itself. */
#define STATES_SQL                                                                                 \
	"SELECT p.pid, p.comm, nullif(s.device, -1), nullif(s.stream, 0), s.state, s.start_ns,"    \
	" s.end_ns, s.end_ns - s.start_ns FROM state s JOIN process p ON p.id = s.process"         \
	" WHERE p.boot = :boot AND s.start_ns <= :until AND s.end_ns >= :since"                    \
	" AND (:pid IS NULL OR p.pid = :pid) AND (:device IS NULL OR s.device = :device)"          \
	" AND (:stream IS NULL OR s.stream = :stream)"                                             \
	" ORDER BY s.start_ns, s.stream LIMIT :limit"

static const struct query_column errors_columns[] = {
	{ "pid", T(INTEGER) },	{ "comm", T(TEXT) },   { "fn", T(TEXT) },
	{ "code", T(INTEGER) }, { "name", T(TEXT) },   { "calls", T(INTEGER) },
	{ "last_ns", T(TIME) }, { "stack", T(STACK) }, { 0 },
};
#define ERRORS_SQL                                                                                 \
	"WITH s AS (SELECT process, fn, result, stack, sum(calls) AS calls, max(second) AS "       \
	"last" IN_WINDOW                                                                           \
	" AND freed = 0 AND result NOT IN (0, 600) GROUP BY process, fn, result, stack)"           \
	" SELECT p.pid, p.comm, " FUNCTION ", result, result_name(result), calls,"                 \
	" last * 1000000000, stack FROM s JOIN process p ON p.id = s.process"                      \
	" LEFT JOIN function f ON f.id = s.fn ORDER BY calls DESC, p.pid, 3, 4 LIMIT :limit"

static const struct query_column loss_columns[] = {
	{ "reason", T(TEXT) },
	{ "pid", T(INTEGER) },
	{ "count", T(INTEGER) },
	{ "first_ns", T(TIME) },
	{ "last_ns", T(TIME) },
	{ "text", T(TEXT) },
	{ 0 },
};
#define LOSS_SQL                                                                                   \
	"SELECT r.name, p.pid, sum(l.count), min(l.start_ns), max(l.end_ns), r.text"               \
	" FROM loss l JOIN loss_reason r ON r.id = l.reason LEFT JOIN process p ON p.id = "        \
	"l.process"                                                                                \
	" WHERE l.boot = :boot AND l.end_ns >= :since AND l.start_ns <= :until"                    \
	" AND (:pid IS NULL OR p.pid = :pid OR l.process = 0)"                                     \
	" GROUP BY l.reason, l.process ORDER BY l.reason, p.pid LIMIT :limit"

/* identifier of the columns and the SQL, name, text, options, default window, default limit */
#define QUERIES(X)                                                                                 \
	X(ps, PS, "ps", "processes that use CUDA now; calls of the window",                        \
	  QUERY_PID | QUERY_WINDOW, HOUR_NS, 1000)                                                 \
	X(processes, PROCESSES, "processes", "processes seen in the window, also ended ones",      \
	  QUERY_PID | QUERY_WINDOW, HOUR_NS, 1000)                                                 \
	X(apis, APIS, "apis", "calls, errors and time by driver function",                         \
	  QUERY_PID | QUERY_WINDOW, HOUR_NS, 1000)                                                 \
	X(launches, LAUNCHES, "launches", "launches by function and, where sampled, by stack",     \
	  QUERY_PID | QUERY_WINDOW, HOUR_NS, 100)                                                  \
	X(memory, MEMORY, "memory", "live and peak bytes by process, device and kind",             \
	  QUERY_PID | QUERY_DEVICE, 0, 1000)                                                       \
	X(leaks, LEAKS, "leaks", "live allocations older than --min-age (60s) by stack",           \
	  QUERY_PID | QUERY_DEVICE | QUERY_MIN_AGE, 0, 100)                                        \
	X(transfers, TRANSFERS, "transfers", "copies and sets by kind: bytes, time, rate",         \
	  QUERY_PID | QUERY_WINDOW, HOUR_NS, 1000)                                                 \
	X(syncs, SYNCS, "syncs", "who waits where and how long", QUERY_PID | QUERY_WINDOW,         \
	  HOUR_NS, 100)                                                                            \
	X(streams, STREAMS, "streams", "streams that live or were used in the window",             \
	  QUERY_PID | QUERY_WINDOW | QUERY_DEVICE | QUERY_STREAM, HOUR_NS, 1000)                   \
	X(states, STATES, "states", "state intervals of streams and devices",                      \
	  QUERY_PID | QUERY_WINDOW | QUERY_DEVICE | QUERY_STREAM, HOUR_NS / 60, 1000)              \
	X(errors, ERRORS, "errors", "failed calls by function, code and stack",                    \
	  QUERY_PID | QUERY_WINDOW, HOUR_NS, 1000)                                                 \
	X(loss, LOSS, "loss", "what is missing from the answers, and why",                         \
	  QUERY_PID | QUERY_WINDOW, 0, 1000)

const struct query query_table[] = {
#define X(columns, identifier, name, text, options, window_ns, limit)                              \
	{ name, text, options, window_ns, limit, columns##_columns, identifier##_SQL },
	QUERIES(X)
#undef X
		{ 0 },
};

const struct query *query_find(const char *name)
{
	for (const struct query *query = query_table; query->name; query++)
		if (strcmp(query->name, name) == 0)
			return query;
	return NULL;
}

const char *query_near(const char *name)
{
	for (const struct query *query = query_table; query->name; query++)
		if (distance_near(name, query->name))
			return query->name;
	return NULL;
}

void query_options_text(const struct query *query, char *out)
{
	static const struct {
		uint32_t option;
		const char *text;
	} texts[] = {
		{ QUERY_PID, "--pid" },		{ QUERY_WINDOW, "--since --until" },
		{ QUERY_MIN_AGE, "--min-age" }, { QUERY_STREAM, "--stream" },
		{ QUERY_DEVICE, "--device" },
	};

	snprintf(out, QUERY_OPTIONS_TEXT_MAX, "--limit");
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (!(query->options & texts[i].option))
			continue;
		strcat(out, " ");
		strcat(out, texts[i].text);
	}
}
