/* Table_gpu: the queries about what ran on the devices and when, which know something only where
 * the times are exact. They read `work` and `busy`, as kept as rollups are; `ranges` reads the ops.
 */
#include "core/store/query/table_sql.h"

/* clang-format off */

#define OF_DEVICE      " AND (:device IS NULL OR device = :device)"
#define BY_STACK       "iif(:by = 1, stack, 0)"

/* One that the database had no room for is known by its id. */
#define NAME_OF(row) \
	"coalesce(name.text, CASE WHEN " row ".name <> 0" \
	" THEN printf('kernel %016x', " row ".name) END)"
#define NAME NAME_OF("k")
#define TIME_OF(what)  "coalesce(sum(ns) FILTER (WHERE " what "), 0)"
/* What ran in it has rows of its own: enum work_graph. */
#define GRAPH_OF_PARTS "(" KIND_IN("'graph'") " AND detail = 1)"
#define COUNT_OF(kind) "coalesce(sum(count) FILTER (WHERE " KIND_IN(kind) "), 0)"

/* Where the op of a rank is in this bucket, its duration as far as it can be told: the first and
 * the last of a bucket are known, for the others stands their mean. */
#define AT_RANK(rank) \
	"max(CASE WHEN " rank " > upto - n AND " rank " <= upto THEN" \
	" CASE " rank " WHEN upto - n + 1 THEN low WHEN upto THEN high ELSE ns / n END END)"

const struct query query_table_gpu[] = {
	{
		.name = "kernels",
		.text = "kernels by name: device time, share, percentiles",
		.about = ABOUT_TIMES,
		.nothing = "No kernel ran",
		.records = TS_RECORD_KERNELS,
		.options = QUERY_PID | QUERY_WINDOW | QUERY_DEVICE | QUERY_BY_STACK |
			   QUERY_BY_STREAM,
		.window_ns = HOUR_NS,
		.limit = 100,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "stream", T(INTEGER) },
			{ "count", T(INTEGER) },
			{ "total_ns", T(NANOSECONDS) },
			{ "share", T(SHARE) },
			{ "mean_ns", T(NANOSECONDS) },
			{ "min_ns", T(NANOSECONDS) },
			{ "p50_ns", T(NANOSECONDS) },
			{ "p99_ns", T(NANOSECONDS) },
			{ "max_ns", T(NANOSECONDS) },
			{ "delay_ns", T(NANOSECONDS) },
			{ "sampled", T(INTEGER) },
			{ "name", T(TEXT) },
			{ "stack", T(STACK) }),
		.sql =
			"WITH w AS MATERIALIZED ("
				"SELECT * FROM work_sum(:boot, :first, :until / 1000000000, :pid,"
				" :device, :by)"
			"), whole AS ("
				"SELECT process, sum(total_ns) AS device_ns FROM w GROUP BY process"
			"), ranked AS ("
				"SELECT process, name, stack, stream, count AS n, total_ns AS ns,"
				" min_ns AS low, max_ns AS high, delay_ns AS delay,"
				" sum(count) OVER (alike ORDER BY bucket) AS upto,"
				" sum(count) OVER alike AS count"
				" FROM w"
				" WHERE kernel"
				" WINDOW alike AS (PARTITION BY process, name, stack, stream)"
			"), k AS ("
				"SELECT process, name, stack, stream, count, sum(ns) AS ns,"
				" min(low) AS low, max(high) AS high, sum(delay) AS delay,"
				" " AT_RANK("(count + 1) / 2") " AS p50,"
				" " AT_RANK("(count * 99 + 99) / 100") " AS p99"
				" FROM ranked"
				" GROUP BY process, name, stack, stream"
			/* What its stacks stand for; the durations are those of the samples. */
			"), e AS MATERIALIZED ("
				"SELECT * FROM stack_sum(:boot, :first, :until / 1000000000, :pid,"
				" :device)"
				" WHERE :by = 1"
			"), s AS ("
				"SELECT k.*, coalesce(e.count, k.count) AS launches,"
				" coalesce(e.total_ns, k.ns) AS total, e.sampled"
				" FROM k"
				" LEFT JOIN e ON e.process = k.process AND e.name = k.name"
				" AND e.stack = k.stack"
				" WHERE :by <> 1 OR e.count > 0"
			") SELECT p.pid, p.comm, nullif(stream, 0), launches, total,"
			" " SHARE("total", "device_ns") ", ns / count, low, p50, p99, high,"
			" delay / count, sampled, " NAME_OF("s") ", stack"
			" FROM s"
			" JOIN whole USING (process)"
			" JOIN process p ON p.id = s.process"
			" LEFT JOIN name ON name.id = s.name"
			" ORDER BY total DESC, launches DESC, p.pid, 14, stream"
			" LIMIT :limit",
	},
	{
		.name = "idle",
		.text = "device time: when kernels ran, and why none did",
		.about = ABOUT_STATES,
		.nothing = "No device was used",
		.records = TS_RECORD_KERNELS | TS_RECORD_COPIES,
		.options = QUERY_PID | QUERY_WINDOW | QUERY_DEVICE,
		.window_ns = HOUR_NS,
		.limit = 1000,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "device", T(INTEGER) },
			{ "state", T(TEXT) },
			{ "total_ns", T(NANOSECONDS) },
			{ "share", T(SHARE) },
			{ "observed_ns", T(NANOSECONDS) },
			{ "text", T(TEXT) }),
		.sql =
			"WITH s AS ("
				"SELECT process, device, state, sum(ns) AS ns"
				SUMS_OF("busy") OF_DEVICE
				" GROUP BY process, device, state"
			"), d AS ("
				"SELECT process, device, sum(ns) AS observed_ns"
				" FROM s"
				" GROUP BY process, device"
			"), t(name, number, text) AS (VALUES"
				" ('running', 1, 'a kernel ran'),"
				" ('copying', 2, 'no kernel ran, a copy or set did'),"
				" ('pending', 3, 'work was submitted and had not begun'),"
				" ('waiting', 4, 'work waited for an event or another stream'),"
				" ('syncing', 5, 'nothing was submitted, a thread waited for"
				" the device'),"
				" ('idle', 6, 'nothing was submitted')"
			") SELECT p.pid, p.comm, nullif(s.device, -1), t.name, s.ns,"
			" " SHARE("s.ns", "observed_ns") ", observed_ns, t.text"
			" FROM s"
			" JOIN d USING (process, device)"
			" JOIN process p ON p.id = s.process"
			" JOIN detail n ON n.id = s.state"
			" AND n.kind = (SELECT id FROM kind WHERE name = 'state')"
			" JOIN t ON t.name = n.name"
			" ORDER BY p.pid, p.id, s.device, t.number"
			" LIMIT :limit",
	},
	{
		.name = "overlap",
		.text = "copies behind kernels, and kernels at once",
		.about = ABOUT_STATES,
		.nothing = "No device was used",
		.records = TS_RECORD_KERNELS | TS_RECORD_COPIES,
		.options = QUERY_PID | QUERY_WINDOW | QUERY_DEVICE,
		.window_ns = HOUR_NS,
		.limit = 1000,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "device", T(INTEGER) },
			{ "observed_ns", T(NANOSECONDS) },
			{ "both_ns", T(NANOSECONDS) },
			{ "kernels_ns", T(NANOSECONDS) },
			{ "copies_ns", T(NANOSECONDS) },
			{ "neither_ns", T(NANOSECONDS) },
			{ "hidden", T(SHARE) },
			{ "concurrent_ns", T(NANOSECONDS) },
			{ "mean_kernels", T(REAL) },
			{ "max_kernels", T(INTEGER) }),
		.sql =
			"WITH s AS ("
				"SELECT process, device, sum(ns) AS observed,"
				" " TIME_OF("kernels AND copies") " AS both,"
				" " TIME_OF("kernels AND NOT copies") " AS kernels_only,"
				" " TIME_OF("copies AND NOT kernels") " AS copies_only,"
				" " TIME_OF("NOT kernels AND NOT copies") " AS neither,"
				" " TIME_OF("kernels >= 2") " AS concurrent,"
				" sum(kernels * ns) AS kernel_ns, max(kernels) AS most"
				SUMS_OF("busy") OF_DEVICE
				" GROUP BY process, device"
			") SELECT p.pid, p.comm, nullif(s.device, -1), observed, both,"
			" kernels_only, copies_only, neither,"
			" " SHARE("both", "both + copies_only") ", concurrent,"
			" CASE WHEN both + kernels_only > 0"
			" THEN round(1.0 * kernel_ns / (both + kernels_only), 2) END, most"
			" FROM s"
			" JOIN process p ON p.id = s.process"
			" ORDER BY p.pid, p.id, s.device"
			" LIMIT :limit",
	},
	{
		/* Which graph was launched is known from what ran. What is left are launches of
		 * the probe tier, and those of which it is not known yet. */
		.name = "graphs",
		.text = "graph launches, how long they took, what ran in them",
		.about = ABOUT_CALLS | ABOUT_TIMES,
		.nothing = "No graph was launched",
		.records = TS_RECORD_KERNELS,
		.options = QUERY_PID | QUERY_WINDOW | QUERY_DEVICE | QUERY_BY_STACK,
		.window_ns = HOUR_NS,
		.limit = 100,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "graph", T(INTEGER) },
			{ "launches", T(INTEGER) },
			{ "mean_ns", T(NANOSECONDS) },
			{ "p50_ns", T(NANOSECONDS) },
			{ "p99_ns", T(NANOSECONDS) },
			{ "max_ns", T(NANOSECONDS) },
			{ "kernels", T(INTEGER) },
			{ "copies", T(INTEGER) },
			{ "sets", T(INTEGER) },
			{ "total_ns", T(NANOSECONDS) },
			{ "bytes", T(BYTES) },
			{ "stack", T(STACK) }),
		.sql =
			"WITH called AS ("
				"SELECT process, " BY_STACK " AS by_stack,"
				" sum(calls - captured) AS calls"
				SUMS_OF("rollup") OF_DEVICE " AND freed = 0 AND result = 0"
				" AND fn IN"
				" (SELECT id FROM function WHERE name LIKE 'cuGraphLaunch%')"
				" AND " KIND_IN("'launch'")
				" GROUP BY 1, 2"
			"), ran AS ("
				"SELECT process, " BY_STACK " AS by_stack, graph,"
				" " COUNT_OF("'kernel'") " AS kernels,"
				" " COUNT_OF("'copy'") " AS copies,"
				" " COUNT_OF("'set'") " AS sets,"
				" coalesce(sum(total_ns) FILTER (WHERE NOT " GRAPH_OF_PARTS "), 0)"
				" AS ns, sum(bytes) AS bytes"
				SUMS_OF("work") OF_DEVICE
				" AND (graph <> 0 OR " KIND_IN("'graph'") ")"
				" GROUP BY 1, 2, 3"
			"), each AS ("
				"SELECT process, " BY_STACK " AS by_stack, graph, bucket,"
				" sum(count) AS n, sum(total_ns) AS ns, min(min_ns) AS low,"
				" max(max_ns) AS high"
				SUMS_OF("work") OF_DEVICE
				" AND " KIND_IN("'graph'")
				" GROUP BY 1, 2, 3, 4"
			"), ranked AS ("
				"SELECT *, sum(n) OVER (alike ORDER BY bucket) AS upto,"
				" sum(n) OVER alike AS count"
				" FROM each"
				" WINDOW alike AS (PARTITION BY process, by_stack, graph)"
			"), launched AS ("
				"SELECT process, by_stack, graph, count AS launches,"
				" sum(ns) / count AS mean, max(high) AS high,"
				" " AT_RANK("(count + 1) / 2") " AS p50,"
				" " AT_RANK("(count * 99 + 99) / 100") " AS p99"
				" FROM ranked"
				" GROUP BY process, by_stack, graph"
			"), known AS ("
				"SELECT process, by_stack, sum(launches) AS launches"
				" FROM launched"
				" GROUP BY process, by_stack"
			"), g AS ("
				"SELECT process, by_stack, graph, launches, mean, p50, p99, high,"
				" kernels, copies, sets, ns, bytes"
				" FROM ran LEFT JOIN launched USING (process, by_stack, graph)"
				" UNION ALL"
				" SELECT process, by_stack, NULL, calls - coalesce(launches, 0),"
				" NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL"
				" FROM called LEFT JOIN known USING (process, by_stack)"
				" WHERE calls > coalesce(launches, 0)"
			") SELECT p.pid, p.comm, graph, launches, mean, p50, p99, high, kernels,"
			" copies, sets, ns, bytes, by_stack"
			" FROM g"
			" JOIN process p ON p.id = g.process"
			" ORDER BY ns DESC, launches DESC, p.pid, graph"
			" LIMIT :limit",
	},
	{
		.name = "ranges",
		.text = "NVTX ranges and marks by name",
		.about = ABOUT_TIMES,
		.nothing = "No NVTX range was seen",
		.records = TS_RECORD_RANGES,
		.options = QUERY_PID | QUERY_WINDOW,
		.window_ns = HOUR_NS,
		.limit = 100,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "count", T(INTEGER) },
			{ "total_ns", T(NANOSECONDS) },
			{ "mean_ns", T(NANOSECONDS) },
			{ "min_ns", T(NANOSECONDS) },
			{ "max_ns", T(NANOSECONDS) },
			{ "name", T(TEXT) }),
		.sql =
			"WITH r AS ("
				"SELECT process, name, count(*) AS count,"
				" sum(duration_ns) AS ns, avg(duration_ns) AS mean,"
				" min(duration_ns) AS low, max(duration_ns) AS high"
				" FROM op"
				" WHERE boot = :boot AND kind = 'range'"
				" AND start_ns BETWEEN :since AND :until"
				" AND (:pid IS NULL OR process IN " PROCESSES ")"
				" GROUP BY process, name"
			") SELECT p.pid, p.comm, count, ns, CAST(mean AS INTEGER), low, high, name"
			" FROM r"
			" JOIN process p ON p.id = r.process"
			" ORDER BY ns DESC, count DESC, p.pid, name"
			" LIMIT :limit",
	},
	{
		.name = "critical-path",
		.text = "what the program waited for, step by step, from its begin to its end",
		.about = ABOUT_CALLS | ABOUT_BOUNDS | ABOUT_TIMES,
		.nothing = "Nothing was called",
		.records = TS_RECORD_KERNELS | TS_RECORD_COPIES,
		.options = QUERY_PID | QUERY_WINDOW | QUERY_BY_STACK,
		.window_ns = 10 * SECOND_NS,
		.limit = 100,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "what", T(TEXT) },
			{ "count", T(INTEGER) },
			{ "total_ns", T(NANOSECONDS) },
			{ "share", T(SHARE) },
			{ "idle_ns", T(NANOSECONDS) },
			{ "name", T(TEXT) },
			{ "stack", T(STACK) }),
		.sql =
			"WITH k AS MATERIALIZED ("
				"SELECT process, what, kind, detail, fn, name,"
				" " BY_STACK " AS stack,"
				" sum(count) AS count, sum(ns) AS ns, sum(idle_ns) AS idle"
				" FROM critical_path(:boot, :since, :until, :pid)"
				" GROUP BY process, what, kind, detail, fn, name, 7"
			"), whole AS ("
				"SELECT process, sum(ns) AS path_ns FROM k GROUP BY process"
			") SELECT p.pid, p.comm, what, count, ns, " SHARE("ns", "path_ns") ", idle,"
			" coalesce(" NAME ", d.name, f.name), stack"
			" FROM k"
			" JOIN whole USING (process)"
			" JOIN process p ON p.id = k.process"
			" LEFT JOIN name ON name.id = k.name"
			" LEFT JOIN detail d ON d.kind = k.kind AND d.id = k.detail"
			" LEFT JOIN function f ON f.id = k.fn"
			" ORDER BY ns DESC, count DESC, p.pid, what, 8"
			" LIMIT :limit",
	},
	{
		.name = "pools",
		.text = "memory pools: what they hold, and what of it is used",
		.about = ABOUT_POOLS,
		.nothing = "No memory pool was used",
		.records = TS_RECORD_MEMORY,
		.options = QUERY_PID | QUERY_DEVICE,
		.limit = 1000,
		.column = COLUMNS(
			{ "pid", T(INTEGER) },
			{ "comm", T(TEXT) },
			{ "state", T(TEXT) },
			{ "device", T(INTEGER) },
			{ "pool", T(HANDLE) },
			{ "kind", T(TEXT) },
			{ "reserved_bytes", T(BYTES) },
			{ "used_bytes", T(BYTES) },
			{ "used", T(SHARE) },
			{ "threshold_bytes", T(BYTES) },
			{ "peak_bytes", T(BYTES) },
			{ "peak_used_bytes", T(BYTES) },
			{ "told_ns", T(TIME) }),
		.sql =
			"SELECT p.pid, p.comm, " STATE ", nullif(m.device, -1), m.address, k.name,"
			" m.bytes, m.used_bytes, " SHARE("m.used_bytes", "m.bytes") ","
			" m.threshold_bytes, m.peak_bytes, m.peak_used_bytes, m.told_ns"
			" FROM pool m"
			" JOIN process p ON p.id = m.process"
			" LEFT JOIN pool_kind k ON k.id = m.kind"
			" WHERE p.boot = :boot AND " OF_PID
			" AND (:device IS NULL OR m.device = :device)"
			" ORDER BY " RUNNING " DESC, m.bytes DESC, m.peak_bytes DESC, p.pid,"
			" m.address"
			" LIMIT :limit",
	},
	{
		.name = "devices",
		.text = "devices that exact processes have, and who uses them",
		.about = ABOUT_POOLS,
		.nothing = "No device was seen",
		.records = TS_RECORDS_ALL,
		.options = QUERY_PID | QUERY_DEVICE,
		.limit = 1000,
		.column = COLUMNS(
			{ "device", T(INTEGER) },
			{ "name", T(TEXT) },
			{ "uuid", T(TEXT) },
			{ "memory_bytes", T(BYTES) },
			{ "multiprocessors", T(INTEGER) },
			{ "clock_khz", T(INTEGER) },
			{ "processes", T(INTEGER) },
			{ "pids", T(TEXT) }),
		.sql =
			"WITH d AS ("
				"SELECT ordinal, uuid, max(d.name) AS name,"
				" max(memory_bytes) AS memory_bytes,"
				" max(multiprocessors) AS multiprocessors,"
				" max(clock_khz) AS clock_khz,"
				" count(*) FILTER (WHERE " RUNNING ") AS processes,"
				" group_concat(p.pid, ' ') FILTER (WHERE " RUNNING ") AS pids"
				" FROM (SELECT * FROM device ORDER BY process) d"
				" JOIN process p ON p.id = d.process"
				" WHERE p.boot = :boot AND " OF_PID
				" AND (:device IS NULL OR ordinal = :device)"
				" GROUP BY ordinal, uuid"
			") SELECT ordinal, name.text, uuid, memory_bytes, multiprocessors,"
			" clock_khz, processes, pids"
			" FROM d"
			" LEFT JOIN name ON name.id = d.name"
			" ORDER BY ordinal, uuid"
			" LIMIT :limit",
	},
	{ 0 },
};
/* clang-format on */
