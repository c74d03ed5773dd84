-- for the page: what was done in a window, from operations, of which it should have few
--
-- options: pid window
-- flags: internal
-- limit: 400
-- columns:
--   pid    id
--   device id
--   kind   text
--   name   text
--   count  integer
--   ns     nanoseconds
WITH done AS (
	SELECT pid, device, kind, detail AS name, start_ns AS start, end_ns AS ended
	FROM op
	WHERE @OF_WINDOW@ AND kind = 'state' AND stream = 0 AND end_ns > :since AND start_ns < :until
	UNION ALL
	SELECT pid, device, iif(kind = 'launch' AND exact, 'kernel', kind), coalesce(name, detail, fn),
		gpu_start_ns, gpu_end_ns
	FROM op
	WHERE @OF_WINDOW@ AND @IS_WORK_OP@ AND NOT bounds
	AND gpu_end_ns > :since AND gpu_start_ns < :until AND start_ns < :until
	UNION ALL
	SELECT pid, NULL, 'call', fn, start_ns, end_ns
	FROM op
	WHERE @OF_WINDOW@ AND @IS_CALL_OP@ AND end_ns > :since AND start_ns < :until
)
SELECT pid, nullif(device, -1), kind, name, count(*),
	CAST(total(min(ended, :until) - max(start, :since)) AS INTEGER) AS ns
FROM done
GROUP BY pid, device, kind, name
ORDER BY ns DESC, pid, device, kind, name
LIMIT :limit
