-- for the page: what allocations and frees of device memory changed, by the code path that allocated
--
-- Rows are in order of time. What was held before all that is stored is at time 0, and what a
-- process had when it ended goes then. A free whose allocation is unknown has no stack.
--
-- options: pid window
-- flags: internal
-- about: memory stacks
-- columns:
--   at_ns   time
--   process id
--   path    integer
--   bytes   bytes
--   count   integer
WITH living AS MATERIALIZED (
	SELECT id, @RUNNING@ AS runs, coalesce(exit_ns, 0) AS exit_ns FROM process p
	WHERE @IN_LIFE@
), event AS (
	SELECT process, detail, address, kind = 'alloc' AS adds, bytes, stack,
		iif(kind = 'alloc', coalesce(end_ns, start_ns), start_ns) AS at
	FROM op
	WHERE process IN (SELECT id FROM living) AND kind IN ('alloc', 'free')
	AND result = 0 AND bytes > 0 AND detail IN (@DEVICE_MEMORY@)
), change AS MATERIALIZED (
	SELECT at, process, iif(adds, bytes, -bytes) AS bytes, iif(adds, 1, -1) AS count,
		coalesce(iif(adds, stack, iif(lag(adds) OVER alike, lag(stack) OVER alike, 0)), 0)
		AS path
	FROM event
	WINDOW alike AS (PARTITION BY process, detail, address ORDER BY at, adds)
), total AS (
	SELECT process, path, CAST(total(bytes) AS INTEGER) AS bytes,
		sum(count) AS count
	FROM change
	GROUP BY process, path
), held AS (
	SELECT process, coalesce(stack, 0) AS path, CAST(total(bytes) AS INTEGER) AS bytes,
		sum(count) AS count
	FROM live_sum(:boot, :pid, :now)
	WHERE process IN (SELECT id FROM living WHERE runs)
	AND kind IN (SELECT id FROM memory_kind WHERE name IN (@DEVICE_MEMORY@))
	GROUP BY 1, 2
)
SELECT at, process, path, bytes, count FROM change WHERE at < :until
UNION ALL
SELECT 0, process, path, coalesce(held.bytes, 0) - coalesce(total.bytes, 0),
	coalesce(held.count, 0) - coalesce(total.count, 0)
FROM held FULL JOIN total USING (process, path)
WHERE process IN (SELECT id FROM living WHERE runs)
AND coalesce(held.bytes, 0) <> coalesce(total.bytes, 0)
UNION ALL
SELECT iif(total.bytes < 0, 0, l.exit_ns), process, path, -total.bytes, -total.count
FROM total JOIN living l ON l.id = process
WHERE NOT l.runs AND total.bytes <> 0 AND (total.bytes < 0 OR l.exit_ns < :until)
ORDER BY 1
LIMIT :limit
