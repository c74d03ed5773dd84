-- the symbol of each kernel that ran
--
-- flags: internal
-- columns:
--   id     id
--   symbol text
SELECT id, symbol FROM name WHERE id IN (SELECT name FROM work)
ORDER BY id
LIMIT :limit
