-- for tracesmith-ship: what says which jobs the processes of a boot belong to
--
-- One that has just started comes when it was looked at.
--
-- options: boot after
-- flags: internal
-- columns:
--   process   id
--   cgroup    text
--   variables text
SELECT p.id, p.cgroup, p.variables
FROM process p JOIN boot b ON b.id = p.boot
WHERE p.boot = :boot AND p.id > :after AND (p.cgroup IS NOT NULL OR p.exit_ns IS NOT NULL
OR p.first_ns < b.last_ns - 60000000000)
ORDER BY p.id
LIMIT :limit
