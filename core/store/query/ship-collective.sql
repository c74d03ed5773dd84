-- for tracesmith-ship: what was called of NCCL in a minute, by communicator
--
-- options: boot number
-- flags: internal
-- columns:
--   process      id
--   start_ns     time
--   second       integer
--   number       integer
--   communicator text
--   rank         id
--   size         integer
--   operation    text
--   type         text
--   reduction    text
--   peer         id
--   log2_bytes   integer
--   calls        integer
--   bytes        bytes
--   runs         integer
--   shared       integer
--   timed        integer
--   timed_bytes  bytes
--   total_ns     nanoseconds
--   min_ns       nanoseconds
--   max_ns       nanoseconds
SELECT c.process, @MINUTE_NS@, @MINUTE_NS@ / 1000000000, c.communicator,
	CASE WHEN k.id <> 0 THEN printf('%016x', k.id) ELSE '' END, coalesce(k.rank, -1),
	coalesce(k.size, 0), coalesce(@COLLECTIVE_NAME@, ''), coalesce(@NCCL_TYPE_NAME@, ''),
	coalesce(@NCCL_REDUCTION_NAME@, ''), c.peer, c.size, sum(c.calls),
	CAST(total(c.bytes) AS INTEGER), sum(c.runs), sum(c.shared), sum(c.timed),
	CAST(total(c.timed_bytes) AS INTEGER), CAST(total(c.total_ns) AS INTEGER),
	coalesce(min(iif(c.timed > 0, c.min_ns, NULL)), 0), max(c.max_ns)
FROM (SELECT * FROM collective WHERE @IN_MINUTE@) c
LEFT JOIN communicator k ON k.process = c.process AND k.number = c.communicator
GROUP BY c.process, c.communicator, c.operation, c.type, c.reduction, c.peer, c.size
ORDER BY c.process, c.communicator, c.operation, c.type, c.reduction, c.peer, c.size
LIMIT :limit
