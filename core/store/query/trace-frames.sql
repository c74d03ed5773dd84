-- the frames of the stacks of a trace, innermost first
--
-- options: pid after
-- flags: internal
-- columns:
--   stack   id
--   depth   integer
--   symbol  text
--   file    text
--   offset  integer
--   address integer
--   kind    integer
--   source  text
--   line    integer
--   inlined integer
SELECT stack, depth, symbol, file, offset, address, kind, source, line, inlined
FROM frame
WHERE stack > :after AND stack IN (SELECT id FROM stack WHERE @OF_BOOT@)
ORDER BY stack, depth
LIMIT :limit
