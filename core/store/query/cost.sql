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
SELECT p.pid, p.comm, @PRICE_PART@, cost_ppm,
	CASE WHEN measured THEN cost_low_ppm END, CASE WHEN measured THEN cost_high_ppm END,
	nullif(budget_ppm, 0), nullif(until_ns, 0), over, share_ppm, whole_ppm,
	CASE WHEN measured THEN whole_low_ppm END, CASE WHEN measured THEN whole_high_ppm END,
	cold_ppm, nullif(cpu_ppm, 0), calls_per_s, nullif(hit_ns, 0), turns,
	CASE WHEN measured THEN 'in place' ELSE 'estimated' END, nullif(turned_ns, 0)
FROM price
JOIN process p ON p.id = price.process
WHERE p.boot = :boot AND @RUNNING@ AND @ASKED@ AND @PRICE_HOLDS@
ORDER BY cost_ppm DESC, p.pid
LIMIT :limit
