-- what is known of the clocks of a job's hosts
--
-- internal
SELECT host, boot, server, at_ns, offset_ns, drift_ppb, bound_ns, drift_bound_ppb
FROM clock FINAL
WHERE :in_window AND (host, boot) GLOBAL IN (SELECT host, boot FROM process FINAL WHERE :of_process)
ORDER BY host, boot, at_ns
LIMIT :limit
