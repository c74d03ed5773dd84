-- for the page: calls of threads
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
SELECT process, tid, -1, (max(start_ns, :since) - :since) / :step AS place, count(*),
	CAST(total(min(end_ns, :until) - max(start_ns, :since)) AS INTEGER), max(end_ns - start_ns),
	start_ns, end_ns, kind, fn, 0
FROM op
WHERE @OF_WINDOW@ AND @IS_CALL_OP@ AND end_ns >= :since AND start_ns < :until AND tid > 0
GROUP BY process, tid, place
UNION ALL
-- launches whose return is not probed
SELECT process, tid, -1, (start_ns - :since) / :step AS place, count(*), 0, max(0),
	start_ns, start_ns, kind, fn, 0
FROM op
WHERE @OF_WINDOW@ AND kind = 'launch' AND flags & @OP_IS_NODE@ = 0 AND start_ns >= :since
AND start_ns < :until AND end_ns IS NULL AND tid > 0
GROUP BY process, tid, place
ORDER BY 1, 2, 4
LIMIT :limit
