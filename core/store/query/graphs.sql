-- graph launches, how long they took, what ran in them
--
-- Which graph was launched is known from what ran. What is left are launches of the probe tier,
-- and those of which it is not known yet.
--
-- options: pid window device by-stack
-- window: 3600 s
-- limit: 100
-- about: calls times
-- records: kernels
-- nothing: No graph was launched
-- columns:
--   pid      id
--   comm     text
--   graph    id
--   launches integer
--   mean_ns  nanoseconds
--   p50_ns   nanoseconds
--   p99_ns   nanoseconds
--   max_ns   nanoseconds
--   kernels  integer
--   copies   integer
--   sets     integer
--   total_ns nanoseconds
--   bytes    bytes
--   stack    stack
WITH called AS (
	SELECT process, iif(:by = 1, stack, 0) AS by_stack,
		sum(calls - captured) AS calls
	FROM rollup
	WHERE @IN_WINDOW@
	AND (:device IS NULL OR device = :device)
	AND freed = 0 AND result = 0
	AND fn IN (SELECT id FROM function WHERE name LIKE 'cuGraphLaunch%')
	AND kind IN (SELECT id FROM kind WHERE name = 'launch')
	GROUP BY 1, 2
), ran AS (
	SELECT process, iif(:by = 1, stack, 0) AS by_stack, graph,
		coalesce(sum(count) FILTER (
			WHERE kind IN (SELECT id FROM kind WHERE name = 'kernel')), 0) AS kernels,
		coalesce(sum(count) FILTER (
			WHERE kind IN (SELECT id FROM kind WHERE name = 'copy')), 0) AS copies,
		coalesce(sum(count) FILTER (
			WHERE kind IN (SELECT id FROM kind WHERE name = 'set')), 0) AS sets,
		-- What ran in one of parts (enum work_graph) has rows of its own.
		coalesce(sum(total_ns) FILTER (WHERE NOT (
			kind IN (SELECT id FROM kind WHERE name = 'graph') AND detail = 1)), 0) AS ns,
		sum(bytes) AS bytes
	FROM work
	WHERE @IN_WINDOW@
	AND (:device IS NULL OR device = :device)
	AND (graph <> 0 OR kind IN (SELECT id FROM kind WHERE name = 'graph'))
	GROUP BY 1, 2, 3
), each AS (
	SELECT process, iif(:by = 1, stack, 0) AS by_stack, graph, bucket,
		sum(count) AS n, sum(total_ns) AS ns, min(min_ns) AS low,
		max(max_ns) AS high
	FROM work
	WHERE @IN_WINDOW@
	AND (:device IS NULL OR device = :device)
	AND kind IN (SELECT id FROM kind WHERE name = 'graph')
	GROUP BY 1, 2, 3, 4
), ranked AS (
	SELECT *, sum(n) OVER (alike ORDER BY bucket) AS upto,
		sum(n) OVER alike AS count
	FROM each
	WINDOW alike AS (PARTITION BY process, by_stack, graph)
), launched AS (
	SELECT process, by_stack, graph, count AS launches,
		sum(ns) / count AS mean, max(high) AS high,
		@MEDIAN@ AS p50,
		@P99@ AS p99
	FROM ranked
	GROUP BY process, by_stack, graph
), known AS (
	SELECT process, by_stack, sum(launches) AS launches
	FROM launched
	GROUP BY process, by_stack
), g AS (
	SELECT process, by_stack, graph, launches, mean, p50, p99, high,
		kernels, copies, sets, ns, bytes
	FROM ran LEFT JOIN launched USING (process, by_stack, graph)
	UNION ALL
	SELECT process, by_stack, NULL, calls - coalesce(launches, 0),
		NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
	FROM called LEFT JOIN known USING (process, by_stack)
	WHERE calls > coalesce(launches, 0)
) SELECT p.pid, p.comm, graph, launches, mean, p50, p99, high, kernels,
	copies, sets, ns, bytes, by_stack
FROM g
JOIN process p ON p.id = g.process
ORDER BY ns DESC, launches DESC, p.pid, graph
LIMIT :limit
