-- what tracing costs each process, and its budget
--
-- options: pid window
-- window: 3600 s
-- limit: 1000
-- flags: running
-- nothing: No process pays anything
-- search: comm
-- columns:
--   pid      id
--   comm     text
--   part     text
--   cost     share
--   low      share
--   high     share
--   budget   share
--   watched  share
--   whole    share
--   turns    integer
--   measured text
SELECT p.pid, p.comm, 'probes', cost_ppm,
	CASE WHEN measured THEN cost_low_ppm END, CASE WHEN measured THEN cost_high_ppm END,
	nullif(budget_ppm, 0), share_ppm, whole_ppm, turns,
	CASE WHEN measured THEN 'in place' ELSE 'estimated' END
FROM price
JOIN process p ON p.id = price.process
WHERE p.boot = :boot AND @RUNNING@ AND @ASKED@
ORDER BY cost_ppm DESC, p.pid
LIMIT :limit
