-- the functions that a trace may have
--
-- flags: internal
-- columns:
--   id   id
--   name text
SELECT id, name
FROM function
ORDER BY id
LIMIT :limit
