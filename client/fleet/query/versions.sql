-- versions of TraceSmith, kernel and driver, and how many hosts have them
--
-- options: host since
-- window: 1 d
-- columns:
--   tracesmith text
--   kernel     text
--   driver     text
--   hosts      integer
--   gpus       integer
--   example    text
SELECT t, k, d, count(), sum(g), min(host)
FROM (
	SELECT host, argMax(tracesmith, seen) AS t, argMax(kernel, seen) AS k, argMax(driver, seen) AS d,
		argMax(gpus, seen) AS g
	FROM host FINAL
	WHERE seen >= :since AND :of_host
	GROUP BY host
)
GROUP BY t, k, d
ORDER BY count() DESC, t DESC, k, d
LIMIT :limit
