-- for a comparison: the time spent in each function
--
-- flags: internal
-- columns:
--   name     text
--   count    integer
--   total_ns nanoseconds
--   min_ns   nanoseconds
--   max_ns   nanoseconds
--   bytes    bytes
SELECT coalesce(f.name, 'function ' || r.fn), sum(timed), sum(total_ns), 0, 0, 0
FROM rollup r
LEFT JOIN function f ON f.id = r.fn
WHERE freed = 0 AND timed > 0
GROUP BY 1
ORDER BY 1
LIMIT :limit
