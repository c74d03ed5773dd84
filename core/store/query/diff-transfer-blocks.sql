-- for a comparison: the copies in each direction and the memsets, in order, in ten blocks
--
-- flags: internal
-- columns:
--   name     text
--   count    integer
--   total_ns nanoseconds
--   bytes    bytes
SELECT name, count(*), sum(ns), sum(bytes)
FROM (SELECT *, ntile(10) OVER (PARTITION BY name ORDER BY gpu_start_ns) AS block
	FROM (SELECT coalesce(detail, kind) AS name, gpu_start_ns, gpu_end_ns - gpu_start_ns AS ns,
			bytes
		FROM op
		WHERE exact AND kind IN ('copy', 'set')))
GROUP BY name, block
ORDER BY name, block
LIMIT :limit
