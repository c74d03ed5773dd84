-- for a comparison: the time that devices spend in each state
--
-- flags: internal
-- columns:
--   name     text
--   count    integer
--   total_ns nanoseconds
--   min_ns   nanoseconds
--   max_ns   nanoseconds
--   bytes    bytes
SELECT d.name, 1, sum(ns), 0, 0, 0
FROM busy b
JOIN detail d ON d.kind = (SELECT id FROM kind WHERE name = 'state') AND d.id = b.state
GROUP BY 1
ORDER BY 1
LIMIT :limit
