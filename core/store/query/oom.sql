-- allocations that failed for lack of memory; 'tsctl oom show N' says who held what
--
-- options: pid device window number
-- limit: 100
-- about: memory stacks
-- nothing: No allocation failed for lack of memory
-- search: fn
-- columns:
--   oom        id
--   time_ns    time
--   pid        id
--   comm       text
--   device     id
--   outcome    text
--   fn         text
--   kind       text
--   bytes      bytes
--   failures   integer
--   held_bytes bytes
--   own_bytes  bytes
--   cached_bytes bytes
--   free_bytes bytes
--   pieces     integer
--   largest_bytes bytes
--   fragmentation share
--   where      text
--   enough     text
--   stack      stack
WITH own AS (
	SELECT m.oom, m.process, m.take, sum(m.bytes) AS bytes
	FROM oom_memory m JOIN memory_kind k ON k.id = m.kind AND k.counts = 1
	GROUP BY m.oom, m.process, m.take
) SELECT o.id, o.time_ns, p.pid, p.comm, nullif(o.device, -1),
	CASE WHEN o.recovered_ns IS NOT NULL AND NOT o.reports THEN 'recovered' ELSE 'failed' END,
	coalesce(f.name, 'function ' || o.fn), k.name, coalesce(o.wanted_bytes, o.bytes), max(o.failures, o.reports) + o.skipped,
	o.held_bytes, coalesce(own.bytes, 0),
	iif(o.reserved_bytes, max(o.reserved_bytes - o.live_bytes, 0), NULL),
	iif(o.room_ns IS NULL, NULL, o.free_bytes),
	nullif(o.pieces, 0), iif(o.pieces, o.piece_bytes, NULL), iif(o.pieces, o.fragment_ppm, NULL),
	stack_where(o.stack),
	oom_why(o.bytes, o.wanted_bytes, iif(o.room_ns IS NULL, NULL, o.free_bytes), o.held_bytes,
		own.bytes, o.live_bytes, o.reserved_bytes, o.pieces, o.pieces_bytes, o.piece_bytes), o.stack
FROM oom o
JOIN process p ON p.id = o.process
LEFT JOIN own ON own.oom = o.id AND own.process = o.process AND own.take = o.take
LEFT JOIN function f ON f.id = o.fn
LEFT JOIN memory_kind k ON k.id = o.kind
WHERE p.boot = :boot AND @ASKED@
AND o.time_ns BETWEEN :since AND :until
AND (:device IS NULL OR o.device = :device)
AND (:number IS NULL OR o.id = :number)
ORDER BY o.id DESC
LIMIT :limit
