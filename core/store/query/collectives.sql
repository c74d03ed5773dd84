-- calls of NCCL by communicator: bandwidth, who comes last, who waits
--
-- A rank waits in its kernel for the others, and the last one for nobody: its time is what the
-- bandwidth is made of, by the formulas of nccl-tests. Counts of some calls are of one rank's part.
--
-- options: pid window
-- window: 3600 s
-- limit: 100
-- about: calls times collectives
-- nothing: No call of NCCL was seen
-- columns:
--   communicator text
--   size         integer
--   ranks        integer
--   operation    text
--   type         text
--   reduction    text
--   calls        integer
--   shared       integer
--   bytes        bytes
--   timed        integer
--   total_ns     nanoseconds
--   mean_ns      nanoseconds
--   shortest_ns  nanoseconds
--   longest_ns   nanoseconds
--   waited_ns    nanoseconds
--   last         id
--   last_pid     id
--   algbw        bytes_per_second
--   busbw        bytes_per_second
WITH c AS MATERIALIZED (
	SELECT process, communicator, operation, type, reduction, size, sum(calls) AS calls,
		sum(runs) AS runs, sum(shared) AS shared, total(bytes) AS bytes,
		sum(timed) AS timed, total(timed_bytes) AS timed_bytes, total(total_ns) AS ns
	FROM collective
	WHERE @IN_WINDOW@
	GROUP BY process, communicator, operation, type, reduction, size
), r AS MATERIALIZED (
	SELECT @COMMUNICATOR_NAME@ AS name, k.size AS n, coalesce(k.rank, -1) AS rank, p.pid,
		c.operation, c.type, c.reduction, c.size, c.calls, c.runs, c.shared, c.bytes,
		c.timed, c.timed_bytes, c.ns, c.ns / nullif(c.timed, 0) AS mean
	FROM c
	JOIN process p ON p.id = c.process
	LEFT JOIN communicator k ON k.process = c.process AND k.number = c.communicator
), last AS (
	SELECT name, operation, type, reduction, size, rank, pid, timed_bytes / timed AS bytes,
		min(mean) AS mean
	FROM r
	WHERE timed > 0
	GROUP BY name, operation, type, reduction, size
), s AS (
	SELECT name, operation, type, reduction, size, max(n) AS n, count(*) AS ranks,
		sum(calls) AS calls, sum(shared) AS shared, sum(bytes) / sum(runs) AS bytes,
		sum(timed) AS timed, sum(ns) AS ns, max(mean) AS longest
	FROM r
	GROUP BY name, operation, type, reduction, size
), b AS (
	SELECT s.*, last.rank AS last, last.pid AS last_pid, last.mean AS shortest,
		iif(@COLLECTIVE_IS_OF_PARTS@, s.n, 1) AS parts,
		last.bytes * 1e9 / nullif(last.mean, 0) AS rate,
		CASE @COLLECTIVE_FACTOR@ WHEN 2 THEN 2.0 * (n - 1) / n WHEN 1 THEN 1.0 * (n - 1) / n
		ELSE 1 END AS factor
	FROM s
	LEFT JOIN last USING (name, operation, type, reduction, size)
) SELECT name, n, ranks, @COLLECTIVE_NAME@, @NCCL_TYPE_NAME@, @NCCL_REDUCTION_NAME@,
	calls, shared, CAST(bytes * parts AS INTEGER) AS moved, timed,
	iif(timed > 0, CAST(ns AS INTEGER), NULL), CAST(ns / nullif(timed, 0) AS INTEGER),
	CAST(shortest AS INTEGER), CAST(longest AS INTEGER),
	CAST(max(ns - shortest * timed, 0) AS INTEGER), nullif(last, -1), last_pid,
	CAST(rate * parts AS INTEGER), CAST(rate * parts * factor AS INTEGER)
FROM b
ORDER BY ns DESC, calls DESC, name, operation, moved DESC, type, reduction
LIMIT :limit
