-- for the page: states of devices
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
SELECT process, 0, device, (max(start_ns, :since) - :since) / :step, count(*),
	CAST(total(min(end_ns, :until) - max(start_ns, :since)) AS INTEGER), max(end_ns - start_ns),
	start_ns, end_ns, kind, detail, 0
FROM op
WHERE @OF_WINDOW@ AND kind = 'state' AND stream = 0 AND end_ns >= :since AND start_ns < :until
GROUP BY 1, 3, 4
ORDER BY 1, 3, 4
LIMIT :limit
