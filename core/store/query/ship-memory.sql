-- for tracesmith-ship: what the processes that ran in a minute hold
--
-- options: boot number
-- flags: internal
-- columns:
--   process    id
--   start_ns   time
--   second     integer
--   device     id
--   kind       text
--   live_bytes bytes
--   live_count integer
--   peak_bytes bytes
SELECT p.id, @MINUTE_NS@, @MINUTE_NS@ / 1000000000, m.device, coalesce(k.name, ''),
	sum(m.live_bytes), sum(m.live_count), sum(m.peak_bytes)
FROM process p JOIN memory m ON m.process = p.id LEFT JOIN memory_kind k ON k.id = m.kind
WHERE @RAN_IN_MINUTE@
GROUP BY 1, 4, 5
ORDER BY 1, 4, 5
LIMIT :limit
