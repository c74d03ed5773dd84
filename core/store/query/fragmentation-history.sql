-- how fragmented each pool was, minute by minute, from when memory was there
--
-- options: pid device window
-- window: 3600 s
-- limit: 1000
-- about: memory pools
-- nothing: No pool has been measured in this window, which is done once a minute
-- columns:
--   time_ns        time
--   pid            id
--   comm           text
--   device         id
--   kind           text
--   pool           text
--   index          share
--   reserved_bytes bytes
--   used_bytes     bytes
--   free_bytes     bytes
--   pieces         integer
--   largest_bytes  bytes
--   unusable       share
SELECT f.second * 1000000000, p.pid, p.comm, nullif(f.device, -1),
	iif(f.pool = @POOL_IS_DRIVER@, 'device', 'tensor'), @MEMORY_POOL@, f.index_ppm, f.segment_bytes,
	f.used_bytes, f.free_bytes, f.pieces, f.largest_bytes, share(f.unusable_bytes, f.segment_bytes)
FROM fragmentation f
JOIN process p ON p.id = f.process
WHERE f.boot = :boot AND p.boot = :boot AND @ASKED@
AND f.second >= :since / 1000000000 AND f.second < :until / 1000000000
AND (:device IS NULL OR f.device = :device)
ORDER BY p.pid, f.device, f.pool, f.second DESC
LIMIT :limit
