-- what is missing from the answers, and why
--
-- options: pid window
-- limit: 1000
-- about: all loss
-- nothing: Nothing was lost
-- columns:
--   reason   text
--   pid      id
--   count    integer
--   first_ns time
--   last_ns  time
--   text     text
SELECT r.name, p.pid, CAST(total(l.count) AS INTEGER), min(l.start_ns), max(l.end_ns), r.text
FROM loss l
JOIN loss_reason r ON r.id = l.reason
LEFT JOIN process p ON p.id = l.process
WHERE l.boot = :boot AND l.end_ns >= :since AND l.start_ns <= :until
AND (@ASKED@ OR l.process = 0 AND EXISTS (
	SELECT 1 FROM process p WHERE boot = :boot AND @ASKED@
	AND @STARTED@ <= l.end_ns
	AND (@RUNNING@ OR p.exit_ns >= l.start_ns)))
GROUP BY l.reason, l.process
ORDER BY l.reason, p.pid
LIMIT :limit
