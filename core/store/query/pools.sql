-- memory pools: bytes held and used
--
-- options: pid device
-- limit: 1000
-- about: pools
-- records: memory
-- nothing: No memory pool was used
-- columns:
--   pid             id
--   comm            text
--   state           text
--   device          id
--   pool            handle
--   kind            text
--   reserved_bytes  bytes
--   used_bytes      bytes
--   used            share
--   threshold_bytes bytes
--   peak_bytes      bytes
--   peak_used_bytes bytes
--   told_ns         time
SELECT p.pid, p.comm, @STATE@, nullif(m.device, -1), iif(k.name = 'allocator', NULL, m.address), k.name,
	m.bytes, m.used_bytes, share(m.used_bytes, m.bytes),
	m.threshold_bytes, m.peak_bytes, m.peak_used_bytes, m.told_ns
FROM pool m
JOIN process p ON p.id = m.process
LEFT JOIN pool_kind k ON k.id = m.kind
WHERE p.boot = :boot AND @ASKED@
AND (:device IS NULL OR m.device = :device)
ORDER BY @RUNNING@ DESC, m.bytes DESC, m.peak_bytes DESC, p.pid,
	m.address
LIMIT :limit
