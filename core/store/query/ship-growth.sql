-- for tracesmith-ship: what leaks or grows in the processes that ran in a minute
--
-- options: boot number
-- flags: internal
-- columns:
--   process        id
--   stack          id
--   fn             text
--   kind           text
--   device         id
--   since_ns       time
--   seen_ns        time
--   verdict        text
--   confidence     integer
--   kept           integer
--   kept_bytes     bytes
--   bytes_per_hour bytes
--   bytes_per_step bytes
--   allocations    integer
--   frees          integer
SELECT p.id, g.stack, @FUNCTION@, coalesce(k.name, ''), g.device, min(g.since_ns), b.last_ns,
	CASE max(g.verdict) WHEN @VERDICT_IS_LEAK@ THEN 'leak' ELSE 'growing' END, max(g.confidence),
	sum(g.kept), sum(g.kept_bytes), sum(g.bytes_per_hour), sum(g.bytes_per_step),
	sum(g.allocations), sum(g.frees)
FROM process p JOIN boot b ON b.id = p.boot JOIN growth g ON g.process = p.id
LEFT JOIN function f ON f.id = g.fn LEFT JOIN memory_kind k ON k.id = g.kind
WHERE @RAN_IN_MINUTE@ AND g.verdict > 4
GROUP BY 1, 2, 3, 4, 5
ORDER BY 1, 2, 3, 4, 5
LIMIT :limit
