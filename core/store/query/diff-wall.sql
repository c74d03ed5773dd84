-- for a comparison: the time from the first to the last operation
--
-- flags: internal
-- columns:
--   name     text
--   count    integer
--   total_ns nanoseconds
--   min_ns   nanoseconds
--   max_ns   nanoseconds
--   bytes    bytes
SELECT 'from the first to the last operation', 1, max(last_ns) - min(first_ns), 0, 0, 0
FROM chunk
WHERE kind NOT IN (SELECT id FROM kind WHERE name IN ('state', 'overhead', 'range'))
HAVING count(*) > 0
ORDER BY 1
LIMIT :limit
