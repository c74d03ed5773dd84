-- kernels by name: device time, share, percentiles
--
-- options: pid window device by-stack by-stream by-place
-- window: 3600 s
-- limit: 100
-- about: times
-- records: kernels
-- nothing: No kernel ran
-- search: name
-- columns:
--   pid           id
--   comm          text
--   stream        id
--   count         integer
--   plus_minus    integer
--   total_ns      nanoseconds
--   plus_minus_ns nanoseconds
--   watched       share
--   share         share
--   mean_ns       nanoseconds
--   min_ns        nanoseconds
--   p50_ns        nanoseconds
--   p99_ns        nanoseconds
--   max_ns        nanoseconds
--   delay_ns      nanoseconds
--   sampled       integer
--   name          text
--   where         text
--   stack         stack
WITH w AS MATERIALIZED (
	SELECT process, kernel, name, stack_key(stack, :by) AS stack, stream, bucket,
		sum(count) AS count, sum(total_ns) AS total_ns, min(min_ns) AS min_ns,
		max(max_ns) AS max_ns, sum(delay_ns) AS delay_ns
	FROM work_sum(:boot, :first, :until / 1000000000, :pid, :device, iif(:by > 2, 1, :by))
	WHERE @OF_ASKED@
	GROUP BY process, kernel, name, 4, stream, bucket
), whole AS (
	SELECT process, sum(total_ns) AS device_ns FROM w GROUP BY process
), ranked AS (
	SELECT process, name, stack, stream, count AS n, total_ns AS ns,
		min_ns AS low, max_ns AS high, delay_ns AS delay,
		sum(count) OVER (alike ORDER BY bucket) AS upto,
		sum(count) OVER alike AS count
	FROM w
	WHERE kernel
	WINDOW alike AS (PARTITION BY process, name, stack, stream)
), k AS (
	SELECT process, name, stack, stream, count, sum(ns) AS ns,
		min(low) AS low, max(high) AS high, sum(delay) AS delay,
		@MEDIAN@ AS p50,
		@P99@ AS p99
	FROM ranked
	GROUP BY process, name, stack, stream
-- What its stacks stand for; the durations are those of the samples.
), e AS MATERIALIZED (
	SELECT process, name, stack_key(stack, :by) AS stack, sum(count) AS count,
		sum(total_ns) AS total_ns, sum(sampled) AS sampled
	FROM stack_sum(:boot, :first, :until / 1000000000, :pid, :device)
	WHERE :by NOT IN (0, 2)
	GROUP BY process, name, 3
-- Where most of its samples come from.
), seen AS (
	SELECT process, name, stack, max(count)
	FROM (
		SELECT process, name, stack, sum(count) AS count
		FROM work
		WHERE :by IN (0, 2) AND @IN_WINDOW@
		AND kind IN (SELECT id FROM kind WHERE name = 'kernel')
		AND stack <> 0 AND (:device IS NULL OR device = :device)
		GROUP BY process, name, stack
	)
	GROUP BY process, name
), s AS (
	SELECT k.*, coalesce(e.count, k.count) AS launches,
		coalesce(e.total_ns, k.ns) AS total, e.sampled
	FROM k
	LEFT JOIN e ON e.process = k.process AND e.name = k.name
	AND e.stack = k.stack
	WHERE :by IN (0, 2) OR e.count > 0
), @EXACT_WINDOWS@, recorded AS MATERIALIZED (
	SELECT process, second, name, iif(:by IN (0, 2), 0, stack_key(stack, :by)) AS stack,
		CASE :by WHEN 2 THEN stream ELSE 0 END AS stream,
		sum(count) AS count, CAST(sum(total_ns) AS REAL) AS ns
	FROM @WORK_OF_WINDOWS@
	AND kind IN (SELECT id FROM kind WHERE name = 'kernel')
	AND (:device IS NULL OR device = :device)
	GROUP BY process, second, name, 4, 5
), @AT_WINDOWS@, b AS MATERIALIZED (
	SELECT process, name, stack, stream, ms, sum(count * more) AS count, sum(ns * more) AS ns
	FROM recorded
	JOIN at USING (process, second)
	JOIN windows USING (process, since)
	GROUP BY process, name, stack, stream, since
), u AS MATERIALIZED (
	SELECT process, name, stack, stream, sum(b.count) AS missed, sum(b.ns) AS missed_ns,
		@MISSED_BY_COUNT@ AS missed_by, @MISSED_BY_NS@ AS missed_by_ns
	FROM b
	JOIN missed USING (process)
	GROUP BY process, name, stack, stream
) SELECT p.pid, p.comm, nullif(s.stream, 0),
	CAST(round(launches * (1 + coalesce(missed, 0) / count)) AS INTEGER) AS launches,
	CAST(round(launches * missed_by / count) AS INTEGER),
	CAST(round(total * (1 + coalesce(missed_ns, 0) / s.ns)) AS INTEGER) AS total,
	CAST(round(total * missed_by_ns / s.ns) AS INTEGER), share(watched_ns, all_ns),
	share(total, device_ns), s.ns / count, low, p50, p99, high,
	delay / count, sampled,
		coalesce(name.text, CASE WHEN s.name <> 0 THEN printf('kernel %016x', s.name) END),
	stack_where(coalesce(seen.stack, s.stack)), iif(:by > 2, NULL, s.stack)
FROM s
JOIN whole USING (process)
JOIN process p ON p.id = s.process
LEFT JOIN missed ON missed.process = s.process
LEFT JOIN u ON u.process = s.process AND u.name = s.name
AND u.stack = s.stack AND u.stream = s.stream
LEFT JOIN name ON name.id = s.name
LEFT JOIN seen ON seen.process = s.process AND seen.name = s.name
ORDER BY total DESC, launches DESC, p.pid, 17, s.stream
LIMIT :limit
