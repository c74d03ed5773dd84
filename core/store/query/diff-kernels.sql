-- for a comparison: the durations of each kernel
--
-- flags: internal
-- columns:
--   name     text
--   count    integer
--   total_ns nanoseconds
--   min_ns   nanoseconds
--   max_ns   nanoseconds
--   bytes    bytes
SELECT coalesce(n.text, printf('kernel %016x', w.name)), sum(count), sum(total_ns), min(min_ns),
	max(max_ns), 0
FROM work w
LEFT JOIN name n ON n.id = w.name
WHERE w.kind = (SELECT id FROM kind WHERE name = 'kernel')
GROUP BY 1, bucket
ORDER BY 1, bucket
LIMIT :limit
