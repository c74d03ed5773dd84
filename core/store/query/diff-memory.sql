-- for a comparison: memory of each kind, at its peak and at the end
--
-- flags: internal
-- columns:
--   name        text
--   count       integer
--   total_bytes bytes
--   min_bytes   bytes
--   max_bytes   bytes
--   bytes       bytes
SELECT k.name || ' ' || w.which, 1, sum(iif(w.which = 'peak', m.peak_bytes, m.live_bytes)), 0, 0, 0
FROM memory m
JOIN memory_kind k ON k.id = m.kind,
(SELECT 'peak' AS which UNION ALL SELECT 'at the end') w
GROUP BY 1
ORDER BY 1
LIMIT :limit
