-- calls, errors and time by driver function
--
-- options: pid window
-- window: 3600 s
-- limit: 1000
-- about: calls
-- nothing: No call was made
-- search: fn
-- columns:
--   fn         text
--   kind       text
--   calls      integer
--   plus_minus integer
--   watched    share
--   errors     integer
--   total_ns   nanoseconds
--   mean_ns    nanoseconds
--   min_ns     nanoseconds
--   max_ns     nanoseconds
--   bytes      bytes
WITH each AS (
	SELECT process, kind, fn, sum(calls) AS calls, @ERRORS@, @TIMES@,
		sum(bytes) AS bytes
	FROM rollup
	WHERE @IN_WINDOW@
	AND freed = 0
	GROUP BY second, process, kind, fn
), @WINDOWS@, recorded AS MATERIALIZED (
	SELECT process, second, rollup.kind, fn, sum(calls) AS calls
	FROM @CALLS_OF_WINDOWS@
	GROUP BY process, second, rollup.kind, fn
), @AT_WINDOWS_OF_CALLS@, b AS MATERIALIZED (
	SELECT process, kind, fn, hot.missed, sum(calls * more * part) AS calls, 0 AS seen
	FROM recorded
	JOIN at USING (process, second)
	JOIN hot USING (process, since)
	JOIN known USING (process)
	GROUP BY process, kind, fn, since
	UNION ALL
	SELECT process, kind, fn, 0, sum(calls) * each, CAST(sum(calls) AS REAL)
	FROM recorded
	JOIN known USING (process)
	GROUP BY process, kind, fn
), u AS MATERIALIZED (
	SELECT process, kind, fn, sum(b.calls) AS missed, @MISSED_OF_CALLS_BY@ AS missed_by
	FROM b
	JOIN missed USING (process)
	JOIN known USING (process)
	GROUP BY process, kind, fn
), s AS (
	SELECT each.kind, each.fn, sum(each.calls + coalesce(u.missed, 0)) AS calls,
		sum(missed_by * missed_by) AS error2,
		sum(watched_ns) AS watched_ns, sum(all_ns) AS all_ns, sum(errors) AS errors,
		sum(timed) AS timed, sum(total_ns) AS total_ns,
		min(min_ns) AS min_ns, max(max_ns) AS max_ns, sum(bytes) AS bytes
	FROM (
		SELECT process, kind, fn, sum(calls) AS calls, sum(errors) AS errors,
			sum(timed) AS timed, sum(total_ns) AS total_ns,
			min(min_ns) AS min_ns, max(max_ns) AS max_ns, sum(bytes) AS bytes
		FROM (
			SELECT * FROM each
			UNION ALL
			-- called before the time that is asked for, and not watched since
			SELECT process, kind, fn, 0, 0, 0, 0, NULL, NULL, 0 FROM u WHERE missed >= 0.5
		)
		GROUP BY process, kind, fn
	) each
	LEFT JOIN function f ON f.id = each.fn
	LEFT JOIN missed ON missed.process = each.process AND f.hot
	LEFT JOIN u ON u.process = each.process AND u.kind = each.kind AND u.fn = each.fn
	GROUP BY each.kind, each.fn
) SELECT @FUNCTION@, k.name, CAST(round(calls) AS INTEGER), CAST(round(root(error2) + 0.5) AS INTEGER), share(watched_ns, all_ns),
	errors,
	CASE WHEN timed > 0 THEN total_ns END, CASE WHEN timed > 0 THEN total_ns / timed END,
	min_ns, CASE WHEN timed > 0 THEN max_ns END, bytes
FROM s
LEFT JOIN function f ON f.id = s.fn
LEFT JOIN kind k ON k.id = s.kind
ORDER BY total_ns DESC, calls DESC, 1
LIMIT :limit
