-- the processes that ran in a window, for a recording of one program
--
-- options: window
-- flags: internal
-- columns:
--   pid     id
--   ppid    id
--   exit_ns time
SELECT pid, ppid, exit_ns
FROM process
WHERE boot = :boot AND (exit_ns IS NULL OR exit_ns >= :since)
ORDER BY id
LIMIT :limit
