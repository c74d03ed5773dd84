-- what tracing costs each process, and its budget
--
-- options: job host rank since
-- window: 1 h
-- columns:
--   host     text
--   pid      id
--   job      text
--   rank     id
--   part     text
--   cost     share
--   low      share
--   high     share
--   budget   share
--   watched  share
--   measured text
SELECT host, pid, job, rank, part, cost_ppm, cost_low_ppm, cost_high_ppm, budget_ppm, share_ppm,
	if(measured, 'in place', 'estimated')
FROM (
	SELECT host, boot, process, part, cost_ppm, cost_low_ppm, cost_high_ppm, budget_ppm, share_ppm, measured
	FROM price FINAL
	WHERE seen >= :since AND :asked
)
ALL INNER JOIN (
	SELECT host, boot, process, pid, job, rank FROM process FINAL WHERE :of_process
) USING (host, boot, process)
ORDER BY cost_ppm DESC, host, pid, part
LIMIT :limit
