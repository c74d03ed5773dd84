-- for tracesmith-ship: what tracing costs the processes that ran in a minute
--
-- options: boot number
-- flags: internal
-- columns:
--   process       id
--   part          text
--   first_ns      time
--   seen_ns       time
--   measured      integer
--   budget_ppm    integer
--   share_ppm     integer
--   cost_ppm      integer
--   cost_low_ppm  integer
--   cost_high_ppm integer
SELECT p.id, @PRICE_PART@, p.first_ns, b.last_ns, c.measured, c.budget_ppm, c.share_ppm,
	c.cost_ppm, c.cost_low_ppm, c.cost_high_ppm
FROM process p JOIN boot b ON b.id = p.boot JOIN price c ON c.process = p.id
WHERE @RAN_IN_MINUTE@
ORDER BY p.id, c.part
LIMIT :limit
