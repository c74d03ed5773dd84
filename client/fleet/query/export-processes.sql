-- the processes that have operations in a window, and their hosts' wall clocks
--
-- internal
SELECT host, boot, process, pid, rank, comm,
	if(wall != 0, wall, toInt64(toUnixTimestamp(since)) * 1000000000 - toInt64(first_ns))
FROM (
	SELECT host, boot, process, pid, rank, job, comm, time AS since, first_ns
	FROM process FINAL
	WHERE :of_process AND (host, boot, process) GLOBAL IN (
		SELECT host, boot, process FROM op WHERE :in_window AND :asked
	)
)
ANY LEFT JOIN (
	SELECT host, boot, argMax(wall_offset_ns, told_ns) AS wall FROM host WHERE :of_host GROUP BY host, boot
) USING (host, boot)
ORDER BY job, rank, host, boot, process
LIMIT :limit
