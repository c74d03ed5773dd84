-- jobs: their hosts and ranks, and how busy their devices were
--
-- options: job host since until
-- window: 1 h
-- columns:
--   job        text
--   hosts      integer
--   processes  integer
--   running    integer
--   ranks      integer
--   world_size integer
--   start      time
--   busy       share
--   user       text
--   command    text
SELECT job, hosts, processes, running, ranks, world, start, toInt64(1e6 * busy_ns / greatest(all_ns, 1)), who, what
FROM (
	SELECT job, uniqExact(host) AS hosts, count() AS processes, countIf(exit_ns = 0) AS running,
		uniqExactIf(rank, rank >= 0) AS ranks, max(world_size) AS world,
		toInt64(toUnixTimestamp(min(time))) * 1000000000 AS start, any(user) AS who, any(command) AS what
	FROM process FINAL
	WHERE :of_process AND time <= :until
	GROUP BY job
)
ALL INNER JOIN (
	SELECT job, sum(run) AS busy_ns, sum(whole) AS all_ns
	FROM (
		SELECT host, boot, process, sumIf(ns, state = 'running') AS run, sum(ns) AS whole
		FROM busy FINAL
		PREWHERE :in_window AND :asked
		GROUP BY host, boot, process
	)
	ALL INNER JOIN (
		SELECT host, boot, process, job FROM process FINAL WHERE :of_process
	) USING (host, boot, process)
	GROUP BY job
) USING (job)
ORDER BY all_ns DESC, job
LIMIT :limit
