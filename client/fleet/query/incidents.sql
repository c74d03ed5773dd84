-- what went wrong, such as allocations that failed for lack of memory, in the order of the server's clock
--
-- options: job host rank since until
-- window: 1 d
-- columns:
--   time   time
--   bound  nanoseconds
--   host   text
--   pid    id
--   job    text
--   rank   id
--   kind   text
--   device id
--   bytes  bytes
--   text   text
SELECT at, bound, host, pid, job, rank, kind, device, bytes, text
FROM (
	SELECT host, boot, process, kind, device, bytes, text,
		if(known_ns = 0, toInt64(toUnixTimestamp(told)) * 1000000000,
			toInt64(time_ns) + ahead_ns + toInt64((toInt64(time_ns) - toInt64(known_ns)) * (drift / 1e9))) AS at,
		if(known_ns = 0, NULL,
			toInt64(known_bound_ns) + toInt64(abs(toInt64(time_ns) - toInt64(known_ns)) * (drift_bound / 1e9))) AS bound
	FROM (
		SELECT host, boot, process, time AS told, toStartOfHour(time) AS hour, time_ns, kind, device, bytes, text
		FROM incident FINAL
		WHERE time >= :since - 3600 AND time <= :until + 3600 AND :asked
	)
	ANY LEFT JOIN :clock USING (host, boot, hour)
)
ANY LEFT JOIN (
	SELECT host, boot, process, pid, job, rank FROM process FINAL WHERE :of_process
) USING (host, boot, process)
WHERE at >= toInt64(toUnixTimestamp(:since)) * 1000000000 AND at < (toInt64(toUnixTimestamp(:until)) + 1) * 1000000000
ORDER BY at DESC, host, pid
LIMIT :limit
