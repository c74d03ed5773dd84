-- what went wrong, such as allocations that failed for lack of memory
--
-- options: job host rank since until
-- window: 1 d
-- columns:
--   time   time
--   host   text
--   pid    id
--   job    text
--   rank   id
--   kind   text
--   device id
--   bytes  bytes
--   text   text
SELECT toInt64(toUnixTimestamp(at)) * 1000000000, host, pid, job, rank, kind, device, bytes, text
FROM (
	SELECT host, boot, process, time AS at, kind, device, bytes, text
	FROM incident FINAL
	WHERE time >= :since AND time <= :until AND :asked
)
ANY LEFT JOIN (
	SELECT host, boot, process, pid, job, rank FROM process FINAL WHERE :of_process
) USING (host, boot, process)
ORDER BY at DESC, host, pid
LIMIT :limit
