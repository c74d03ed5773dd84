-- for the page: work of streams
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
SELECT process, stream, device, (max(gpu_start_ns, :since) - :since) / :step, count(*),
	CAST(total(min(gpu_end_ns, :until) - max(gpu_start_ns, :since)) AS INTEGER), max(gpu_end_ns - gpu_start_ns),
	gpu_start_ns, gpu_end_ns, iif(kind = 'launch' AND exact, 'kernel', kind),
	coalesce(name, detail, fn), sum(bounds)
FROM op
WHERE @OF_WINDOW@ AND @IS_WORK_OP@
AND gpu_end_ns >= :since AND gpu_start_ns < :until AND start_ns < :until
GROUP BY 1, 2, 3, 4
ORDER BY 1, 2, 3, 4
LIMIT :limit
