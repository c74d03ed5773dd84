-- for the page: how many operations page-held would read
--
-- options: pid window
-- flags: internal
-- columns:
--   ops integer
SELECT coalesce(sum(ops), 0)
FROM chunk
WHERE @OF_WINDOW@ AND kind IN (SELECT id FROM kind WHERE name IN ('alloc', 'free'))
ORDER BY 1
LIMIT :limit
