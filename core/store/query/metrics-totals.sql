-- for metrics: what each process has done since it started, and all that ended before
--
-- flags: internal quick
-- columns:
--   process id
--   what    text
--   device  id
--   part    integer
--   name    text
--   count   integer
--   ns      nanoseconds
--   bytes   bytes
SELECT t.process, @TOTAL_WHAT@ AS what, t.device, t.part,
	coalesce(k.name, d.name, r.name, CASE what WHEN @TOTAL_IS_ERRORS@ THEN result_name(part)
		WHEN @TOTAL_IS_MISSED@ THEN @PRICE_PART@ END),
	t.count, t.ns, t.bytes
FROM total t
LEFT JOIN kind k ON what IN (@TOTAL_OF_KINDS@) AND k.id = t.part
LEFT JOIN detail d ON d.kind = (
	SELECT id FROM kind
	WHERE name = CASE WHEN what IN (@TOTAL_OF_COPIES@) THEN 'copy' WHEN what = @TOTAL_IS_STATES@ THEN 'state' END
) AND d.id = t.part
LEFT JOIN loss_reason r ON what = @TOTAL_IS_LOSSES@ AND r.id = t.part
ORDER BY t.process, t.what, t.device, t.part
LIMIT :limit
