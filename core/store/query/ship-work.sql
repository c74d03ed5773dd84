-- for tracesmith-ship: what devices did in a minute, by name
--
-- A graph whose nodes have their own rows is in those.
--
-- options: boot number
-- flags: internal
-- columns:
--   process  id
--   start_ns time
--   second   integer
--   device   id
--   kind     text
--   detail   text
--   name     text
--   count    integer
--   total_ns nanoseconds
--   min_ns   nanoseconds
--   max_ns   nanoseconds
--   bytes    bytes
--   delay_ns nanoseconds
SELECT w.process, @MINUTE_NS@, @MINUTE_NS@ / 1000000000, w.device, k.name, coalesce(d.name, ''),
	coalesce(n.text, ''), sum(w.count), sum(w.total_ns), min(w.min_ns), max(w.max_ns),
	sum(w.bytes), sum(w.delay_ns)
FROM (SELECT * FROM work WHERE @IN_MINUTE@) w JOIN kind k ON k.id = w.kind
LEFT JOIN detail d ON d.kind = w.kind AND d.id = w.detail LEFT JOIN name n ON n.id = w.name
WHERE NOT (k.name = 'graph' AND w.detail = 1)
GROUP BY 1, 4, 5, 6, 7
ORDER BY 1, 4, 5, 6, 7
LIMIT :limit
