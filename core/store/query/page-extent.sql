-- for the page: how many operations there are, and from when to when
--
-- Of chunks: those of the window and a few around.
--
-- options: pid window
-- flags: internal
-- columns:
--   ops      integer
--   first_ns time
--   last_ns  time
SELECT coalesce(sum(ops), 0), min(first_ns), max(last_ns)
FROM chunk
WHERE boot = :boot AND first_ns < :until AND last_ns >= :since AND @OF_ASKED@
ORDER BY 1
LIMIT :limit
