-- collectives by the name of their kernel: who waits in them, and for whom
--
-- options: job host rank since until
-- window: 1 h
-- columns:
--   job       text
--   name      text
--   ranks     integer
--   count     integer
--   mean_ns   nanoseconds
--   median_ns nanoseconds
--   shortest_ns nanoseconds
--   longest_ns nanoseconds
--   last      id
--   last_host text
--   waited_ns nanoseconds
SELECT job, name, count(), sum(n), toInt64(sum(ns) / sum(n)), toInt64(quantileExact(0.5)(ns / n)),
	toInt64(min(ns / n)), toInt64(max(ns / n)), argMin(rank, ns / n), argMin(host, ns / n),
	toInt64(sum(ns) - min(ns / n) * sum(n))
FROM (
	SELECT host, boot, process, name, sum(count) AS n, sum(total_ns) AS ns
	FROM work FINAL
	PREWHERE :in_window AND :asked AND kind = 'kernel' AND name LIKE 'nccl%'
	GROUP BY host, boot, process, name
)
ALL INNER JOIN (
	SELECT host, boot, process, job, rank FROM process FINAL WHERE :of_process
) USING (host, boot, process)
WHERE n > 0
GROUP BY job, name
ORDER BY sum(ns) DESC, job, name
LIMIT :limit
