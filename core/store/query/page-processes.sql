-- for the page: the processes of a window
--
-- options: pid window
-- flags: internal
-- columns:
--   id   id
--   pid  id
--   comm text
SELECT id, pid, comm
FROM process p
WHERE @IN_LIFE@
ORDER BY id
LIMIT :limit
