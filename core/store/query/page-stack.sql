-- for the page: a stack, by its id
--
-- options: after
-- flags: internal
-- columns:
--   where text
--   stack stack
SELECT stack_where(id), id
FROM stack
WHERE id = :after
ORDER BY id
LIMIT :limit
