-- when the first operation of a window starts and the last one ends
--
-- options: pid window
-- flags: internal
-- columns:
--   first_ns time
--   last_ns  time
SELECT min(first_ns), max(last_ns) FILTER (WHERE kind NOT IN
	(SELECT id FROM kind WHERE name IN ('state', 'overhead')))
FROM chunk
WHERE boot = :boot AND last_ns >= :since AND @OF_ASKED@
ORDER BY 1
LIMIT :limit
