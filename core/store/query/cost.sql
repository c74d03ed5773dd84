-- what tracing costs each process, and its budget
--
-- options: pid window
-- window: 3600 s
-- limit: 1000
-- flags: running
-- nothing: No frequent call was seen
-- search: comm
-- columns:
--   pid         id
--   comm        text
--   part        text
--   cost        share
--   low         share
--   high        share
--   budget      share
--   until_ns    time
--   over        integer
--   watched     share
--   whole       share
--   whole_low   share
--   whole_high  share
--   cold        share
--   cpu         share
--   calls_per_s integer
--   hit_ns      nanoseconds
--   turns       integer
--   measured    text
--   turned_ns   time
--   records     integer
--   inside      integer
--   cycles      integer
WITH own AS (
	SELECT process, share(own_ns, wall_ns) AS cpu, records
	FROM collect
	WHERE until_ns IS NULL
), part AS (
	SELECT process, part, @PRICE_PART@ AS name, cost_ppm AS cost,
		CASE WHEN measured THEN cost_low_ppm END AS low,
		CASE WHEN measured THEN cost_high_ppm END AS high,
		nullif(budget_ppm, 0) AS budget, nullif(until_ns, 0) AS until_ns, over, share_ppm AS watched,
		whole_ppm AS whole, CASE WHEN measured THEN whole_low_ppm END AS whole_low,
		CASE WHEN measured THEN whole_high_ppm END AS whole_high, cold_ppm AS cold,
		nullif(cpu_ppm, 0) AS cpu, calls_per_s, nullif(hit_ns, 0) AS hit_ns, turns,
		CASE WHEN measured THEN 'in place' ELSE 'estimated' END AS measured,
		nullif(turned_ns, 0) AS turned_ns
	FROM price
	WHERE @PRICE_HOLDS@
	UNION ALL
-- The library's thread, which nobody waits for.
	SELECT process, NULL, 'thread', NULL, NULL, NULL, NULL, NULL, 0, NULL, NULL, NULL, NULL, NULL,
		cpu, NULL, NULL, 0, 'counted', NULL
	FROM own
	WHERE cpu IS NOT NULL
) SELECT p.pid, p.comm, part.name, cost, low, high, budget, until_ns, over, watched, whole, whole_low, whole_high, cold,
	part.cpu, calls_per_s, hit_ns, turns, measured, turned_ns,
	CASE WHEN part = @PART_EXACT@ THEN own.records END, nullif(p.light, 0),
	nullif((SELECT cycles FROM collect c WHERE c.process = part.process), 0)
FROM part
JOIN process p ON p.id = part.process
LEFT JOIN own ON own.process = part.process
WHERE p.boot = :boot AND @RUNNING@ AND @ASKED@
ORDER BY cost DESC, p.pid
LIMIT :limit
