-- copies and sets by kind: bytes, time, rate
--
-- Copies of graphs have no calls, so their bytes come from `work`, as do all where calls were
-- lost. Where the device's own times are known, they tell the rate. Else it is that of the calls
-- that return when the copy is done: of the others only the time of the call is known.
--
-- options: pid window by-stack by-place
-- window: 3600 s
-- limit: 1000
-- about: calls times
-- nothing: Nothing was copied or set
-- columns:
--   pid         id
--   comm        text
--   kind        text
--   calls       integer
--   errors      integer
--   captured    integer
--   bytes       bytes
--   total_ns    nanoseconds
--   bytes_per_s bytes_per_second
--   times       text
--   exact       integer
--   where       text
--   stack       stack
WITH s AS MATERIALIZED (
	SELECT process, kind, detail, fn, result, stack,
		sum(calls) AS calls, @ERRORS@, sum(captured) AS captured,
		sum(timed) AS timed,
		sum(total_ns) AS total_ns, sum(bytes) AS bytes
	FROM rollup
	WHERE @IN_WINDOW@
	AND freed = 0 AND kind IN (SELECT id FROM kind WHERE name IN ('copy', 'set'))
	GROUP BY process, kind, detail, fn, result, stack
), t AS (
	SELECT process, s.kind, detail, iif(:by = 0, 0, stack_key(stack, :by)) AS stack, calls, errors, captured, timed,
		total_ns, bytes,
		result = 0 AND timed = calls AND f.name NOT LIKE '%Async%'
		AS whole
	FROM s
	LEFT JOIN function f ON f.id = s.fn
), u AS (
	SELECT process, kind, iif(kind IN (SELECT id FROM kind WHERE name = 'copy'), detail, 0)
		AS direction, stack,
		sum(calls) AS calls, sum(errors) AS errors,
		sum(captured) AS captured, sum(bytes) AS bytes,
		CASE WHEN sum(timed) > 0 THEN sum(total_ns) END AS total_ns,
		sum(bytes) FILTER (WHERE whole) AS whole_bytes,
		sum(total_ns) FILTER (WHERE whole) AS whole_ns
	FROM t
	GROUP BY 1, 2, 3, 4
), e AS (
	SELECT process, kind, iif(kind IN (SELECT id FROM kind WHERE name = 'copy'), detail, 0)
		AS direction, iif(:by = 0, 0, stack_key(stack, :by)) AS stack,
		sum(count) AS count, sum(bytes) AS bytes,
		sum(bytes) FILTER (WHERE graph <> 0) AS graph_bytes,
		sum(total_ns) AS total_ns
	FROM work
	WHERE @IN_WINDOW@
	AND kind IN (SELECT id FROM kind WHERE name IN ('copy', 'set'))
	GROUP BY 1, 2, 3, 4
-- Where most of its samples come from.
), seen AS (
	SELECT process, kind, direction, stack, max(calls)
	FROM (
		SELECT process, kind, iif(kind IN (SELECT id FROM kind WHERE name = 'copy'), detail, 0)
			AS direction, stack, sum(calls) AS calls
		FROM s
		WHERE :by = 0 AND stack <> 0
		GROUP BY 1, 2, 3, 4
	)
	GROUP BY 1, 2, 3
), x AS (
	SELECT process, kind, direction, stack, coalesce(u.calls, 0) AS calls,
		coalesce(u.errors, 0) AS errors,
		coalesce(u.captured, 0) AS captured,
		max(coalesce(u.bytes, 0) + coalesce(graph_bytes, 0),
		coalesce(e.bytes, 0)) AS bytes,
		coalesce(e.total_ns, u.total_ns) AS total_ns,
		CASE WHEN e.total_ns > 0 THEN CAST(e.bytes * 1e9 / e.total_ns AS INTEGER)
		WHEN e.count IS NULL AND whole_ns > 0
		THEN CAST(whole_bytes * 1e9 / whole_ns AS INTEGER) END AS rate,
		coalesce(e.count, 0) AS exact
	FROM u FULL JOIN e USING (process, kind, direction, stack)
) SELECT p.pid, p.comm, coalesce(d.name, k.name), calls, errors, captured,
	bytes, total_ns, rate, iif(exact > 0, 'exact', 'call'), exact,
	stack_where(coalesce(seen.stack, x.stack)), iif(:by > 2, NULL, x.stack)
FROM x
JOIN process p ON p.id = x.process
LEFT JOIN seen ON seen.process = x.process AND seen.kind = x.kind
AND seen.direction = x.direction
LEFT JOIN kind k ON k.id = x.kind
LEFT JOIN detail d ON d.kind = x.kind AND d.id = x.direction
ORDER BY 7 DESC, 4 DESC, p.pid, 3
LIMIT :limit
