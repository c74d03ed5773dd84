-- processes seen in the window, including ended ones
--
-- options: pid window
-- window: 3600 s
-- limit: 1000
-- about: calls memory processes
-- nothing: No process used CUDA
-- search: comm
-- columns:
--   pid        id
--   ns_pid     id
--   ppid       id
--   user       text
--   comm       text
--   state      text
--   tier       text
--   first_ns   time
--   exit_ns    time
--   exit_code  integer
--   container  text
--   cgroup     text
--   live_bytes bytes
--   peak_bytes bytes
--   calls      integer
--   errors     integer
--   command    text
SELECT p.pid, p.ns_pid, p.ppid, @USER@, p.comm, @STATE@,
	CASE WHEN @RUNNING@ THEN @TIER@ END, p.first_ns,
	nullif(p.exit_ns, 0), CASE WHEN NOT @RUNNING@ THEN p.exit_code END,
	p.container, p.cgroup,
	coalesce(m.live_bytes, 0), coalesce(m.peak_bytes, 0),
	coalesce(c.calls, 0), coalesce(c.errors, 0), p.command
FROM process p@JOIN_MEMORY@@JOIN_CALLS@@JOIN_COLLECT@
WHERE p.boot = :boot AND p.first_ns <= :until
AND (@RUNNING@ OR p.exit_ns >= :since) AND @ASKED@
ORDER BY @RUNNING@ DESC, p.first_ns DESC
LIMIT :limit
