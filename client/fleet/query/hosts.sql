-- hosts: when each was last heard of, and what runs there
--
-- options: host since
-- window: 30 d
-- columns:
--   host       text
--   seen       time
--   lag        nanoseconds
--   gpus       integer
--   cpus       integer
--   boots      integer
--   machines   integer
--   tracesmith text
--   kernel     text
--   driver     text
SELECT host, toInt64(toUnixTimestamp(max(seen))) * 1000000000, toInt64(argMax(lag_s, seen)) * 1000000000,
	argMax(gpus, seen), argMax(cpus, seen), uniqExact(boot), uniqExact(machine), argMax(tracesmith, seen),
	argMax(kernel, seen), argMax(driver, seen)
FROM host FINAL
WHERE seen >= :since AND :of_host
GROUP BY host
ORDER BY max(seen), host
LIMIT :limit
