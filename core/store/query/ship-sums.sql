-- for tracesmith-ship: numbers that grow with the sums of a minute, of the hour up to one
--
-- options: boot number
-- flags: internal
-- columns:
--   minute integer
--   sum    integer
SELECT second / 60, sum(n) FROM (
	SELECT second, calls + timed AS n FROM rollup WHERE @OF_HOUR@
	UNION ALL SELECT second, count FROM work WHERE @OF_HOUR@
	UNION ALL SELECT second, ns FROM busy WHERE @OF_HOUR@
	UNION ALL SELECT second, calls + timed FROM collective WHERE @OF_HOUR@
	UNION ALL SELECT second, count FROM loss WHERE @OF_HOUR@
) GROUP BY 1
ORDER BY 1
LIMIT :limit
