-- for metrics: memory that running processes hold
--
-- flags: internal quick
-- columns:
--   process    id
--   device     id
--   kind       text
--   live_bytes bytes
--   live_count integer
--   peak_bytes bytes
--   pool_bytes bytes
--   used_bytes bytes
SELECT m.process, m.device, k.name, m.live_bytes, m.live_count, m.peak_bytes, NULL, NULL
FROM memory m
JOIN memory_kind k ON k.id = m.kind
JOIN process p ON p.id = m.process
WHERE p.boot = :boot AND @RUNNING@
UNION ALL
SELECT o.process, o.device, iif(k.name = 'allocator', k.name, NULL) AS holder, NULL, NULL, NULL,
	sum(o.bytes), sum(o.used_bytes)
FROM pool o
JOIN pool_kind k ON k.id = o.kind
JOIN process p ON p.id = o.process
WHERE p.boot = :boot AND @RUNNING@
GROUP BY o.process, o.device, holder
ORDER BY 1, 2, 3
LIMIT :limit
