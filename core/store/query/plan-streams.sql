-- the streams of this boot, for a plan
--
-- flags: internal
-- columns:
--   id           id
--   process      id
--   handle       handle
--   context      handle
--   non_blocking integer
SELECT id, process, handle, context, non_blocking FROM stream
WHERE process IN (SELECT id FROM process WHERE boot = (SELECT max(id) FROM boot))
ORDER BY id
LIMIT :limit
