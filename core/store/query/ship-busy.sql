-- for tracesmith-ship: how long devices were in which state in a minute
--
-- options: boot number
-- flags: internal
-- columns:
--   process  id
--   start_ns time
--   second   integer
--   device   id
--   state    text
--   ns       nanoseconds
SELECT b.process, @MINUTE_NS@, @MINUTE_NS@ / 1000000000, b.device, coalesce(d.name, ''), sum(b.ns)
FROM busy b JOIN kind k ON k.name = 'state' LEFT JOIN detail d ON d.kind = k.id AND d.id = b.state
WHERE @IN_MINUTE@
GROUP BY 1, 4, 5
ORDER BY 1, 4, 5
LIMIT :limit
