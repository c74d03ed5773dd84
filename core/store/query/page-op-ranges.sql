-- for the page: the range that a thread is in at the start of the window, or the next one within `step`
--
-- options: process tid window step
-- flags: internal
-- limit: 1
-- columns:
--   name         text
--   kind         text
--   fn           text
--   detail       text
--   pid          id
--   tid          id
--   stream       id
--   device       id
--   start_ns     time
--   call_ns      nanoseconds
--   gpu_start_ns time
--   gpu_ns       nanoseconds
--   delay_ns     nanoseconds
--   seen_ns      time
--   bounds       integer
--   result       integer
--   bytes        bytes
--   grid         text
--   block        text
--   shared_bytes bytes
--   registers    integer
--   stack        stack
SELECT @OP_SHOWN@
FROM op
WHERE @OF_PROCESS@ AND tid = :tid AND kind = 'range'
AND coalesce(end_ns, start_ns) >= :since - :step AND start_ns <= :since + :step
ORDER BY max(start_ns - :since, :since - coalesce(end_ns, start_ns), 0), bounds,
	coalesce(end_ns, start_ns) - start_ns
LIMIT :limit
