-- what was lost in the last ten minutes and makes answers incomplete; not what is left out on purpose
--
-- flags: internal
-- columns:
--   reason text
--   count  integer
SELECT r.name, sum(l.count) FROM loss l JOIN loss_reason r ON r.id = l.reason
WHERE l.boot = (SELECT max(id) FROM boot) AND l.end_ns >= :now - 600000000000
AND @IS_ALARM@
GROUP BY r.name
ORDER BY 2 DESC
LIMIT :limit
