-- for a comparison: what was lost; in place of bytes, how long it lasted
--
-- flags: internal
-- columns:
--   name  text
--   count integer
--   lost  integer
--   min   integer
--   max   integer
--   bytes bytes
SELECT coalesce(r.name, 'reason ' || l.reason), 1, sum(count), 0, 0,
	CAST(total(end_ns - start_ns) AS INTEGER)
FROM loss l
LEFT JOIN loss_reason r ON r.id = l.reason
WHERE r.name IS NOT 'stack-sampled'
GROUP BY 1
ORDER BY 1
LIMIT :limit
