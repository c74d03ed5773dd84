-- for a comparison: the durations of NVTX ranges
--
-- flags: internal
-- columns:
--   name     text
--   count    integer
--   total_ns nanoseconds
--   min_ns   nanoseconds
--   max_ns   nanoseconds
--   bytes    bytes
SELECT name, 1, duration_ns, duration_ns, duration_ns, 0
FROM op
WHERE kind = 'range' AND duration_ns > 0
ORDER BY 1, 3
LIMIT :limit
