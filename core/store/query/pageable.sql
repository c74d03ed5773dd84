-- copies between devices and pageable memory of the host, by stack
--
-- options: pid window by-place
-- window: 3600 s
-- limit: 100
-- about: times stacks samples
-- records: copies
-- nothing: Nothing was copied from or to pageable memory
-- columns:
--   pid         id
--   comm        text
--   kind        text
--   count       integer
--   total_ns    nanoseconds
--   bytes       bytes
--   bytes_per_s bytes_per_second
--   call_ns     nanoseconds
--   where       text
--   stack       stack
WITH c AS (
	SELECT process, detail, stack_key(stack, :by) AS stack, count(*) AS count,
		sum(gpu_end_ns - gpu_start_ns) FILTER (WHERE exact) AS ns, sum(bytes) AS bytes,
		sum(bytes) FILTER (WHERE exact) AS timed_bytes,
		sum(duration_ns) FILTER (WHERE flags & @OP_IS_NODE@ = 0) AS call_ns
	FROM op
	WHERE boot = :boot AND kind = 'copy' AND detail <> 'HtoH'
	AND flags & @OP_IS_PAGEABLE@
	AND start_ns BETWEEN :since AND :until
	AND @OF_ASKED@
	GROUP BY process, detail, 3
) SELECT p.pid, p.comm, detail, count, ns, bytes,
	CASE WHEN ns > 0 THEN CAST(timed_bytes * 1e9 / ns AS INTEGER) END,
	call_ns, stack_where(stack), @STACK_SHOWN@
FROM c
JOIN process p ON p.id = c.process
ORDER BY ns DESC, bytes DESC, p.pid, detail, stack
LIMIT :limit
