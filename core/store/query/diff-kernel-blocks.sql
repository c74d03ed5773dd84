-- for a comparison: each kernel's launches, in order, in ten blocks
--
-- flags: internal
-- columns:
--   name     text
--   count    integer
--   total_ns nanoseconds
--   bytes    bytes
SELECT name, count(*), sum(ns), 0
FROM (SELECT name, gpu_end_ns - gpu_start_ns AS ns,
		ntile(10) OVER (PARTITION BY name ORDER BY gpu_start_ns) AS block
	FROM op
	WHERE exact AND kind IN ('launch', 'kernel') AND name IS NOT NULL)
GROUP BY name, block
ORDER BY name, block
LIMIT :limit
