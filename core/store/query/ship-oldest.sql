-- for tracesmith-ship: the oldest minute of which there are sums
--
-- options: boot
-- flags: internal
-- columns:
--   minute integer
SELECT min(second) / 60 FROM (
	SELECT min(second) AS second FROM rollup WHERE boot = :boot
	UNION ALL SELECT min(second) FROM work WHERE boot = :boot
	UNION ALL SELECT min(second) FROM busy WHERE boot = :boot
) HAVING min(second) IS NOT NULL
ORDER BY 1
LIMIT :limit
