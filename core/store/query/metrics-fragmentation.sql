-- for metrics: how fragmented the pools of running processes are; asked now and then
--
-- flags: internal
-- columns:
--   process  id
--   device   id
--   pool     text
--   index    share
--   unusable bytes
SELECT process, device, @MEMORY_POOL@, index_ppm, unusable_bytes
FROM fragment(:boot, NULL, :now, 0)
WHERE pool <> @POOL_IS_UNKNOWN@
AND process IN (SELECT p.id FROM process p WHERE p.boot = :boot AND @RUNNING@)
ORDER BY 1, 2, 3
LIMIT :limit
