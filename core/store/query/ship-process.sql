-- for tracesmith-ship: the processes that ran in a minute
--
-- options: boot number
-- flags: internal
-- columns:
--   process   id
--   started   time
--   pid       id
--   ns_pid    id
--   ppid      id
--   uid       id
--   user      text
--   comm      text
--   command   text
--   container text
--   tier      text
--   first_ns  time
--   exit_ns   time
--   exit_code integer
--   cgroup    text
--   variables text
SELECT p.id, p.first_ns, p.pid, p.ns_pid, p.ppid, p.uid, p.user, p.comm, p.command, p.container,
	CASE WHEN p.light THEN 'light' WHEN EXISTS (SELECT 1 FROM collect c
	WHERE c.process = p.id AND c.until_ns IS NULL) THEN 'exact' ELSE 'probe' END,
	p.first_ns, coalesce(p.exit_ns, 0), coalesce(p.exit_code, -1), p.cgroup, p.variables
FROM process p WHERE @RAN_IN_MINUTE@
ORDER BY p.id
LIMIT :limit
