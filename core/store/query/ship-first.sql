-- for tracesmith-ship: the first minute, from one on, of which there is anything
--
-- options: boot number
-- flags: internal
-- columns:
--   minute integer
SELECT min(second) / 60 FROM (
	SELECT min(second) AS second FROM rollup WHERE @FROM_MINUTE@
	UNION ALL SELECT min(second) FROM work WHERE @FROM_MINUTE@
	UNION ALL SELECT min(second) FROM busy WHERE @FROM_MINUTE@
	UNION ALL SELECT min(second) FROM loss WHERE @FROM_MINUTE@
	UNION ALL SELECT min(first_ns) / 1000000000 FROM process
	WHERE boot = :boot AND first_ns >= 60000000000 * coalesce(:number, 0)
) HAVING min(second) IS NOT NULL
ORDER BY 1
LIMIT :limit
