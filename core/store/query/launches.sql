-- launches by function and, where sampled, by stack
--
-- options: pid window by-place
-- window: 3600 s
-- limit: 100
-- about: calls stacks samples
-- nothing: Nothing was launched
-- search: fn
-- columns:
--   pid        id
--   comm       text
--   fn         text
--   device     id
--   calls      integer
--   plus_minus integer
--   watched    share
--   errors     integer
--   captured   integer
--   where      text
--   stack      stack
WITH s AS (
	SELECT process, fn, device, stack_key(stack, :by) AS stack, sum(calls) AS calls,
		@ERRORS@, sum(captured) AS captured
	FROM rollup
	WHERE @IN_WINDOW@
	AND freed = 0 AND kind IN (SELECT id FROM kind WHERE name = 'launch')
	GROUP BY process, fn, device, 4
), @WINDOWS@, recorded AS MATERIALIZED (
	SELECT process, second, rollup.kind, fn, device, stack_key(stack, :by) AS stack, sum(calls) AS calls
	FROM @CALLS_OF_WINDOWS@
	GROUP BY process, second, rollup.kind, fn, device, 6
), @AT_WINDOWS_OF_CALLS@, b AS MATERIALIZED (
	SELECT process, fn, device, stack, hot.missed, sum(calls * more * part) AS calls, 0 AS seen
	FROM recorded
	JOIN at USING (process, second)
	JOIN hot USING (process, since)
	JOIN known USING (process)
	WHERE kind IN (SELECT id FROM kind WHERE name = 'launch')
	GROUP BY process, fn, device, stack, since
	UNION ALL
	SELECT process, fn, device, stack, 0, sum(calls) * each, CAST(sum(calls) AS REAL)
	FROM recorded
	JOIN known USING (process)
	WHERE kind IN (SELECT id FROM kind WHERE name = 'launch')
	GROUP BY process, fn, device, stack
), u AS MATERIALIZED (
	SELECT process, fn, device, stack, sum(b.calls) AS missed, @MISSED_OF_CALLS_BY@ AS missed_by
	FROM b
	JOIN missed USING (process)
	JOIN known USING (process)
	GROUP BY process, fn, device, stack
), e AS (
	SELECT s.process, s.fn, s.device, s.stack, calls + coalesce(u.missed, 0) AS calls, missed_by,
		errors, captured
	FROM (
		SELECT process, fn, device, stack, sum(calls) AS calls, sum(errors) AS errors,
			sum(captured) AS captured
		FROM (
			SELECT * FROM s
			UNION ALL
			-- launched before the time that is asked for, and not watched since
			SELECT process, fn, device, stack, 0, 0, 0 FROM u WHERE missed >= 0.5
		)
		GROUP BY process, fn, device, stack
	) s
	LEFT JOIN u ON u.process = s.process AND u.fn = s.fn AND u.device = s.device
	AND u.stack IS s.stack
) SELECT p.pid, p.comm, @FUNCTION@, nullif(device, -1), CAST(round(calls) AS INTEGER),
	CAST(round(missed_by + 0.5) AS INTEGER), share(watched_ns, all_ns), errors, captured, stack_where(stack), @STACK_SHOWN@
FROM e
JOIN process p ON p.id = e.process
LEFT JOIN function f ON f.id = fn
LEFT JOIN missed ON missed.process = e.process AND f.hot
ORDER BY 5 DESC, p.pid, 3
LIMIT :limit
