-- devices by process: how busy, why idle, memory
--
-- options: job host rank since until
-- window: 10 m
-- columns:
--   host         text
--   pid          id
--   job          text
--   rank         id
--   device       id
--   name         text
--   busy         share
--   copying      share
--   pending      share
--   waiting      share
--   syncing      share
--   idle         share
--   memory_bytes bytes
--   total_bytes  bytes
SELECT host, pid, job, rank, device, name, run, copying, pending, waiting, syncing, idle, held, total
FROM (
	SELECT host, boot, process, device, run, copying, pending, waiting, syncing, idle, held, name, total
	FROM (
		SELECT host, boot, process, device, run, copying, pending, waiting, syncing, idle, held
		FROM (
			SELECT host, boot, process, device,
				toInt64(1e6 * sumIf(ns, state = 'running') / greatest(sum(ns), 1)) AS run,
				toInt64(1e6 * sumIf(ns, state = 'copying') / greatest(sum(ns), 1)) AS copying,
				toInt64(1e6 * sumIf(ns, state = 'pending') / greatest(sum(ns), 1)) AS pending,
				toInt64(1e6 * sumIf(ns, state = 'waiting') / greatest(sum(ns), 1)) AS waiting,
				toInt64(1e6 * sumIf(ns, state = 'syncing') / greatest(sum(ns), 1)) AS syncing,
				toInt64(1e6 * sumIf(ns, state = 'idle') / greatest(sum(ns), 1)) AS idle
			FROM busy FINAL
			PREWHERE :in_window AND :asked
			GROUP BY host, boot, process, device
		)
		ANY LEFT JOIN (
			SELECT host, boot, process, device, sum(latest) AS held
			FROM (
				SELECT host, boot, process, device, kind, argMax(live_bytes, second) AS latest
				FROM memory FINAL
				PREWHERE :in_window AND :asked AND kind IN ('device', 'pool', 'physical', 'managed')
				GROUP BY host, boot, process, device, kind
			)
			GROUP BY host, boot, process, device
		) USING (host, boot, process, device)
	)
	ANY LEFT JOIN (
		SELECT host, boot, process, device, name, memory_bytes AS total FROM device FINAL WHERE :asked
	) USING (host, boot, process, device)
)
ALL INNER JOIN (
	SELECT host, boot, process, pid, job, rank FROM process FINAL WHERE :of_process
) USING (host, boot, process)
ORDER BY run, host, pid, device
LIMIT :limit
