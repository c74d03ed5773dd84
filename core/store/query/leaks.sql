-- live allocations older than a minimum age (60 s) by stack
--
-- options: pid device min-age by-place
-- limit: 100
-- about: memory stacks
-- flags: running
-- nothing: No memory is live
-- search: fn
-- columns:
--   pid         id
--   comm        text
--   kind        text
--   fn          text
--   device      id
--   bytes       bytes
--   count       integer
--   oldest_ns   nanoseconds
--   allocations integer
--   frees       integer
--   where       text
--   stack       stack
WITH live AS (
	SELECT process, stack_key(stack, :by) AS stack, fn, kind, device, sum(bytes) AS bytes,
		sum(count) AS count, min(oldest_ns) AS oldest
	FROM live_sum(:boot, :pid, :now - :min_age)
	WHERE process IN (SELECT p.id FROM process p
	WHERE p.boot = :boot AND @RUNNING@ AND @ASKED@)
	AND kind IN (SELECT id FROM memory_kind WHERE counts)
	AND (:device IS NULL OR device = :device)
	GROUP BY process, 2, fn, kind, device
), seen AS (
	SELECT process, stack_key(stack, :by) AS stack, fn, device,
		sum(CASE WHEN freed THEN 0 ELSE calls - captured END)
		AS allocations,
		sum(CASE WHEN freed THEN calls ELSE 0 END) AS frees
	FROM rollup
	WHERE boot = :boot AND kind IN (SELECT id FROM kind WHERE name = 'alloc') AND result = 0
	AND (process, stack_key(stack, :by), fn) IN (SELECT process, stack, fn FROM live)
	GROUP BY process, 2, fn, device
) SELECT p.pid, p.comm, k.name, coalesce(f.name, 'function ' || live.fn),
	nullif(live.device, -1), live.bytes, live.count, :now - live.oldest,
	max(live.count, coalesce(seen.allocations, 0)), coalesce(seen.frees, 0),
	stack_where(live.stack), iif(:by > 2, NULL, live.stack)
FROM live
JOIN process p ON p.id = live.process
LEFT JOIN seen USING (process, stack, fn, device)
LEFT JOIN function f ON f.id = live.fn
LEFT JOIN memory_kind k ON k.id = live.kind
ORDER BY live.bytes DESC, live.count DESC, p.pid
LIMIT :limit
