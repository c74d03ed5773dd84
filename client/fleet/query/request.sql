-- asks hosts for a window
--
-- internal
INSERT INTO request (host, time, seconds, asked_by)
SELECT host, now(), :seconds, :by FROM host
WHERE seen >= now() - 1200 AND :of_host AND host GLOBAL IN (SELECT host FROM process FINAL WHERE :of_process AND exit_ns = 0)
GROUP BY host
