-- what leaks or grows, by process and stack
--
-- options: job host rank since
-- window: 1 h
-- columns:
--   host           text
--   pid            id
--   job            text
--   rank           id
--   verdict        text
--   kind           text
--   fn             text
--   device         id
--   bytes          bytes
--   count          integer
--   bytes_per_hour bytes
--   confidence     share
--   where          text
SELECT host, pid, job, rank, verdict, kind, fn, device, kept_bytes, kept, bytes_per_hour,
	toInt64(confidence) * 10000, site
FROM (
	SELECT host, boot, process, verdict, kind, fn, device, kept_bytes, kept, bytes_per_hour, confidence, site
	FROM (
		SELECT host, boot, process, stack, verdict, kind, fn, device, kept_bytes, kept, bytes_per_hour, confidence
		FROM growth FINAL
		WHERE seen >= :since AND :asked AND verdict IN ('leak', 'growing')
	)
	ANY LEFT JOIN (
		SELECT host, boot, process, stack, site FROM stack FINAL WHERE :asked
	) USING (host, boot, process, stack)
)
ALL INNER JOIN (
	SELECT host, boot, process, pid, job, rank FROM process FINAL WHERE :of_process
) USING (host, boot, process)
ORDER BY verdict = 'leak' DESC, bytes_per_hour DESC, kept_bytes DESC, host, pid
LIMIT :limit
