-- how fragmented the memory of each pool is, and which stacks' blocks split it
--
-- options: pid device by-stack by-place
-- limit: 1000
-- about: memory pools stacks
-- flags: running
-- nothing: No memory is live
-- columns:
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
--   typical_bytes  bytes
--   unusable       share
--   splits         integer
--   split_bytes    bytes
--   oldest_ns      nanoseconds
--   where          text
--   stack          stack
WITH asked AS MATERIALIZED (
	SELECT p.id FROM process p WHERE p.boot = :boot AND @RUNNING@ AND @ASKED@
), measured AS (
	SELECT process, device, iif(pool = @POOL_IS_DRIVER@, 'device', 'tensor') AS kind,
		@MEMORY_POOL@ AS pool,
		iif(pool = @POOL_IS_UNKNOWN@, NULL, index_ppm) AS index_ppm,
		segment_bytes, used_bytes,
		iif(pool = @POOL_IS_UNKNOWN@, NULL, free_bytes) AS free_bytes,
		iif(pool = @POOL_IS_UNKNOWN@, NULL, pieces) AS pieces,
		iif(pool = @POOL_IS_UNKNOWN@, NULL, largest_bytes) AS largest_bytes,
		nullif(typical_bytes, 0) AS typical_bytes,
		iif(pool = @POOL_IS_UNKNOWN@, NULL, unusable_bytes) AS unusable_bytes,
		nullif(sum(splits), 0) AS splits, nullif(sum(split_bytes), 0) AS split_bytes,
		min(nullif(oldest_ns, 0)) AS oldest, stack_key(nullif(stack, 0), :by) AS stack
	FROM fragment(:boot, :pid, :now, :by > 0)
	WHERE process IN asked
	GROUP BY process, device, fragment.pool, stack_key(nullif(stack, 0), :by)
	UNION ALL
	-- Physical memory, and as much of it as is mapped.
	SELECT process, device, 'physical', NULL, NULL, held, min(held, mapped), held - min(held, mapped),
		NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
	FROM (
		SELECT process, device, sum(iif(k.name = 'physical', live_bytes, 0)) AS held,
			sum(iif(k.name = 'mapped', live_bytes, 0)) AS mapped
		FROM memory JOIN memory_kind k ON k.id = kind
		WHERE process IN asked AND :by = 0 AND k.name IN ('physical', 'mapped')
		GROUP BY process, device
	) WHERE held > 0
	UNION ALL
	SELECT process, device, 'pool', printf('0x%x', address), NULL, bytes, used_bytes,
		max(bytes - used_bytes, 0), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
	FROM pool
	WHERE process IN asked AND :by = 0 AND bytes > 0
	AND kind = (SELECT id FROM pool_kind WHERE name = 'own')
) SELECT p.pid, p.comm, nullif(m.device, -1), m.kind, m.pool, m.index_ppm,
	m.segment_bytes, m.used_bytes, m.free_bytes, m.pieces, m.largest_bytes, m.typical_bytes,
	share(m.unusable_bytes, m.segment_bytes), m.splits, m.split_bytes, :now - m.oldest,
	stack_where(m.stack), iif(:by > 2, NULL, m.stack)
FROM measured m
JOIN process p ON p.id = m.process
WHERE (:device IS NULL OR m.device = :device)
ORDER BY iif(:by, m.split_bytes, m.index_ppm * coalesce(m.free_bytes, 0)) DESC, m.free_bytes DESC,
	p.pid, m.device, m.kind, m.pool
LIMIT :limit
