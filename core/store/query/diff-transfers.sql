-- for a comparison: the durations and sizes of copies and memsets
--
-- flags: internal
-- columns:
--   name     text
--   count    integer
--   total_ns nanoseconds
--   min_ns   nanoseconds
--   max_ns   nanoseconds
--   bytes    bytes
SELECT coalesce(d.name, k.name), sum(count), sum(total_ns), min(min_ns), max(max_ns), sum(bytes)
FROM work w
JOIN kind k ON k.id = w.kind
LEFT JOIN detail d ON d.kind = w.kind AND d.id = iif(k.name = 'copy', w.detail, 0)
WHERE k.name IN ('copy', 'set')
GROUP BY 1, bucket
ORDER BY 1, bucket
LIMIT :limit
