-- for metrics: stacks of running processes that leak
--
-- flags: internal quick
-- columns:
--   process id
--   device  id
--   leaks   integer
SELECT g.process, g.device, sum(g.verdict = @VERDICT_IS_LEAK@ AND g.allocations > g.frees)
FROM growth g
JOIN process p ON p.id = g.process
WHERE p.boot = :boot AND @RUNNING@
GROUP BY g.process, g.device
ORDER BY 1, 2
LIMIT :limit
