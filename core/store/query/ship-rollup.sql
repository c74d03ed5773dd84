-- for tracesmith-ship: the calls of a minute
--
-- options: boot number
-- flags: internal
-- columns:
--   process  id
--   start_ns time
--   second   integer
--   kind     text
--   fn       text
--   detail   text
--   device   id
--   result   integer
--   freed    integer
--   calls    integer
--   timed    integer
--   captured integer
--   total_ns nanoseconds
--   min_ns   nanoseconds
--   max_ns   nanoseconds
--   bytes    bytes
SELECT r.process, @MINUTE_NS@, @MINUTE_NS@ / 1000000000, k.name, @FUNCTION@, coalesce(d.name, ''),
	r.device, coalesce(r.result, 0), r.freed, sum(r.calls), sum(r.timed), sum(r.captured),
	sum(r.total_ns), min(iif(r.timed > 0, r.min_ns, NULL)), max(r.max_ns), sum(r.bytes)
FROM rollup r JOIN kind k ON k.id = r.kind LEFT JOIN function f ON f.id = r.fn
LEFT JOIN detail d ON d.kind = r.kind AND d.id = r.detail
WHERE @IN_MINUTE@
GROUP BY 1, 4, 5, 6, 7, 8, 9
ORDER BY 1, 4, 5, 6, 7, 8, 9
LIMIT :limit
