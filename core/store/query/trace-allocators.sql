-- what the allocators of frameworks in a trace said last
--
-- options: pid
-- flags: internal
-- columns:
--   process    id
--   device     integer
--   bytes      bytes
--   used_bytes bytes
SELECT o.process, o.device, o.bytes, o.used_bytes
FROM pool o
JOIN pool_kind k ON k.id = o.kind
WHERE k.name = 'allocator' AND o.process IN (SELECT p.id FROM process p WHERE p.boot = :boot
	AND (:pid IS NULL OR p.pid = :pid))
ORDER BY o.process, o.device
LIMIT :limit
