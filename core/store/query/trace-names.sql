-- the names that a trace may have: of kernels, ranges and devices
--
-- options: after
-- flags: internal
-- columns:
--   id   id
--   text text
SELECT id, text
FROM name
WHERE id > :after AND @NAME_SHOWN@
ORDER BY id
LIMIT :limit
