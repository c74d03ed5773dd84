-- the handle of each stream, from which one like it can be made
--
-- flags: internal
-- columns:
--   id           id
--   handle       handle
--   non_blocking integer
SELECT id, handle, non_blocking FROM stream
ORDER BY id
LIMIT :limit
