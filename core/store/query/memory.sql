-- live and peak bytes by process, device and kind
--
-- options: pid device by-stack
-- limit: 1000
-- about: memory pools
-- nothing: No memory was allocated
-- columns:
--   pid            id
--   comm           text
--   state          text
--   device         id
--   kind           text
--   live_bytes     bytes
--   live_count     integer
--   peak_bytes     bytes
--   reserved_bytes bytes
--   stack          stack
WITH held AS (
	SELECT process, device,
		(SELECT id FROM memory_kind WHERE name = 'pool') AS kind,
		sum(bytes) AS bytes
	FROM pool
	WHERE kind = (SELECT id FROM pool_kind WHERE name = 'own')
	GROUP BY process, device
), m AS (
	SELECT process, device, kind,
		coalesce(live_bytes, 0) AS live_bytes,
		coalesce(live_count, 0) AS live_count,
		coalesce(peak_bytes, 0) AS peak_bytes, bytes, NULL AS stack
	FROM memory FULL JOIN held USING (process, device, kind)
	WHERE :by <> 1
	UNION ALL
	SELECT process, device, kind, sum(bytes), sum(count), NULL, NULL,
		stack
	FROM live_sum(:boot, :pid, :now)
	WHERE :by = 1 AND process IN (SELECT p.id FROM process p
	WHERE p.boot = :boot AND @RUNNING@ AND @ASKED@)
	GROUP BY process, device, kind, stack
) SELECT p.pid, p.comm, @STATE@, nullif(m.device, -1), k.name,
	m.live_bytes, m.live_count, m.peak_bytes, m.bytes, m.stack
FROM m
JOIN process p ON p.id = m.process
LEFT JOIN memory_kind k ON k.id = m.kind
WHERE p.boot = :boot AND @ASKED@
AND (:device IS NULL OR m.device = :device)
ORDER BY @RUNNING@ DESC, m.live_bytes DESC, m.peak_bytes DESC,
	p.pid, m.device, m.kind
LIMIT :limit
