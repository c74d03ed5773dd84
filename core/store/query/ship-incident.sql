-- for tracesmith-ship: what failed for lack of memory in a minute, or went on or ended in it
--
-- options: boot number
-- flags: internal
-- columns:
--   kind     text
--   id       id
--   at_ns    time
--   process  id
--   device   id
--   stack    id
--   time_ns  time
--   last_ns  time
--   bytes    bytes
--   text     text
--   detail   text
SELECT 'oom', (o.process << 32) + o.id, o.time_ns, o.process, o.device, o.stack, o.time_ns, o.last_ns,
	coalesce(o.wanted_bytes, o.bytes, 0), @FUNCTION@ || ' found no memory',
	json_object('failures', o.failures, 'reports', o.reports, 'reported_ns', o.reported_ns,
	'recovered_ns', o.recovered_ns, 'bytes', o.bytes, 'wanted_bytes', o.wanted_bytes,
	'held_bytes', o.held_bytes, 'live_bytes', o.live_bytes, 'reserved_bytes', o.reserved_bytes,
	'free_bytes', o.free_bytes, 'total_bytes', o.total_bytes, 'largest_piece_bytes', o.piece_bytes)
FROM process p JOIN oom o ON o.process = p.id LEFT JOIN function f ON f.id = o.fn
WHERE p.boot = :boot AND (o.time_ns BETWEEN @MINUTE_NS@ AND @MINUTE_NS@ + 59999999999
OR o.last_ns BETWEEN @MINUTE_NS@ AND @MINUTE_NS@ + 59999999999
OR o.reported_ns BETWEEN @MINUTE_NS@ AND @MINUTE_NS@ + 59999999999
OR o.recovered_ns BETWEEN @MINUTE_NS@ AND @MINUTE_NS@ + 59999999999)
ORDER BY o.id
LIMIT :limit
