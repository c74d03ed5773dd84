-- kernels by name, and the host on which each is slowest
--
-- options: job host rank since until
-- window: 1 h
-- columns:
--   name         text
--   hosts        integer
--   count        integer
--   total_ns     nanoseconds
--   mean_ns      nanoseconds
--   min_ns       nanoseconds
--   max_ns       nanoseconds
--   slowest      text
--   slowest_ns   nanoseconds
SELECT name, count(), sum(n), sum(ns), toInt64(sum(ns) / sum(n)), min(low), max(high),
	argMax(host, ns / n), toInt64(max(ns / n))
FROM (
	SELECT name, host, sum(count) AS n, sum(total_ns) AS ns, min(min_ns) AS low, max(max_ns) AS high
	FROM work FINAL
	PREWHERE :in_window AND :asked AND kind = 'kernel'
	GROUP BY name, host
)
WHERE n > 0
GROUP BY name
ORDER BY sum(ns) DESC, name
LIMIT :limit
