-- kernels by name: device time, share, percentiles
--
-- options: pid window device by-stack by-stream
-- window: 3600 s
-- limit: 100
-- about: times
-- records: kernels
-- nothing: No kernel ran
-- search: name
-- columns:
--   pid      id
--   comm     text
--   stream   id
--   count    integer
--   total_ns nanoseconds
--   share    share
--   mean_ns  nanoseconds
--   min_ns   nanoseconds
--   p50_ns   nanoseconds
--   p99_ns   nanoseconds
--   max_ns   nanoseconds
--   delay_ns nanoseconds
--   sampled  integer
--   name     text
--   stack    stack
WITH w AS MATERIALIZED (
	SELECT * FROM work_sum(:boot, :first, :until / 1000000000, :pid, :device, :by)
	WHERE @OF_ASKED@
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
	SELECT * FROM stack_sum(:boot, :first, :until / 1000000000, :pid, :device)
	WHERE :by = 1
), s AS (
	SELECT k.*, coalesce(e.count, k.count) AS launches,
		coalesce(e.total_ns, k.ns) AS total, e.sampled
	FROM k
	LEFT JOIN e ON e.process = k.process AND e.name = k.name
	AND e.stack = k.stack
	WHERE :by <> 1 OR e.count > 0
) SELECT p.pid, p.comm, nullif(stream, 0), launches, total,
	share(total, device_ns), ns / count, low, p50, p99, high,
	delay / count, sampled,
		coalesce(name.text, CASE WHEN s.name <> 0 THEN printf('kernel %016x', s.name) END), stack
FROM s
JOIN whole USING (process)
JOIN process p ON p.id = s.process
LEFT JOIN name ON name.id = s.name
ORDER BY total DESC, launches DESC, p.pid, 14, stream
LIMIT :limit
