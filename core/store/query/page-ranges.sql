-- for the page: ranges of threads
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
SELECT process, tid, -1, (max(start_ns, :since) - :since) / :step, count(*), 0,
	max(end_ns - start_ns), start_ns, end_ns, kind, name, 0
FROM op
WHERE @OF_WINDOW@ AND kind = 'range' AND end_ns >= :since AND start_ns < :until
GROUP BY 1, 2, 4
ORDER BY 1, 2, 4
LIMIT :limit
