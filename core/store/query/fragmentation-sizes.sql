-- free memory between the blocks of each pool, by the size of the pieces
--
-- options: pid device
-- limit: 1000
-- about: memory pools
-- flags: running
-- nothing: No memory lies free between blocks
-- columns:
--   pid        id
--   comm       text
--   device     id
--   kind       text
--   pool       text
--   from_bytes bytes
--   pieces     integer
--   free_bytes bytes
--   free       share
SELECT p.pid, p.comm, nullif(f.device, -1), iif(pool = @POOL_IS_DRIVER@, 'device', 'tensor'),
	@MEMORY_POOL@, f.size_bytes, f.pieces, f.free_bytes,
	share(f.free_bytes, sum(f.free_bytes) OVER (PARTITION BY f.process, f.device, f.pool))
FROM fragment(:boot, :pid, :now, 2) f
JOIN process p ON p.id = f.process
WHERE p.boot = :boot AND @RUNNING@ AND @ASKED@
AND (:device IS NULL OR f.device = :device)
ORDER BY p.pid, f.device, f.pool, f.size_bytes DESC
LIMIT :limit
