-- ranks that the others of their job wait for: own compute and late arrival against the job's median
--
-- options: job host rank since until all
-- window: 15 m
-- columns:
--   job        text
--   rank       id
--   host       text
--   pid        id
--   verdict    text
--   z          real
--   late_z     real
--   minutes    integer
--   slow       integer
--   own_ns     nanoseconds
--   median_ns  nanoseconds
--   late_ns    nanoseconds
SELECT job, rank, host, pid,
	multiIf(z >= 3.5 AND late >= 3.5, 'straggler', late >= 3.5, 'late', z >= 3.5, 'slow', 'fine') AS verdict,
	round(z, 1) + 0, round(late, 1) + 0, minutes, slow, toInt64(own), toInt64(typical), toInt64(late_ns)
FROM (
	SELECT job, one.1 AS rank, one.2 AS host, one.3 AS pid, count() AS minutes,
		quantileExact(0.5)((one.4 - middle) / spread) AS z,
		quantileExact(0.5)((together - one.5) / spread_together) AS late,
		countIf(one.4 - middle >= 3.5 * spread) AS slow, avg(one.4) AS own, avg(middle) AS typical,
		avg(together - one.5) AS late_ns
	FROM (
		SELECT job, minute, groupArray((rank, host, pid, own_ns, waited_ns)) AS everyone,
			quantileExact(0.5)(own_ns) AS middle, quantileExact(0.5)(waited_ns) AS together,
			greatest(1.4826 * arrayReduce('medianExact', arrayMap(x -> abs(x - middle), groupArray(own_ns))),
				0.01 * middle + 1) AS spread,
			greatest(1.4826 * arrayReduce('medianExact', arrayMap(x -> abs(x - together), groupArray(waited_ns))),
				0.01 * middle + 1) AS spread_together
		FROM (
			SELECT host, boot, process, all_ns - waited_ns AS own_ns, waited_ns,
				intDiv(if(known_ns = 0, toInt64(toUnixTimestamp(told)), toInt64(second) + intDiv(ahead_ns, 1000000000)), 60) AS minute
			FROM (
				SELECT host, boot, process, second, any(time) AS told, toStartOfHour(any(time)) AS hour,
					toFloat64(sum(total_ns)) AS all_ns, toFloat64(sumIf(total_ns, name LIKE 'nccl%')) AS waited_ns
				FROM work FINAL
				PREWHERE :in_window AND :of_job AND kind = 'kernel'
				GROUP BY host, boot, process, second
			)
			ANY LEFT JOIN :clock USING (host, boot, hour)
		)
		ALL INNER JOIN (
			SELECT host, boot, process, pid, job, rank FROM process FINAL WHERE :is_job AND rank >= 0
		) USING (host, boot, process)
		GROUP BY job, minute
		HAVING count() >= 3
	)
	ARRAY JOIN everyone AS one
	GROUP BY job, rank, host, pid
)
WHERE :is_host AND :is_rank AND (verdict != 'fine' OR :all)
ORDER BY verdict = 'fine', least(z, late) DESC, late DESC, z DESC, job, rank
LIMIT :limit
