-- live and peak bytes by process, device and kind
--
-- options: pid device by-stack
-- limit: 1000
-- about: memory pools
-- nothing: No memory was allocated
-- columns:
--   pid             id
--   comm            text
--   state           text
--   device          id
--   kind            text
--   live_bytes      bytes
--   live_count      integer
--   peak_bytes      bytes
--   reserved_bytes  bytes
--   cached_bytes    bytes
--   unknown_bytes   bytes
--   requested_bytes bytes
--   rounding_bytes  bytes
--   stack           stack
WITH held AS (
	SELECT p.process, p.device, m.id AS kind, sum(p.bytes) AS bytes,
		sum(p.used_bytes) AS used, sum(p.peak_used_bytes) AS peak
	FROM pool p
	JOIN pool_kind k ON k.id = p.kind
	JOIN memory_kind m ON m.name = CASE k.name WHEN 'own' THEN 'pool'
	WHEN 'allocator' THEN 'tensor' END
	GROUP BY p.process, p.device, m.id
), m AS (
	SELECT process, device, kind,
		iif(k.name = 'tensor', coalesce(used, live_bytes), coalesce(live_bytes, 0)) AS live_bytes,
		coalesce(live_count, 0) AS live_count,
		iif(k.name = 'tensor', coalesce(peak, peak_bytes), coalesce(peak_bytes, 0)) AS peak_bytes,
		bytes, max(bytes - used, 0) AS cached,
		-- Of what the allocator says, that which is in no block that we know.
		iif(k.name = 'tensor', max(used - coalesce(live_bytes, 0), 0), NULL) AS unknown,
		nullif(requested_bytes, 0) AS requested, iif(requested_bytes > 0, rounding_bytes, NULL) AS rounding,
		NULL AS stack
	FROM memory FULL JOIN held USING (process, device, kind)
	LEFT JOIN memory_kind k ON k.id = kind
	WHERE :by <> 1
	UNION ALL
	SELECT process, device, kind, sum(bytes), sum(count), NULL, NULL, NULL, NULL,
		nullif(sum(requested_bytes), 0), iif(sum(requested_bytes) > 0, sum(rounding_bytes), NULL),
		stack
	FROM live_sum(:boot, :pid, :now)
	WHERE :by = 1 AND process IN (SELECT p.id FROM process p
	WHERE p.boot = :boot AND @RUNNING@ AND @ASKED@)
	GROUP BY process, device, kind, stack
) SELECT p.pid, p.comm, @STATE@, nullif(m.device, -1), k.name,
	m.live_bytes, m.live_count, m.peak_bytes, m.bytes, m.cached, m.unknown, m.requested,
	m.rounding, m.stack
FROM m
JOIN process p ON p.id = m.process
LEFT JOIN memory_kind k ON k.id = m.kind
WHERE p.boot = :boot AND @ASKED@
AND (:device IS NULL OR m.device = :device)
ORDER BY @RUNNING@ DESC, m.live_bytes DESC, m.peak_bytes DESC,
	p.pid, m.device, m.kind
LIMIT :limit
