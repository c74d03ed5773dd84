-- for a comparison: the launches by each function
--
-- flags: internal
-- columns:
--   name     text
--   count    integer
--   launches integer
--   min      integer
--   max      integer
--   bytes    bytes
SELECT coalesce(f.name, 'function ' || r.fn), sum(calls - captured), sum(calls - captured), 0, 0, 0
FROM rollup r
LEFT JOIN function f ON f.id = r.fn
WHERE freed = 0 AND r.kind = (SELECT id FROM kind WHERE name = 'launch')
GROUP BY 1
ORDER BY 1
LIMIT :limit
