-- for tracesmith-ship: what was lost in a minute
--
-- options: boot number
-- flags: internal
-- columns:
--   process  id
--   at_ns    time
--   second   integer
--   reason   text
--   count    integer
--   start_ns time
--   end_ns   time
SELECT l.process, @MINUTE_NS@, @MINUTE_NS@ / 1000000000, r.name, sum(l.count), min(l.start_ns),
	max(l.end_ns)
FROM loss l JOIN loss_reason r ON r.id = l.reason
WHERE @IN_MINUTE@
GROUP BY 1, 4
ORDER BY 1, 4
LIMIT :limit
