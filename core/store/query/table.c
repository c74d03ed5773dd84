/* Table: the queries, a row each. Most read the rollups, whose grain is a second, and a minute for
 * what is older than two, so that their cost does not grow with the number of calls. They see the
 * current boot only. CUDA_ERROR_NOT_READY (600) is an answer, not an error. */
#include "core/store/query/table.h"

#include <stdio.h>
#include <string.h>

#include "core/base/array.h"
#include "core/base/distance.h"
#include "core/store/query/table_sql.h"

/* clang-format off */

/* What the statements share. */
#define USER           "coalesce(p.user, CAST(p.uid AS TEXT))"
#define ON_DEVICE      "('device', 'managed', 'pool', 'physical')"

/* Peaks of different kinds need not have been at one time: their sum is a bound. */
#define JOIN_MEMORY \
	" LEFT JOIN (" \
		"SELECT m.process, sum(live_bytes) AS live_bytes, sum(peak_bytes) AS peak_bytes" \
		" FROM memory m JOIN memory_kind k ON k.id = m.kind" \
		" WHERE k.name IN " ON_DEVICE \
		" GROUP BY m.process" \
	") m ON m.process = p.id"

/* Grouped in the order of the rollups' key first, which needs no sorting, then over the seconds. */
#define JOIN_CALLS \
	" LEFT JOIN (" \
		"SELECT process, sum(calls) AS calls, sum(errors) AS errors" \
		" FROM (" \
			"SELECT process, sum(calls) AS calls, " ERRORS IN_WINDOW \
			" AND freed = 0" \
			" GROUP BY second, process" \
		") GROUP BY process" \
	") c ON c.process = p.id"

/* How a process is seen now, from its row of `collect`. */
#define JOIN_COLLECT \
	" LEFT JOIN (" \
		"SELECT c.process, s.name AS state, since_ns, taken," \
		" " SHARE("busy_ns - own_ns", "wall_ns") " AS cost," \
		" " SHARE("own_ns", "wall_ns") " AS own" \
		" FROM collect c LEFT JOIN collect_state s ON s.id = c.state" \
		" WHERE until_ns IS NULL" \
	") x ON x.process = p.id"
#define TIER \
	"CASE WHEN x.process IS NULL THEN 'probe'" \
	" WHEN x.state = 'paused' THEN 'paused' ELSE 'exact' END"

/* What is missing of a process, in calls and records: not what counts other things. */
#define JOIN_LOST \
	" LEFT JOIN (" \
		"SELECT process, sum(count) AS lost" \
		" FROM loss" \
		" WHERE boot = :boot AND end_ns >= :since AND start_ns <= :until" \
		" AND reason IN (SELECT id FROM loss_reason WHERE name NOT IN (" \
		"'stack', 'stack-sampled', 'process', 'unknown-free', 'unbound', 'gap', 'unread'," \
		" 'mapping', 'untimed', 'no-call', 'duplicate', 'late', 'before', 'paused'," \
		" 'budget'))" \
		" GROUP BY process" \
	") l ON l.process = p.id"

const struct query query_table_host[] = {
	{
		.name = "ps",
		.text = "processes that use CUDA now; calls of the window",
		.about = ABOUT_CALLS | ABOUT_MEMORY | ABOUT_PROCESSES,
		.nothing = "No process uses CUDA",
		.running = true,
		.options = QUERY_PID | QUERY_WINDOW,
		.window_ns = HOUR_NS,
		.limit = 1000,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "user", T(TEXT) },
			{ "comm", T(TEXT) },
			{ "container", T(TEXT) },
			{ "tier", T(TEXT) },
			{ "since_ns", T(TIME) },
			{ "cost", T(SHARE) },
			{ "own_cost", T(SHARE) },
			{ "records", T(INTEGER) },
			{ "lost", T(INTEGER) },
			{ "live_bytes", T(BYTES) },
			{ "peak_bytes", T(BYTES) },
			{ "calls", T(INTEGER) },
			{ "errors", T(INTEGER) },
			{ "command", T(TEXT) }),
		.sql =
			"SELECT p.pid, " USER ", p.comm, p.container, " TIER ","
			" x.since_ns, x.cost, x.own, x.taken, coalesce(l.lost, 0),"
			" coalesce(m.live_bytes, 0), coalesce(m.peak_bytes, 0),"
			" coalesce(c.calls, 0), coalesce(c.errors, 0), p.command"
			" FROM process p" JOIN_MEMORY JOIN_CALLS JOIN_COLLECT JOIN_LOST
			" WHERE p.boot = :boot AND " RUNNING " AND " OF_PID
			" ORDER BY 11 DESC, 13 DESC, p.pid"
			" LIMIT :limit",
	},
	{
		.name = "processes",
		.text = "processes seen in the window, also ended ones",
		.about = ABOUT_CALLS | ABOUT_MEMORY | ABOUT_PROCESSES,
		.nothing = "No process used CUDA",
		.options = QUERY_PID | QUERY_WINDOW,
		.window_ns = HOUR_NS,
		.limit = 1000,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "ns_pid", T(INTEGER) },
			{ "ppid", T(INTEGER) },
			{ "user", T(TEXT) },
			{ "comm", T(TEXT) },
			{ "state", T(TEXT) },
			{ "tier", T(TEXT) },
			{ "first_ns", T(TIME) },
			{ "exit_ns", T(TIME) },
			{ "exit_code", T(INTEGER) },
			{ "container", T(TEXT) },
			{ "cgroup", T(TEXT) },
			{ "live_bytes", T(BYTES) },
			{ "peak_bytes", T(BYTES) },
			{ "calls", T(INTEGER) },
			{ "errors", T(INTEGER) },
			{ "command", T(TEXT) }),
		.sql =
			"SELECT p.pid, p.ns_pid, p.ppid, " USER ", p.comm, " STATE ","
			" CASE WHEN " RUNNING " THEN " TIER " END, p.first_ns,"
			" nullif(p.exit_ns, 0), CASE WHEN NOT " RUNNING " THEN p.exit_code END,"
			" p.container, p.cgroup,"
			" coalesce(m.live_bytes, 0), coalesce(m.peak_bytes, 0),"
			" coalesce(c.calls, 0), coalesce(c.errors, 0), p.command"
			" FROM process p" JOIN_MEMORY JOIN_CALLS JOIN_COLLECT
			" WHERE p.boot = :boot AND p.first_ns <= :until"
			" AND (" RUNNING " OR p.exit_ns >= :since) AND " OF_PID
			" ORDER BY " RUNNING " DESC, p.first_ns DESC"
			" LIMIT :limit",
	},
	{
		.name = "apis",
		.text = "calls, errors and time by driver function",
		.about = ABOUT_CALLS,
		.nothing = "No call was made",
		.options = QUERY_PID | QUERY_WINDOW,
		.window_ns = HOUR_NS,
		.limit = 1000,
		.column = COLUMNS(
			{ "fn", T(TEXT) },
			{ "kind", T(TEXT) },
			{ "calls", T(INTEGER) },
			{ "errors", T(INTEGER) },
			{ "total_ns", T(NANOSECONDS) },
			{ "mean_ns", T(NANOSECONDS) },
			{ "min_ns", T(NANOSECONDS) },
			{ "max_ns", T(NANOSECONDS) },
			{ "bytes", T(BYTES) }),
		.sql =
			"WITH each AS ("
				"SELECT kind, fn, sum(calls) AS calls, " ERRORS ", " TIMES ","
				" sum(bytes) AS bytes" IN_WINDOW
				" AND freed = 0"
				" GROUP BY second, process, kind, fn"
			"), s AS ("
				"SELECT kind, fn, sum(calls) AS calls, sum(errors) AS errors,"
				" sum(timed) AS timed, sum(total_ns) AS total_ns,"
				" min(min_ns) AS min_ns, max(max_ns) AS max_ns, sum(bytes) AS bytes"
				" FROM each"
				" GROUP BY kind, fn"
			") SELECT " FUNCTION ", k.name, calls, errors,"
			" " TIMED("total_ns") ", " TIMED("total_ns / timed") ","
			" min_ns, " TIMED("max_ns") ", bytes"
			" FROM s"
			" LEFT JOIN function f ON f.id = s.fn"
			" LEFT JOIN kind k ON k.id = s.kind"
			" ORDER BY total_ns DESC, calls DESC, 1"
			" LIMIT :limit",
	},
	{
		.name = "launches",
		.text = "launches by function and, where sampled, by stack",
		.about = ABOUT_CALLS | ABOUT_STACKS | ABOUT_SAMPLES,
		.nothing = "Nothing was launched",
		.options = QUERY_PID | QUERY_WINDOW,
		.window_ns = HOUR_NS,
		.limit = 100,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "fn", T(TEXT) },
			{ "device", T(INTEGER) },
			{ "calls", T(INTEGER) },
			{ "errors", T(INTEGER) },
			{ "captured", T(INTEGER) },
			{ "stack", T(STACK) }),
		.sql =
			"WITH s AS ("
				"SELECT process, fn, device, stack, sum(calls) AS calls,"
				" " ERRORS ", sum(captured) AS captured" IN_WINDOW
				" AND freed = 0 AND " KIND_IN("'launch'")
				" GROUP BY process, fn, device, stack"
			") SELECT p.pid, p.comm, " FUNCTION ", nullif(device, -1),"
			" calls, errors, captured, stack"
			" FROM s"
			" JOIN process p ON p.id = s.process"
			" LEFT JOIN function f ON f.id = s.fn"
			" ORDER BY calls DESC, p.pid, 3"
			" LIMIT :limit",
	},
	{
		.name = "memory",
		.text = "live and peak bytes by process, device and kind",
		.about = ABOUT_MEMORY | ABOUT_POOLS,
		.nothing = "No memory was allocated",
		.options = QUERY_PID | QUERY_DEVICE | QUERY_BY_STACK,
		.limit = 1000,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "state", T(TEXT) },
			{ "device", T(INTEGER) },
			{ "kind", T(TEXT) },
			{ "live_bytes", T(BYTES) },
			{ "live_count", T(INTEGER) },
			{ "peak_bytes", T(BYTES) },
			{ "reserved_bytes", T(BYTES) },
			{ "stack", T(STACK) }),
		.sql =
			"WITH held AS ("
				"SELECT process, device,"
				" (SELECT id FROM memory_kind WHERE name = 'pool') AS kind,"
				" sum(bytes) AS bytes"
				" FROM pool"
				" WHERE kind = (SELECT id FROM pool_kind WHERE name = 'own')"
				" GROUP BY process, device"
			"), m AS ("
				"SELECT process, device, kind,"
				" coalesce(live_bytes, 0) AS live_bytes,"
				" coalesce(live_count, 0) AS live_count,"
				" coalesce(peak_bytes, 0) AS peak_bytes, bytes, NULL AS stack"
				" FROM memory FULL JOIN held USING (process, device, kind)"
				" WHERE :by <> 1"
				" UNION ALL "
				"SELECT process, device, kind, sum(bytes), count(*), NULL, NULL,"
				" stack"
				" FROM allocation"
				" WHERE :by = 1 AND process IN (SELECT p.id FROM process p"
				" WHERE p.boot = :boot AND " RUNNING " AND " OF_PID ")"
				" GROUP BY process, device, kind, stack"
			") SELECT p.pid, p.comm, " STATE ", nullif(m.device, -1), k.name,"
			" m.live_bytes, m.live_count, m.peak_bytes, m.bytes, m.stack"
			" FROM m"
			" JOIN process p ON p.id = m.process"
			" LEFT JOIN memory_kind k ON k.id = m.kind"
			" WHERE p.boot = :boot AND " OF_PID
			" AND (:device IS NULL OR m.device = :device)"
			" ORDER BY " RUNNING " DESC, m.live_bytes DESC, m.peak_bytes DESC,"
			" p.pid, m.device, m.kind"
			" LIMIT :limit",
	},
	{
		.name = "leaks",
		.text = "live allocations older than --min-age (60s) by stack",
		.about = ABOUT_MEMORY | ABOUT_STACKS,
		.nothing = "No memory is live",
		.running = true,
		.options = QUERY_PID | QUERY_DEVICE | QUERY_MIN_AGE,
		.limit = 100,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "kind", T(TEXT) },
			{ "fn", T(TEXT) },
			{ "device", T(INTEGER) },
			{ "bytes", T(BYTES) },
			{ "count", T(INTEGER) },
			{ "oldest_ns", T(NANOSECONDS) },
			{ "allocations", T(INTEGER) },
			{ "frees", T(INTEGER) },
			{ "stack", T(STACK) }),
		.sql =
			"WITH live AS ("
				"SELECT process, stack, fn, kind, device, sum(bytes) AS bytes,"
				" count(*) AS count, min(start_ns) AS oldest"
				" FROM allocation"
				" WHERE start_ns <= :now - :min_age"
				" AND process IN (SELECT p.id FROM process p"
				" WHERE p.boot = :boot AND " RUNNING " AND " OF_PID ")"
				" AND kind IN (SELECT id FROM memory_kind WHERE counts)"
				" AND (:device IS NULL OR device = :device)"
				" GROUP BY process, stack, fn, kind, device"
			"), seen AS ("
				"SELECT process, stack, fn, device,"
				" sum(CASE WHEN freed THEN 0 ELSE calls - captured END)"
				" AS allocations,"
				" sum(CASE WHEN freed THEN calls ELSE 0 END) AS frees"
				" FROM rollup"
				" WHERE boot = :boot AND " KIND_IN("'alloc'") " AND result = 0"
				" AND (process, stack, fn) IN (SELECT process, stack, fn FROM live)"
				" GROUP BY process, stack, fn, device"
			") SELECT p.pid, p.comm, k.name, coalesce(f.name, 'function ' || live.fn),"
			" nullif(live.device, -1), live.bytes, live.count, :now - live.oldest,"
			" max(live.count, coalesce(seen.allocations, 0)), coalesce(seen.frees, 0),"
			" live.stack"
			" FROM live"
			" JOIN process p ON p.id = live.process"
			" LEFT JOIN seen USING (process, stack, fn, device)"
			" LEFT JOIN function f ON f.id = live.fn"
			" LEFT JOIN memory_kind k ON k.id = live.kind"
			" ORDER BY live.bytes DESC, live.count DESC, p.pid"
			" LIMIT :limit",
	},
	{ 0 },
};
/* clang-format on */

static const struct query *const tables[] = { query_table_host, query_table_stream,
					      query_table_loss, query_table_gpu };

const struct query *query_at(size_t number)
{
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		for (const struct query *query = tables[i]; query->name; query++)
			if (number-- == 0)
				return query;
	return NULL;
}

const struct query *query_find(const char *name)
{
	const struct query *query;

	for (size_t i = 0; (query = query_at(i)); i++)
		if (strcmp(query->name, name) == 0)
			return query;
	return NULL;
}

const char *query_near(const char *name)
{
	const struct query *query;

	for (size_t i = 0; (query = query_at(i)); i++)
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
		{ QUERY_PID, "--pid" },
		{ QUERY_WINDOW, "--since --until" },
		{ QUERY_MIN_AGE, "--min-age" },
		{ QUERY_STREAM, "--stream" },
		{ QUERY_DEVICE, "--device" },
		{ QUERY_BY_STACK, "--by-stack" },
		{ QUERY_BY_STREAM, "--by-stream" },
	};

	snprintf(out, QUERY_OPTIONS_TEXT_MAX, "--limit");
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		if (!(query->options & texts[i].option))
			continue;
		strcat(out, " ");
		strcat(out, texts[i].text);
	}
}
