-- for metrics: processes that run, and those that ended lately
--
-- flags: internal quick
-- columns:
--   id        id
--   pid       id
--   running   integer
--   comm      text
--   container text
--   user      text
--   tier      text
SELECT p.id, p.pid, @RUNNING@, p.comm, p.container, @USER@, @TIER@
FROM process p@JOIN_COLLECT@
WHERE p.boot = :boot AND (@RUNNING@ OR p.exit_ns >= :now - 600000000000)
ORDER BY @RUNNING@ DESC, p.id
LIMIT :limit
