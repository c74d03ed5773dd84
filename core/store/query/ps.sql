-- processes that use CUDA now; calls of the window
--
-- options: pid window
-- window: 3600 s
-- limit: 1000
-- about: calls memory processes
-- flags: running quick
-- nothing: No process uses CUDA
-- search: comm
-- columns:
--   pid           id
--   user          text
--   comm          text
--   container     text
--   tier          text
--   inside        integer
--   since_ns      time
--   cost          share
--   cost_low      share
--   cost_high     share
--   budget        share
--   callback_cost share
--   thread_cost   share
--   records       integer
--   lost          integer
--   live_bytes    bytes
--   peak_bytes    bytes
--   calls         integer
--   errors        integer
--   command       text
SELECT p.pid, @USER@, p.comm, p.container, @TIER@, nullif(p.light, 0),
	x.since_ns, e.cost, e.low, e.high, e.budget, x.callback, x.own, x.taken, coalesce(l.lost, 0),
	coalesce(m.live_bytes, 0), coalesce(m.peak_bytes, 0),
	coalesce(c.calls, 0), coalesce(c.errors, 0), p.command
FROM process p@JOIN_MEMORY@@JOIN_CALLS@@JOIN_COLLECT@@JOIN_PRICE@
-- What is missing of it, in calls and records: not what counts other things.
LEFT JOIN (
	SELECT process, sum(count) AS lost
	FROM loss
	WHERE boot = :boot AND end_ns >= :since AND start_ns <= :until
	AND @IS_MISSING@
	GROUP BY process
) l ON l.process = p.id
WHERE p.boot = :boot AND @RUNNING@ AND @ASKED@
ORDER BY 16 DESC, 18 DESC, p.pid
LIMIT :limit
