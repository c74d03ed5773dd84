-- for tracesmith-ship: single operations that started in a window
--
-- options: window boot
-- flags: internal
-- columns:
--   process      id
--   started_ns   time
--   kind         text
--   fn           text
--   detail       text
--   name         text
--   device       integer
--   stream       id
--   tid          id
--   start_ns     time
--   end_ns       time
--   gpu_start_ns time
--   gpu_end_ns   time
--   seen_ns      time
--   result       integer
--   bytes        bytes
--   live_bytes   bytes
--   flags        integer
--   correlation  integer
--   node         integer
--   stack        id
SELECT process, start_ns, kind, fn, detail, name, device, stream, tid, start_ns, end_ns, gpu_start_ns,
	gpu_end_ns, seen_ns, result, bytes, live_bytes, flags, correlation, node, stack
FROM op
WHERE process IN (SELECT id FROM process WHERE boot = :boot) AND start_ns >= :since AND start_ns < :until
ORDER BY process, start_ns
LIMIT :limit
