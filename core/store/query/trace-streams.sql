-- the streams of a trace
--
-- options: pid
-- flags: internal
-- columns:
--   id      id
--   process id
--   handle  handle
--   tid     id
--   device  integer
--   context handle
SELECT id, process, handle, tid, device, context
FROM stream
WHERE @OF_BOOT@
ORDER BY id
LIMIT :limit
