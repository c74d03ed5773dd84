-- where a recording starts: the last stored batch, the time up to which rows are stored, and the boot
--
-- flags: internal quick
-- columns:
--   batch   integer
--   told_ns time
--   boot    id
SELECT next_batch - 1, last_ns, id
FROM boot
WHERE id = :boot
ORDER BY id
LIMIT :limit
