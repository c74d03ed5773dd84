-- what is missing of a job's hosts in a window
--
-- internal
SELECT host, boot, process, reason, count, start_ns, end_ns
FROM loss FINAL
WHERE :in_window AND (host, boot) GLOBAL IN (SELECT host, boot FROM process FINAL WHERE :of_process)
ORDER BY host, boot, process, start_ns, reason
LIMIT :limit
