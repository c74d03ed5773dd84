-- what leaks or grows, by stack; with --all or --min-age all that is old
--
-- options: pid device min-age by-place all
-- limit: 100
-- about: memory stacks
-- flags: running
-- nothing: No memory is live
-- search: fn
-- columns:
--   pid            id
--   comm           text
--   verdict        text
--   kind           text
--   fn             text
--   device         id
--   bytes          bytes
--   count          integer
--   bytes_per_hour bytes
--   bytes_per_step bytes
--   full_ns        nanoseconds
--   oldest_ns      nanoseconds
--   allocations    integer
--   frees          integer
--   confidence     share
--   laplace        share
--   where          text
--   why            text
--   stack          stack
WITH asked AS MATERIALIZED (
	SELECT p.id FROM process p WHERE p.boot = :boot AND @RUNNING@ AND @ASKED@
), grown AS MATERIALIZED (
	SELECT process, stack_key(stack, :by) AS stack, fn, kind, device, max(verdict) AS verdict,
		confidence, sum(bytes_per_hour) AS per_hour, sum(bytes_per_step) AS per_step,
		growth_why(verdict, :now - since_ns, ready_ns - :now, sum(kept), sum(kept_bytes),
			usual_ns, :now - grows_ns, :now - birth_ns, allocations, frees) AS why,
		laplace_ppm AS laplace
	FROM growth WHERE process IN asked
	GROUP BY process, 2, fn, kind, device
), live AS (
	SELECT process, stack_key(stack, :by) AS stack, fn, kind, device, sum(bytes) AS bytes,
		sum(count) AS count, min(oldest_ns) AS oldest
	FROM live_sum(:boot, :pid,
		iif(:all OR NOT EXISTS (SELECT 1 FROM grown), :now - :min_age, :now))
	WHERE process IN asked
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
), room AS MATERIALIZED (
	SELECT ordinal AS device, max(memory_bytes)
		- (SELECT total(m.live_bytes) FROM memory m JOIN memory_kind k ON k.id = m.kind
		JOIN process p ON p.id = m.process WHERE m.device = d.ordinal AND p.boot = :boot
		AND @RUNNING@ AND k.name IN (@DEVICE_MEMORY@)) AS bytes
	FROM device d WHERE process IN (SELECT id FROM process WHERE boot = :boot)
	AND memory_bytes > 0
	GROUP BY ordinal
) SELECT p.pid, p.comm, coalesce(@VERDICT@, 'not yet'), k.name,
	coalesce(f.name, 'function ' || live.fn),
	nullif(live.device, -1), live.bytes, live.count, nullif(g.per_hour, 0),
	nullif(g.per_step, 0),
	CASE WHEN g.per_hour > 0 AND k.name IN (@DEVICE_MEMORY@)
		THEN CAST(max(room.bytes, 0) * 3600e9 / g.per_hour AS INTEGER) END,
	:now - live.oldest,
	max(live.count, coalesce(seen.allocations, 0)), coalesce(seen.frees, 0),
	nullif(g.confidence * 10000, 0), g.laplace,
	stack_where(live.stack),
	coalesce(g.why, 'its blocks were not followed one by one'),
	iif(:by > 2, NULL, live.stack)
FROM live
JOIN process p ON p.id = live.process
LEFT JOIN grown g USING (process, stack, fn, kind, device)
LEFT JOIN seen USING (process, stack, fn, device)
LEFT JOIN function f ON f.id = live.fn
LEFT JOIN memory_kind k ON k.id = live.kind
LEFT JOIN room ON room.device = live.device
WHERE :all OR g.verdict > 3 OR (g.verdict IS NULL AND live.oldest <= :now - :min_age)
ORDER BY iif(g.verdict > 4, g.verdict, 0) DESC, live.bytes DESC, live.count DESC, p.pid
LIMIT :limit
