-- hosts that ship now and have such a process
--
-- internal
SELECT host FROM host
WHERE seen >= now() - 1200 AND :of_host AND host GLOBAL IN (SELECT host FROM process FINAL WHERE :of_process AND exit_ns = 0)
GROUP BY host
ORDER BY host
LIMIT :limit
