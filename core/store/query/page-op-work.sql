-- for the page: the work that a stream has at the start of the window, or the next one within `step`
--
-- options: process stream window step
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
WHERE @OF_PROCESS@ AND stream = coalesce(:stream, 0) AND @IS_WORK_OP@
AND gpu_end_ns >= :since - :step AND start_ns <= :since + :step AND gpu_start_ns <= :since + :step
ORDER BY max(gpu_start_ns - :since, :since - gpu_end_ns, 0), bounds, gpu_end_ns - gpu_start_ns
LIMIT :limit
