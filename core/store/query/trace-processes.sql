-- the processes of a trace
--
-- options: pid
-- flags: internal
-- columns:
--   id      id
--   pid     id
--   comm    text
--   command text
SELECT id, pid, comm, command
FROM process p
WHERE boot = :boot AND @ASKED@
ORDER BY id
LIMIT :limit
