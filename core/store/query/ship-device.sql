-- for tracesmith-ship: the devices of the processes that ran in a minute, in the exact tier
--
-- options: boot number
-- flags: internal
-- columns:
--   process         id
--   device          id
--   first_ns        time
--   uuid            text
--   name            text
--   memory_bytes    bytes
--   multiprocessors integer
--   clock_khz       integer
SELECT p.id, d.ordinal, p.first_ns, d.uuid, n.text, d.memory_bytes, d.multiprocessors, d.clock_khz
FROM process p JOIN device d ON d.process = p.id LEFT JOIN name n ON n.id = d.name
WHERE d.multiprocessors > 0 AND @RAN_IN_MINUTE@
ORDER BY p.id, d.ordinal
LIMIT :limit
