-- for 'tsctl oom show': who held what when an allocation failed
--
-- options: number
-- limit: 1000
-- about: memory
-- flags: internal
-- columns:
--   pid          id
--   comm         text
--   failed       integer
--   kind         text
--   bytes        bytes
--   count        integer
--   recent_bytes bytes
--   reserved_bytes bytes
--   cached_bytes bytes
WITH o AS (
	SELECT * FROM oom WHERE id = :number AND process IN (SELECT id FROM process WHERE boot = :boot)
), held AS (
	SELECT p.pid, p.comm, m.process = o.process AS failed, k.name AS kind, m.bytes, m.count,
		m.recent_bytes, nullif(m.reserved_bytes, 0) AS reserved,
		iif(m.reserved_bytes, max(m.reserved_bytes - m.bytes, 0), NULL) AS cached,
		iif(k.counts = 1, m.bytes, 0) AS counted
	FROM o JOIN oom_memory m ON m.oom = o.id AND m.take = o.take
	JOIN process p ON p.id = m.process
	LEFT JOIN memory_kind k ON k.id = m.kind
), others AS (
	SELECT o.held_bytes - (SELECT coalesce(sum(counted), 0) FROM held) AS bytes FROM o
) SELECT pid, comm, failed, kind, bytes, count, recent, reserved, cached FROM (
	SELECT pid, comm, failed, kind, bytes, count, recent_bytes AS recent, reserved, cached FROM held
	UNION ALL
	SELECT NULL, 'others', 0, NULL, bytes, NULL, NULL, NULL, NULL FROM others WHERE bytes > 0
)
ORDER BY failed DESC, pid IS NULL, sum(bytes) OVER (PARTITION BY pid) DESC, pid, bytes DESC
LIMIT :limit
