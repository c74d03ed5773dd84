-- ranges that programs mark, and marks, by name
--
-- options: pid window
-- window: 3600 s
-- limit: 100
-- about: times ranges
-- records: ranges
-- nothing: No range was seen
-- search: name
-- columns:
--   pid      id
--   comm     text
--   count    integer
--   total_ns nanoseconds
--   mean_ns  nanoseconds
--   min_ns   nanoseconds
--   max_ns   nanoseconds
--   name     text
WITH r AS (
	SELECT process, name, count(*) AS count,
		sum(duration_ns) AS ns, avg(duration_ns) AS mean,
		min(duration_ns) AS low, max(duration_ns) AS high
	FROM op
	WHERE boot = :boot AND kind = 'range'
	AND start_ns BETWEEN :since AND :until
	AND @OF_ASKED@
	GROUP BY process, name
) SELECT p.pid, p.comm, count, ns, CAST(mean AS INTEGER), low, high, name
FROM r
JOIN process p ON p.id = r.process
ORDER BY ns DESC, count DESC, p.pid, name
LIMIT :limit
