-- for metrics: what tracing costs running processes
--
-- flags: internal quick
-- columns:
--   process id
--   part    text
--   cost    share
--   high    share
--   budget  share
--   watched share
SELECT process, @PRICE_PART@, cost_ppm, CASE WHEN measured THEN cost_high_ppm END,
	nullif(budget_ppm, 0), share_ppm
FROM price
JOIN process p ON p.id = process
WHERE p.boot = :boot AND @RUNNING@ AND @PRICE_HOLDS@
ORDER BY process, part
LIMIT :limit
