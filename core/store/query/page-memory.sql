-- for the page: memory of devices; busy_ns are bytes
--
-- Rows are groups, one for each column of a lane: how many start there, how much of its time they
-- cover, and the longest of them.
--
-- options: pid window step
-- flags: internal
-- columns:
--   process    id
--   lane       id
--   device     integer
--   place      integer
--   count      integer
--   busy_ns    nanoseconds
--   longest_ns nanoseconds
--   start_ns   time
--   end_ns     time
--   kind       text
--   name       text
--   bounds     integer
SELECT process, 0, device, (start_ns - :since) / :step, count(*), max(live_bytes), 0,
	start_ns, start_ns, kind, detail, 0
FROM op
WHERE @OF_WINDOW@ AND kind IN ('alloc', 'free') AND start_ns >= :since AND start_ns < :until
AND device >= 0 AND detail NOT IN ('host', 'registered')
GROUP BY 1, 3, 4
ORDER BY 1, 3, 4
LIMIT :limit
