-- the allocations of a trace that are live
--
-- options: pid after
-- flags: internal
-- columns:
--   id              id
--   process         id
--   device          integer
--   kind            integer
--   address         integer
--   bytes           bytes
--   at_ns           time
--   stack           integer
--   requested_bytes bytes
SELECT a.id, a.process, a.device, a.kind, a.address, a.bytes, max(a.start_ns, coalesce(a.end_ns, 0)),
	coalesce(a.stack, 0), coalesce(a.requested_bytes, 0)
FROM allocation a
WHERE a.id > :after AND a.process IN (SELECT p.id FROM process p WHERE p.boot = :boot
	AND (:pid IS NULL OR p.pid = :pid))
ORDER BY a.id
LIMIT :limit
